import argparse

import torch
from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.arguments import NAMES_OF_A_BILM, print_text
from elmo_plugin.formats.bilm_tf.model_files import write_model_files
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.plugin.commands.command import Command
from elmo_plugin.plugin.models.export_files import who_reads


@Subcommand.register("bilm-export")
class BiLMExport(Command):
    """
    Writes a trained bilm, or the biLM of a task model with the embedder "elmo", as bilm-tf's
    options.json, weights.hdf5 and, for a bilm, vocabulary.txt, and says whether AllenNLP's own ELMo
    can read them.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("archive", help=NAMES_OF_A_BILM)
        parser.add_argument("folder", help="the folder for the files")
        parser.add_argument(
            "--softmax",
            action="store_true",
            help="include the weights of the softmax, which bilm-tf omits and ELMo does not need",
        )
        parser.add_argument(
            "--float16", action="store_true", help="write float16 weights, in half the space"
        )

    def run(self, args: argparse.Namespace) -> None:
        dtype = torch.float16 if args.float16 else torch.float32
        found = find_bilm(args.archive, with_softmax=True)
        softmax = found.softmax if args.softmax else None
        if args.softmax and softmax is None:
            raise InputError(f"{args.archive}: expected a softmax with its words, found none")
        names = write_model_files(
            args.folder, found.bilm, softmax=softmax, words=found.words, dtype=dtype
        )
        print_text(f"wrote {', '.join(names[:-1])} and {names[-1]} to {args.folder}")
        print(who_reads(found.options))
