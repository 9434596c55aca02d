"""The command `uses`: the vectors of chosen words in a text."""

import argparse
from pathlib import Path

from elmo_plugin.checks import check_count, check_path, fail
from elmo_plugin.commands.arguments import (
    add_model_arguments,
    add_shard,
    check_output_file,
    load_elmo,
    readable,
)
from elmo_plugin.commands.streams import print_text
from elmo_plugin.corpora.controls import control_words
from elmo_plugin.corpora.uses import write_uses
from elmo_plugin.corpora.word_list import hint_at_tabs
from elmo_plugin.files.local_path import local_path
from elmo_plugin.text.advice import Advice, collected
from elmo_plugin.text.lines import TABLE_NAME

DESCRIPTION = """
Writes the occurrences of words in a text, or at the positions in a table, to an HDF5 file: each
with its sentence, its position and its vector.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "text",
        help="a file, a glob or a folder, one sentence per line; plain, .gz, .xz or .zst; or a "
        "table, .csv or .tsv, with the columns sentence, start, end and perhaps word",
    )
    parser.add_argument(
        "words",
        help="a file; each line has a word or, separated by a tab, a word and its forms, separated "
        "by spaces or, if they have several tokens, by tabs; for a table: characters or tokens, "
        "the unit of start and end",
    )
    parser.add_argument("out", help="the HDF5 file to write")
    parser.add_argument(
        "--most", type=int, metavar="N", help="at most N uses of each word, drawn at random"
    )
    parser.add_argument("--controls", type=int, metavar="N", help="add N controls for each word")
    parser.add_argument("--compared-with", metavar="TEXT", help="the other text, for --controls")
    parser.add_argument("--seed", type=int, default=0, help="the seed of both draws")
    parser.add_argument(
        "--layer", default="top", help="top, average, or a number, where 0 is the words"
    )
    add_shard(parser)
    add_model_arguments(parser)


def run(args: argparse.Namespace) -> None:
    check_output_file("out", args.out)
    elmo = load_elmo(args)
    layers = {str(k): k for k in range(elmo.n_layers)} | {"top": "top", "average": "average"}
    if args.layer not in layers:
        fail("--layer", f"top, average or a number below {elmo.n_layers}", args.layer)
    text, controls = readable(args.text), None
    if not TABLE_NAME.fullmatch(text):
        local_path(args.words, "a file of words")
    if (args.controls, args.compared_with) != (None, None):
        args.controls = check_count("--controls", args.controls)
        check_path("--compared-with", args.compared_with)
        for name, path in (("text", text), ("words", args.words)):
            if Path(path).is_fifo():
                fail(name, "a file, because --controls reads it twice", path)
        texts = text, readable(args.compared_with)
        with collected(Advice()):  # the text is read again
            controls = control_words(*texts, args.words, args.controls, args.seed, args.raw)
    options = layers[args.layer], args.most, args.seed, args.raw, args.shard, controls
    of_words = write_uses(args.out, elmo, text, args.words, *options)
    missing = [word for word, n_uses in of_words.items() if not n_uses]
    where = " in this shard" if args.shard[1] > 1 else ""
    of_none = f"; none of {', '.join(missing)}{where}{hint_at_tabs(missing)}" if missing else ""
    print_text(f"{args.out}: {of_words.total():,} uses{of_none}")
