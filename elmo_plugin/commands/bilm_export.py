"""
`allennlp bilm-export`: a trained language model as bilm-tf's files, for everything that reads them.
"""

import argparse

import torch
from allennlp.commands.subcommand import Subcommand

from elmo_plugin.commands.paths import input_path
from elmo_plugin.models.export import export, who_reads
from elmo_plugin.models.load import load_language_model


@Subcommand.register("bilm-export")
class BilmExport(Subcommand):
    """
    Writes `options.json`, `weights.hdf5` and `vocabulary.txt`, and says whether AllenNLP's own ELMo
    reads them.
    """

    def add_subparser(self, parser: argparse._SubParsersAction) -> argparse.ArgumentParser:
        description = "Write a trained bilm as options.json, weights.hdf5 and vocabulary.txt."
        subparser = parser.add_parser(self.name, description=description, help=description)
        subparser.add_argument("archive", type=str, help="the model.tar.gz of a trained bilm")
        subparser.add_argument("folder", type=str, help="where the three files go")
        subparser.add_argument(
            "--softmax",
            action="store_true",
            help="add the softmax's weights, which bilm-tf leaves out and ELMo does not need",
        )
        subparser.add_argument(
            "--float16", action="store_true", help="round the weights, to half the file's size"
        )
        subparser.set_defaults(func=export_from_args)
        return subparser


def export_from_args(args: argparse.Namespace) -> None:
    dtype = torch.float16 if args.float16 else torch.float32
    archive = input_path("archive", args.archive, "the model.tar.gz of a trained bilm")
    model = load_language_model(archive)
    export(model, args.folder, with_softmax=args.softmax, dtype=dtype)
    print(f"wrote options.json, weights.hdf5 and vocabulary.txt to {args.folder}")
    print(who_reads(model.options))
