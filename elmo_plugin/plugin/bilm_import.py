"""The command `bilm-import`, whose archive only AllenNLP can write."""

import argparse

from elmo_plugin.checks import InputError
from elmo_plugin.commands.arguments import check_output_file
from elmo_plugin.commands.streams import print_text
from elmo_plugin.plugin.models.archives import import_files

FILES = {
    "OPTIONS": "the options.json of bilm-tf",
    "WEIGHTS": "the weights in HDF5",
    "VOCABULARY": "the words of the softmax, one per line",
    "ARCHIVE": "the model.tar.gz to write",
}
FORMS = f"{' '.join(FILES)}, or with --checkpoint [VOCABULARY] ARCHIVE"

DESCRIPTION = """
Makes the archive of a bilm, as `train` would, from the files of bilm-tf. With --checkpoint, the
arguments are [VOCABULARY] ARCHIVE.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    for name, text in FILES.items():
        # One by one, so that options may stand between them; `run` checks their number.
        # AllenNLP's parser does not return the argument.
        argument = argparse.ArgumentParser.add_argument(
            parser, "files", action="append", metavar=name, help=text
        )
        argument.required = False
    parser.add_argument("--softmax", help="the softmax in HDF5, if it is not in WEIGHTS")
    parser.add_argument(
        "--checkpoint",
        help="a TensorFlow checkpoint instead of OPTIONS and WEIGHTS: its folder with "
        "options.json, or FOLDER/model.ckpt-STEP; VOCABULARY is not needed if the folder has a "
        "vocab*.txt",
    )


def run(args: argparse.Namespace) -> None:
    files = given = args.files or []
    if args.checkpoint is not None:
        no_vocabulary = [None] if len(given) == 1 else []
        files = [args.checkpoint, None, *no_vocabulary, *given]
    if len(files) != len(FILES):
        raise InputError(f"bilm-import: expected {FORMS}, found {len(given)} files")
    options, weights, vocabulary, archive = files
    check_output_file("archive", archive)
    import_files(options, weights, vocabulary, archive, args.softmax)
    print_text(f"wrote {archive}")
