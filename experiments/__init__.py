"""
The commands behind the numbers in the documentation. Each module that is run as
`python -m experiments.NAME` prints a table as Markdown; `--help` describes its arguments.
"""
