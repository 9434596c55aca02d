"""
The commands of `python -m elmo_plugin`, which need no AllenNLP. Each has a module with
`DESCRIPTION`, `add_arguments` and `run`; `runner.py` runs it.
"""
