"""Shared parts of the commands: base class, arguments that name a biLM, paths, and output."""

import argparse
import os
import tempfile
from pathlib import Path

from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import check_for_gpu
from allennlp.common.util import int_to_device

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.files.atomic_write import check_is_new
from elmo_plugin.files.local_path import local_path
from elmo_plugin.files.standard_streams import check_standard_output, output_encoding, piped_output
from elmo_plugin.formats.find import KEYS, find_bilm, one_bilm
from elmo_plugin.plugin.errors import named
from elmo_plugin.plugin.task_address import with_repeats
from elmo_plugin.pretrained import pretrained_names

NAMES_OF_A_BILM = (
    "the model.tar.gz or the folder of a trained bilm, or of a task model with the embedder elmo "
    "(ARCHIVE#NAME if it has several); a folder, zip or tar.gz file with bilm-tf's options.json "
    "and an HDF5 file; or hf://USER/REPOSITORY"
)
"""Help of an argument for anything that `find_bilm` finds."""


class Command(Subcommand):
    """A command of `allennlp`. Its help begins with the class docstring."""

    prints_its_result = False
    """Whether the result is what is printed, and not a file."""

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
        if self.prints_its_result:
            check_standard_output()
        with piped_output():
            self.run(args)


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--pretrained", choices=pretrained_names(), help="the name of a model in the package"
    )
    parser.add_argument("--archive-file", help=NAMES_OF_A_BILM)
    parser.add_argument("--options-file", help="the options file of bilm-tf")
    parser.add_argument("--weight-file", help="the weight file of bilm-tf")
    parser.add_argument("--cuda-device", type=int, default=-1, help="a GPU, or -1 for the CPU")


def load_elmo(args: argparse.Namespace, initial_state: str = "warm") -> Elmo:
    """
    Load the biLM that the arguments name, in evaluation mode and on its device. Raises a
    `ConfigurationError` or a `RuntimeError` if there is no such GPU, an `InputError` if the
    arguments do not name exactly one biLM, and a `FileNotFoundError` if a file does not exist.
    """
    check_for_gpu(args.cuda_device)
    values = (getattr(args, key) for key in KEYS)
    files = one_bilm(values, [f"--{key.replace('_', '-')}" for key in KEYS])
    elmo = Elmo(find_bilm(*files.values()).bilm, initial_state=initial_state)
    return elmo.eval().to(int_to_device(args.cuda_device))


def input_path(argument: str, path: str, expected: str) -> str:
    """
    The local path of an input file or folder. A URL is downloaded. If nothing is found, the
    `FileNotFoundError` names the argument.
    """
    with named(argument):
        return local_path(with_repeats(path), expected)


def check_output_file(argument: str, file: str) -> None:
    """
    Raise an `InputError` if the output `file` exists or cannot be written, before hours of work.
    For a link, its target is checked.
    """
    check_is_new(file)
    folder = Path(os.path.realpath(file)).parent
    try:  # permissions alone do not tell, as in /proc
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(
            f"{argument}: {file}: expected to write into the folder {folder}, found: "
            f"{error.strerror}"
        ) from None


def print_text(text: str) -> None:
    """Print text, escaping characters outside the terminal's encoding, as in `caf\\xe9`."""
    encoding = output_encoding()
    print(text.encode(encoding, "backslashreplace").decode(encoding))
