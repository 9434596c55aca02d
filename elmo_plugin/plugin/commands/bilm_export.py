import argparse
from pathlib import Path

import torch
from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.arguments import NAMES_OF_A_BILM, print_text
from elmo_plugin.files.atomic_write import atomic_write, check_is_new
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.plugin.commands.command import Command
from elmo_plugin.plugin.models.export_readers import who_reads
from elmo_plugin.plugin.models.model_card import model_card


@Subcommand.register("bilm-export")
class BiLMExport(Command):
    """
    Writes a biLM as bilm-tf's options.json and weights.hdf5, with vocabulary.txt for a trained bilm
    and elmo_mixes.json for a task model with trained mixes, and says whether AllenNLP's own ELMo
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
        parser.add_argument(
            "--card",
            action="store_true",
            help="also write README.md, the model card with which the Hugging Face Hub shows the "
            "folder as a model",
        )
        parser.add_argument(
            "--license", help="the license in the card, as the Hub names it, such as apache-2.0"
        )
        parser.add_argument(
            "--language",
            action="append",
            default=[],
            help="a language in the card, such as en; may be repeated",
        )

    def run(self, args: argparse.Namespace) -> None:
        if not args.card and (args.license or args.language):
            raise InputError("--license and --language: expected --card with them, found none")
        dtype = torch.float16 if args.float16 else torch.float32
        found = find_bilm(args.archive, with_softmax=True)
        softmax = found.softmax if args.softmax else None
        if args.softmax and softmax is None:
            raise InputError(f"{args.archive}: expected a softmax with its words, found none")
        readme = Path(args.folder, "README.md")
        if args.card:
            check_is_new(readme)
            name = readme.absolute().parent.name
            card = model_card(name, found.options, args.license or "unknown", args.language)
        names = write_model_files(
            args.folder,
            found.bilm,
            softmax=softmax,
            words=found.words,
            mixes=found.mixes,
            dtype=dtype,
        )
        if args.card:
            with atomic_write(readme) as temporary:
                temporary.write_text(card, "utf-8")
            names.append(readme.name)
        print_text(f"wrote {', '.join(names[:-1])} and {names[-1]} to {args.folder}")
        print(who_reads(found.options))
        if args.card:
            print_text(f"in {readme}, describe the training text and replace USER/REPOSITORY")
