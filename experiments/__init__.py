"""
The commands behind the numbers in the documentation. `python -m experiments.NAME` prints a table as
Markdown; `--help` describes its arguments.
"""
