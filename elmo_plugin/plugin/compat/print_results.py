"""
AllenNLP's command `print-results` fails with an error about an iterable if it has no `--keys`, does
not name a file that is not JSON, and prints an empty table for a folder without results. Importing
this checks its arguments, and lists the keys that there are. Remove it when AllenNLP does so.
"""

import json
import os
from argparse import Namespace
from pathlib import Path

from allennlp.commands import print_results

from elmo_plugin.checks import InputError, fail

_print_results = print_results.print_results_from_args


def _print_after_checks(args: Namespace) -> None:
    name = args.metrics_filename
    files = [Path(root, name) for root, _, files in os.walk(args.path) if name in files]
    if not files:
        fail(
            "path", f"the folder of a training run with {name}, or one with such folders", args.path
        )
    keys: set[str] = set()
    for file in files:
        try:
            metrics = json.loads(file.read_text("utf-8"))  # NaN and Infinity are permitted
        except ValueError as error:
            raise InputError(f"{file}: expected metrics in JSON, found {error}") from None
        if not isinstance(metrics, dict):
            fail(str(file), "an object with metrics", metrics)
        keys |= metrics.keys()
    if not args.keys:
        raise InputError(f"--keys: expected some of {', '.join(sorted(keys))}, found none")
    _print_results(args)


print_results.print_results_from_args = _print_after_checks
