"""
`allennlp elmo-libsonnet` writes the jsonnet library into a folder, so that configs there can import
it. AllenNLP gives jsonnet no path on which it could find the library in the package.
"""

import argparse
from pathlib import Path

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError, check_path
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.libsonnet import LIBRARY
from elmo_plugin.plugin.commands.output import print_text
from elmo_plugin.plugin.commands.paths import check_output_folder


@Subcommand.register("elmo-libsonnet")
class ElmoLibsonnet(Subcommand):
    """
    Writes `elmo.libsonnet`, which turns a config into its ELMo version in one line.
    """

    def add_subparser(self, parser: argparse._SubParsersAction) -> argparse.ArgumentParser:
        description = "Write elmo.libsonnet, which turns a config into its ELMo version."
        subparser = parser.add_parser(self.name, description=description, help=description)
        subparser.add_argument("folder", type=str, help="the folder of the configs")
        subparser.add_argument(
            "--force", action="store_true", help="replace a file that was changed"
        )
        subparser.set_defaults(func=write_from_args)
        return subparser


def write_from_args(args: argparse.Namespace) -> None:
    check_path("folder", args.folder)
    path = Path(args.folder) / LIBRARY.name
    check_output_folder("folder", str(path))
    library = LIBRARY.read_text()
    if path.exists() and not args.force and path.read_text() != library:
        raise InputError(
            f"folder: {path}: expected no such file, found another one (--force replaces it)"
        )
    with atomic_write(path) as temporary:
        temporary.write_text(library)
    print_text(f"wrote {path}; in a config: local elmo = import '{path.name}';")
