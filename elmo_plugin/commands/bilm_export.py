"""The command `bilm-export`: a biLM as bilm-tf's files."""

import argparse

import torch

from elmo_plugin.checks import InputError
from elmo_plugin.commands.streams import print_text
from elmo_plugin.formats.allennlp_elmo import who_reads
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.find import NAMES_OF_A_BILM, find_bilm

DESCRIPTION = """
Writes a biLM as bilm-tf's options.json and weights.hdf5, with vocabulary.txt if it has the
words of a softmax or of a table, and elmo_mixes.json for a task model with trained mixes, and
says whether AllenNLP's own ELMo can read them.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
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


def run(args: argparse.Namespace) -> None:
    dtype = torch.float16 if args.float16 else torch.float32
    found = find_bilm(args.archive, with_softmax=True)
    softmax = found.softmax if args.softmax else None
    if args.softmax and softmax is None:
        raise InputError(f"{args.archive}: expected a softmax with its words, found none")
    names = write_model_files(
        args.folder, found.bilm, softmax=softmax, words=found.words, mixes=found.mixes, dtype=dtype
    )
    print_text(f"wrote {', '.join(names[:-1])} and {names[-1]} to {args.folder}")
    print(who_reads(found.options))
