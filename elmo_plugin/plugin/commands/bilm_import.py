"""
`allennlp bilm-import` makes the archive of a language model from bilm-tf's files.
"""

import argparse
from pathlib import Path

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.commands.output import print_text
from elmo_plugin.plugin.commands.paths import check_output_folder, input_path
from elmo_plugin.plugin.models.archives import import_files


@Subcommand.register("bilm-import")
class BilmImport(Subcommand):
    """
    Makes a `model.tar.gz` for `evaluate`, `predict` and `elmo`, as `train` would.
    """

    def add_subparser(self, parser: argparse._SubParsersAction) -> argparse.ArgumentParser:
        description = "Make the archive of a bilm from the files of bilm-tf."
        subparser = parser.add_parser(self.name, description=description, help=description)
        subparser.add_argument("options", type=str, help="the options.json of bilm-tf")
        subparser.add_argument("weights", type=str, help="the weights with the softmax, in HDF5")
        subparser.add_argument("vocabulary", type=str, help="the words, one a line")
        subparser.add_argument("archive", type=str, help="the model.tar.gz to write")
        subparser.set_defaults(func=import_from_args)
        return subparser


def import_from_args(args: argparse.Namespace) -> None:
    options = input_path("options", args.options, "bilm-tf's options.json")
    weights = input_path("weights", args.weights, "bilm-tf's weights in HDF5")
    vocabulary = input_path("vocabulary", args.vocabulary, "a file of words, one a line")
    check_output_folder("archive", args.archive)
    if Path(args.archive).is_dir():
        raise InputError(f"archive: {args.archive}: expected a file to write, found a folder")
    import_files(options, weights, vocabulary, args.archive)
    print_text(f"wrote {args.archive}")
