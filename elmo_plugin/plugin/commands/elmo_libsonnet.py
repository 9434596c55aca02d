import argparse
from pathlib import Path

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError, check_path
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.libsonnet import LIBRARY
from elmo_plugin.plugin.commands.command import Command, check_output_file, print_text


@Subcommand.register("elmo-libsonnet")
class ElmoLibsonnet(Command):
    """
    Copies elmo.libsonnet, which converts a config to its ELMo version in one line, into the folder
    of the configs, because AllenNLP's Jsonnet cannot import files from the package.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("folder", help="the folder of the configs")

    def run(self, args: argparse.Namespace) -> None:
        check_path("folder", args.folder)
        path = Path(args.folder) / LIBRARY.name
        check_output_file("folder", str(path))
        library = LIBRARY.read_text()
        if path.exists() and path.read_text() != library:
            raise InputError(f"folder: {path}: expected no such file, found another one; remove it")
        with atomic_write(path) as temporary:
            temporary.write_text(library)
        print_text(f"wrote {path}; in a config: local elmo = import '{path.name}';")
