"""Runs a command of this folder: its arguments, its errors and its exit code."""

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

from elmo_plugin.checks import InputError
from elmo_plugin.commands.streams import occupy_closed_streams, piped_output
from elmo_plugin.files import interrupts
from elmo_plugin.text.advice import advised, in_lines

PROGRAM = "python -m elmo_plugin"
NAMES = "elmo score uses bilm-encode bilm-export elmo-mix elmo-configs".split()
DEBUG = "ALLENNLP_DEBUG"
"""The environment variable with which an error shows its traceback."""
LONGEST = 1000
"""Length in characters at which a message is truncated."""


def command_named(name: str) -> Any:
    """The module of a command."""
    return import_module(f"elmo_plugin.commands.{name.replace('-', '_')}")


def run_program(name: str, arguments: Sequence[str]) -> int | str | None:
    """Run a command and return the argument of `sys.exit`: an error in one line, or a code."""
    try:
        try:
            command = command_named(name)  # seconds, in which PyTorch is imported
            parser = argparse.ArgumentParser(
                prog=f"{PROGRAM} {name}", description=command.DESCRIPTION, formatter_class=_Help
            )
            command.add_arguments(parser)
            args = parser.parse_args(arguments)
            occupy_closed_streams()
            run_command(command, args)
        finally:
            interrupts.end_if_interrupted()
    except KeyboardInterrupt:
        print(f"{PROGRAM}: interrupted", file=sys.stderr)
        return 128 + (interrupts.received or signal.SIGINT)
    except Exception as error:
        if DEBUG in os.environ:
            raise
        return f"{PROGRAM}: {in_one_line(error, isinstance(error, InputError | OSError))}"
    return None


def run_command(command: Any, args: argparse.Namespace) -> None:
    """Run a command with its arguments, in this program or in AllenNLP's."""
    # To most programs, an empty path is the current folder.
    for name, value in vars(args).items():
        if value == "" or (isinstance(value, list) and "" in value):
            raise InputError(f"{name}: expected a value, found an empty one")
    with piped_output(), in_lines(), advised():
        command.run(args)


def in_one_line(error: Exception, is_clear: bool) -> str:
    """The message of an error. `is_clear`: whether it says to a user what is wrong."""
    message = " ".join(str(error).split())
    if not is_clear:
        message = f"{type(error).__name__}: {message}; {DEBUG}=1 shows where"
    return message if len(message) <= LONGEST else f"{message[:LONGEST]}..."


class _Help(argparse.ArgumentDefaultsHelpFormatter):
    """Help that says the defaults of options that have one."""

    def _get_help_string(self, action: argparse.Action) -> str | None:
        has_default = action.default is not None and action.default is not False
        return super()._get_help_string(action) if has_default else action.help
