import argparse

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.arguments import check_output_file, print_text
from elmo_plugin.plugin.commands.command import Command
from elmo_plugin.plugin.models.archives import import_files

FORMS = "OPTIONS WEIGHTS VOCABULARY ARCHIVE, or with --checkpoint [VOCABULARY] ARCHIVE"


@Subcommand.register("bilm-import")
class BiLMImport(Command):
    """
    Makes the archive of a bilm, as `train` would, from the files of bilm-tf.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "files",
            nargs="+",
            metavar="FILE",
            help=f"{FORMS}: the options.json of bilm-tf, the weights in HDF5, the words of the "
            "softmax, one per line, and the model.tar.gz to write",
        )
        parser.add_argument("--softmax", help="the softmax in HDF5, if it is not in WEIGHTS")
        parser.add_argument(
            "--checkpoint",
            help="a TensorFlow checkpoint instead of OPTIONS and WEIGHTS: its folder with "
            "options.json, or FOLDER/model.ckpt-STEP; VOCABULARY is not needed if the folder has a "
            "vocab*.txt",
        )

    def run(self, args: argparse.Namespace) -> None:
        *files, archive = args.files
        if args.checkpoint is not None:
            files = [args.checkpoint, None, *(files or [None])]
        if len(files) != 3:
            raise InputError(f"bilm-import: expected {FORMS}, found {len(args.files)} files")
        check_output_file("archive", archive)
        options, weights, vocabulary = files
        import_files(options, weights, vocabulary, archive, args.softmax)
        print_text(f"wrote {archive}")
