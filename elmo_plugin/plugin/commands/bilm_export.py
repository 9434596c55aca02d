import argparse

import torch
from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import check_path
from elmo_plugin.elmo.arguments import print_text
from elmo_plugin.plugin.commands.command import Command
from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.plugin.models.export_files import export_files, who_reads


@Subcommand.register("bilm-export")
class BiLMExport(Command):
    """
    Writes a trained bilm as bilm-tf's options.json, weights.hdf5 and vocabulary.txt, and says
    whether AllenNLP's own ELMo can read them.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("archive", help="the model.tar.gz or folder of a trained bilm")
        parser.add_argument("folder", help="the folder for the three files")
        parser.add_argument(
            "--softmax",
            action="store_true",
            help="include the weights of the softmax, which bilm-tf omits and ELMo does not need",
        )
        parser.add_argument(
            "--float16", action="store_true", help="write float16 weights, in half the space"
        )

    def run(self, args: argparse.Namespace) -> None:
        check_path("archive", args.archive)
        check_path("folder", args.folder)
        dtype = torch.float16 if args.float16 else torch.float32
        model = load_language_model(args.archive)
        export_files(model, args.folder, with_softmax=args.softmax, dtype=dtype)
        print_text(f"wrote options.json, weights.hdf5 and vocabulary.txt to {args.folder}")
        print(who_reads(model.bilm.options))
