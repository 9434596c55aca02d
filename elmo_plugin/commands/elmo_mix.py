"""The command `elmo-mix`: the learned weights of ELMo's layers."""

import argparse
from pathlib import Path

from elmo_plugin.checks import InputError, named, named_as_given
from elmo_plugin.commands.streams import check_standard_output, print_text
from elmo_plugin.files.local_path import local_path
from elmo_plugin.formats.archive import read_weights
from elmo_plugin.formats.find import NEEDED
from elmo_plugin.formats.mixes import find_mixes
from elmo_plugin.formats.unpack import unpacked

DESCRIPTION = """
Prints the layer weights s and the scale gamma of each mix in the archives of models with the
embedder "elmo" or AllenNLP's own "elmo_token_embedder". Only the weights of an archive are
read.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "archives",
        nargs="+",
        metavar="archive",
        help="the model.tar.gz of a trained model, or the folder of a training run",
    )


def run(args: argparse.Namespace) -> None:
    check_standard_output()
    lines = []
    for archive in args.archives:
        with named("archive"):
            path = local_path(archive, "the model.tar.gz of a trained model")
        with named_as_given([archive], [path]), unpacked(Path(path), NEEDED) as folder:
            if not folder.is_dir():
                raise InputError("expected a model.tar.gz, found another kind of file")
            mixes = find_mixes(read_weights(folder))
            if not mixes:
                raise InputError(
                    "expected a model with a mix of ELMo's layers, a parameter "
                    "scalar_mix_0.gamma, found none"
                )
        lines += [f"{archive} {name}: {mix}" for name, mix in mixes.items()]
    print_text("\n".join(lines))
