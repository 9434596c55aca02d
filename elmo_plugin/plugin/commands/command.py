"""Shared parts of the commands: base classes and input paths."""

import argparse
from typing import Any

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError, named
from elmo_plugin.files.local_path import local_path
from elmo_plugin.files.standard_streams import piped_output
from elmo_plugin.plugin.faster.busy_machine import do_not_spin_if_busy


class Command(Subcommand):
    """A command of `allennlp`. Its help begins with the class docstring."""

    def add_subparser(self, parser: argparse._SubParsersAction) -> argparse.ArgumentParser:
        subparser = parser.add_parser(self.name, description=self.__doc__, help=self.__doc__)
        self.add_arguments(subparser)
        subparser.set_defaults(func=self._run)
        return subparser

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        raise NotImplementedError

    def run(self, args: argparse.Namespace) -> None:
        raise NotImplementedError

    def _run(self, args: argparse.Namespace) -> None:
        # To most programs, an empty path is the current folder.
        for name, value in vars(args).items():
            if value == "" or (isinstance(value, list) and "" in value):
                raise InputError(f"{name}: expected a value, found an empty one")
        with piped_output():
            self.run(args)


class PlainCommand(Command):
    """A command that is also one where AllenNLP is not installed; see `run_command`."""

    module: Any
    """Its module."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        self.module.add_arguments(parser)

    def run(self, args: argparse.Namespace) -> None:
        do_not_spin_if_busy()
        self.module.run(args)


def input_path(argument: str, path: str, expected: str) -> str:
    """
    The local path of an input file or folder. A URL is downloaded. If nothing is found, the
    `FileNotFoundError` names the argument.
    """
    with named(argument):
        return local_path(path, expected)
