"""The command `elmo-configs`: a copy of the training configs."""

import argparse
from pathlib import Path

from elmo_plugin.checks import InputError
from elmo_plugin.commands.streams import print_text
from elmo_plugin.files.atomic_write import atomic_write, writable_folder

CONFIGS = (Path(__file__).parents[1] / "training_configs").resolve()
"""In a checkout this is a link to the folder `training_configs` of the repository."""

DESCRIPTION = """
Copies the training configs that come with the package into a folder, with the library
lib/elmo.libsonnet, which turns a config into its ELMo version in one line.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("folder", help="the folder to write, such as training_configs")
    parser.add_argument("--force", action="store_true", help="replace files that were edited")


def run(args: argparse.Namespace) -> None:
    texts = {
        Path(args.folder) / file.relative_to(CONFIGS): file.read_text("utf-8")
        for file in sorted(CONFIGS.rglob("*.*sonnet"))
    }
    edited = [
        str(path)
        for path, text in texts.items()
        if path.is_file() and path.read_bytes() != text.encode("utf-8")
    ]
    if edited and not args.force:
        raise InputError(
            f"folder: {args.folder}: expected no files or unedited ones, found others: "
            f"{', '.join(edited)}; --force replaces them"
        )
    with writable_folder("folder", args.folder):
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            with atomic_write(path) as temporary:
                temporary.write_text(text, "utf-8")
    print_text(
        f"wrote {len(texts)} files to {args.folder}; in a config next to this folder: local elmo = "
        f"import '{Path(args.folder).resolve().name}/lib/elmo.libsonnet'; fixtures/ is only in the "
        "repository: replace these paths by those of your data"
    )
