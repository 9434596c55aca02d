import argparse

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.commands.command import Command, check_output_file, print_text
from elmo_plugin.plugin.models.archives import import_files

FILES = {
    "options": "the options.json of bilm-tf",
    "weights": "the weights in HDF5",
    "vocabulary": "the words of the softmax, one per line",
    "archive": "the model.tar.gz to write",
}


@Subcommand.register("bilm-import")
class BiLMImport(Command):
    """
    Makes the archive of a bilm, as `train` would, from the files of bilm-tf. With --checkpoint, the
    arguments are [VOCABULARY] ARCHIVE.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        for name, text in FILES.items():
            # AllenNLP's parser does not return the argument.
            argument = argparse.ArgumentParser.add_argument(
                parser, "files", action="append", metavar=name.upper(), help=text
            )
            argument.required = False  # `run` checks their number
        parser.add_argument("--softmax", help="the softmax in HDF5, if it is not in WEIGHTS")
        parser.add_argument(
            "--checkpoint",
            help="a TensorFlow checkpoint instead of OPTIONS and WEIGHTS: its folder with "
            "options.json, or FOLDER/model.ckpt-STEP; VOCABULARY is not needed if the folder has a "
            "vocab*.txt",
        )

    def run(self, args: argparse.Namespace) -> None:
        given, names = args.files or [], list(FILES)
        if args.checkpoint is not None:
            names = ["vocabulary", "archive"][-len(given) :]
        if len(names) != len(given):
            expected = " ".join(FILES) if args.checkpoint is None else "[vocabulary] archive"
            raise InputError(f"bilm-import: expected {expected.upper()}, found {len(given)} files")
        files = dict(zip(names, given))
        archive = files.pop("archive")
        check_output_file("archive", archive)
        options = args.checkpoint or files["options"]
        weights, vocabulary = files.get("weights"), files.get("vocabulary")
        import_files(options, weights, vocabulary, archive, args.softmax)
        print_text(f"wrote {archive}")
