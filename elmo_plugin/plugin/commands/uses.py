import argparse

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import fail
from elmo_plugin.elmo.uses import write_uses
from elmo_plugin.plugin.commands.command import (
    Command,
    add_model_arguments,
    check_output_file,
    load_elmo,
    print_text,
)
from elmo_plugin.plugin.faster.busy_machine import do_not_spin_if_busy
from elmo_plugin.plugin.task_address import with_repeats


@Subcommand.register("uses")
class Uses(Command):
    """
    Writes the uses of words in a text to an HDF5 file: each occurrence with its sentence, its place
    and its vector.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "text",
            help="a file, a glob, a folder or docs://heldout, one sentence per line; plain, .gz, "
            ".xz or .zst",
        )
        parser.add_argument(
            "words", help="a file; each line has a word or, after a tab, the forms of a word"
        )
        parser.add_argument("out", help="the HDF5 file to write")
        parser.add_argument(
            "--most", type=int, metavar="N", help="at most N uses of each word, drawn at random"
        )
        parser.add_argument("--seed", type=int, default=0, help="the seed of the draw")
        parser.add_argument(
            "--layer", default="top", help="top, average, or a number, where 0 is the words"
        )
        add_model_arguments(parser)

    def run(self, args: argparse.Namespace) -> None:
        check_output_file("out", args.out)
        do_not_spin_if_busy()
        elmo = load_elmo(args)
        layers: dict[str, str | int] = {str(k): k for k in range(elmo.n_layers)}
        layers |= {"top": "top", "average": "average"}
        if args.layer not in layers:
            fail("--layer", f"top, average or a number below {elmo.n_layers}", args.layer)
        text = with_repeats(args.text)
        options = text, args.words, layers[args.layer], args.most, args.seed
        print_text(f"{args.out}: {write_uses(args.out, elmo, *options):,} uses")
