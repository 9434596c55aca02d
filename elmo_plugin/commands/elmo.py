"""The command `elmo`: the vectors of a text in the layout of AllenNLP 0.9."""

import argparse

from elmo_plugin.checks import check_count, fail, optional_count
from elmo_plugin.commands.arguments import (
    add_initial_state,
    add_model_arguments,
    add_shard,
    check_output_file,
    count_lines,
    load_elmo,
    text_file,
    text_lines,
)
from elmo_plugin.corpora.dump import NPY, DumpSettings, dump, line_rows
from elmo_plugin.corpora.parts import PART_SENTENCES
from elmo_plugin.elmo.elmo import POOLS
from elmo_plugin.text.forms import text_rows
from elmo_plugin.text.sentence import tokens_of_row

DESCRIPTION = """
Writes the ELMo vectors of a text, one sentence per line, to an HDF5 file, with the options and
the file layout of AllenNLP 0.9; or one vector per sentence as an array in a NumPy file.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input_file", help="a text or table, also compressed; - for standard input")
    parser.add_argument(
        "output_file", help="the HDF5 file to write, or with --pool a NumPy file, OUT.npy"
    )
    _add_layers(parser)
    parser.add_argument(
        "--pool",
        choices=POOLS,
        help="one vector for each sentence, the mean over its tokens: (vector size); in a file "
        "OUT.npy, one array for all of them: (sentences, vector size)",
    )
    add_model_arguments(parser)
    parser.add_argument(
        "--batch-size",
        type=int,
        help="the number of sentences of ordinary length in a batch; on a GPU 512, unless they "
        "carry their states (default: 64)",
    )
    add_initial_state(parser, None)
    parser.add_argument(
        "--float16", action="store_true", help="write float16, which halves the size"
    )
    add_shard(parser)
    parser.add_argument(
        "--forget-sentences",
        action="store_true",
        help="omit sentence_to_index, which contains the whole text",
    )
    parser.add_argument(
        "--use-sentence-keys",
        action="store_true",
        help="name datasets by their sentences instead of line numbers",
    )
    no_effect = "an option of AllenNLP 0.9 that has no effect"
    parser.add_argument("--file-friendly-logging", action="store_true", help=no_effect)
    parser.add_argument("--vocab-path", help=no_effect)


def _add_layers(parser: argparse.ArgumentParser) -> None:
    layers = parser.add_mutually_exclusive_group(required=True)
    for layer, text in (
        (
            "all",
            "all layers, from the word layer up: (layers, tokens, vector size); this, --top, "
            "--average or --layer is required",
        ),
        ("top", "the top layer: (tokens, vector size)"),
        ("average", "the average of all layers: (tokens, vector size)"),
    ):
        layers.add_argument(
            f"--{layer}", dest="layer", action="store_const", const=layer, help=text
        )
    layers.add_argument(
        "--layer",
        type=int,
        metavar="N",
        help="layer N alone, where 0 is the word layer: (tokens, vector size)",
    )


def run(args: argparse.Namespace) -> None:
    check_output_file("output_file", args.output_file)
    is_matrix = args.output_file.endswith(NPY)
    if is_matrix and (args.pool is None or args.use_sentence_keys):
        fail("output_file", "--pool and no --use-sentence-keys for a NumPy file", args.output_file)
    # A batch cannot have more sentences than a part of the dump.
    args.batch_size = optional_count("--batch-size", args.batch_size, most=PART_SENTENCES)
    name, file = text_file("input_file", args.input_file)
    given = {} if args.initial_state is None else {"initial_state": args.initial_state}
    elmo = load_elmo(args, **given)
    if isinstance(args.layer, int):
        args.layer = check_count("--layer", args.layer, least=0, most=elmo.n_layers - 1)
    settings = DumpSettings(
        layer=args.layer,
        pool=args.pool,
        batch_size=args.batch_size,
        dtype="float16" if args.float16 else "float32",
        use_sentence_keys=args.use_sentence_keys,
        forget_sentences=args.forget_sentences or is_matrix,
        raw=args.raw,
    )

    numbered = text_lines(args, file, name)
    lines = line_rows(numbered)
    if args.raw:
        rows = text_rows(numbered, args.raw, shard=args.shard)
        lines = ((" ".join(tokens_of_row(row)), row) for row in rows)
    dump(elmo, lines, args.output_file, settings, count_lines(args, file, name))
