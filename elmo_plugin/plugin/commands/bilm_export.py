"""
`allennlp bilm-export` writes a trained language model as the files of bilm-tf.
"""

import argparse

import torch
from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import check_path
from elmo_plugin.plugin.commands.output import print_text
from elmo_plugin.plugin.commands.paths import input_path
from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.plugin.models.export import export, who_reads


@Subcommand.register("bilm-export")
class BilmExport(Subcommand):
    """
    Writes `options.json`, `weights.hdf5` and `vocabulary.txt`, and prints whether AllenNLP's own
    ELMo can read them.
    """

    def add_subparser(self, parser: argparse._SubParsersAction) -> argparse.ArgumentParser:
        description = "Write a trained bilm as options.json, weights.hdf5 and vocabulary.txt."
        subparser = parser.add_parser(self.name, description=description, help=description)
        subparser.add_argument("archive", type=str, help="the model.tar.gz of a trained bilm")
        subparser.add_argument("folder", type=str, help="the folder for the three files")
        subparser.add_argument(
            "--softmax",
            action="store_true",
            help="include the weights of the softmax, which bilm-tf omits and ELMo does not need",
        )
        subparser.add_argument(
            "--float16", action="store_true", help="write float16 weights, in half the space"
        )
        subparser.set_defaults(func=export_from_args)
        return subparser


def export_from_args(args: argparse.Namespace) -> None:
    check_path("folder", args.folder)
    dtype = torch.float16 if args.float16 else torch.float32
    archive = input_path("archive", args.archive, "the model.tar.gz of a trained bilm")
    model = load_language_model(archive)
    export(model, args.folder, with_softmax=args.softmax, dtype=dtype)
    print_text(f"wrote options.json, weights.hdf5 and vocabulary.txt to {args.folder}")
    print(who_reads(model.bilm.options))
