import argparse

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import check_path
from elmo_plugin.elmo.arguments import check_output_file, print_text
from elmo_plugin.plugin.commands.command import Command
from elmo_plugin.plugin.models.archives import import_files


@Subcommand.register("bilm-import")
class BiLMImport(Command):
    """
    Makes the archive of a bilm, as `train` would, from the files of bilm-tf.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("options", help="the options.json of bilm-tf")
        parser.add_argument("weights", help="the weights with the softmax, in HDF5")
        parser.add_argument("vocabulary", help="the words, one per line")
        parser.add_argument("archive", help="the model.tar.gz to write")

    def run(self, args: argparse.Namespace) -> None:
        for argument in ("options", "weights", "vocabulary"):
            check_path(argument, getattr(args, argument))
        check_output_file("archive", args.archive)
        import_files(args.options, args.weights, args.vocabulary, args.archive)
        print_text(f"wrote {args.archive}")
