"""The command `score`: log probabilities of words, and accuracies on pairs and test suites."""

import argparse
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from elmo_plugin.checks import InputError, fail
from elmo_plugin.commands.arguments import (
    add_initial_state,
    add_model_arguments,
    add_shard,
    check_output_file,
    check_shard,
    count_lines,
    named_bilm,
    text_file,
    text_lines,
)
from elmo_plugin.commands.streams import check_standard_output, print_text
from elmo_plugin.commands.threads import limit_threads
from elmo_plugin.corpora.pairs import pair_accuracies, pair_scores
from elmo_plugin.corpora.parts import PART_SENTENCES, write_results
from elmo_plugin.corpora.score_table import column_names, score_columns, sentence_columns
from elmo_plugin.corpora.suites import suite_accuracies, suite_scores
from elmo_plugin.corpora.writers import Table, TextTable, encoded
from elmo_plugin.elmo.documents import document_groups, documents_in
from elmo_plugin.elmo.language_model import BASES, LanguageModel
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.text.forms import text_rows
from elmo_plugin.text.raw_text import RUNNING, raw_facts
from elmo_plugin.text.sentence import Row, groups
from elmo_plugin.text.text_files import find_files

DESCRIPTION = """
Writes the log probability of each word of a text, one sentence per line, or of the column sentence
of a table, .csv or .tsv; or the accuracy on minimal pairs as in BLiMP, or on test suites as in
SyntaxGym.
"""

AT_ONCE = 256
"""Number of sentences that are scored at a time."""

OF_A_TEXT = "documents", "entropy", "rank", "unknown_missing", "base", "shard"
DEFAULTS = False, 2, (0, 1)
"""Arguments that are only for a text, and their values by default."""

FLAGS = {
    "--each-pair": "with --pairs, write the scores of each pair, and not the accuracies",
    "--per-token": "with --pairs, compare means over words and sentence boundaries, and not sums",
    "--documents": "continue each sentence from the previous one, up to a blank line",
    "--entropy": "compute entropies too",
    "--rank": "compute the rank of each word in its distributions too",
    "--unknown-missing": "leave the scores of words outside the vocabulary empty",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "text", nargs="?", help="a text or table, also compressed; - for standard input"
    )
    parser.add_argument(
        "--pairs",
        nargs="+",
        metavar="FILE",
        help="instead of a text: JSONL files with sentence_good and sentence_bad in each line",
    )
    parser.add_argument(
        "--suites",
        nargs="+",
        metavar="FILE",
        help="instead of a text: test suites in SyntaxGym's JSON",
    )
    parser.add_argument(
        "--output-file",
        help="the file to write, by default standard output; an interrupted run of a text can be "
        "resumed with the same command; with --suites, where to write the surprisal of each "
        "region, in addition to the accuracies on standard output",
    )
    parser.add_argument(
        "--format",
        choices=("csv", "jsonl"),
        default="csv",
        help="csv, a row for each word; or jsonl, a line for each sentence, which also has the "
        "log probabilities of the end and the beginning",
    )
    for flag, text in FLAGS.items():
        parser.add_argument(flag, action="store_true", help=text)
    parser.add_argument(
        "--base",
        choices=tuple(BASES),
        type=lambda text: int(text) if text == "2" else text,
        default=2,
        help="the base of the logarithms: 2 for bits, e for nats",
    )
    add_initial_state(parser, "warm")
    add_shard(parser)
    add_model_arguments(parser)
    parser.add_argument("--vocabulary-file", help="the words of the softmax in bilm-tf's files")
    parser.add_argument("--softmax-file", help="the softmax, if it is not in bilm-tf's weight file")


def run(args: argparse.Namespace) -> None:
    kinds = {"a text": args.text, "--pairs": args.pairs, "--suites": args.suites}
    given = [kind for kind, value in kinds.items() if value is not None]
    if len(given) != 1:
        raise InputError("expected one of a text, --pairs and --suites, found several or none")
    if args.output_file is None or args.suites:
        check_standard_output()
    if args.output_file is not None:
        check_output_file("--output-file", args.output_file)
    _check_arguments(args, *given)
    if args.text is None:
        (_score_pairs if args.pairs else _score_suites)(args)
        return
    name, file = text_file("text", args.text)
    model = _load(args)
    rows = text_rows(text_lines(args, file, name), args.raw, shard=args.shard)
    names = column_names(args.entropy, bool(args.raw), args.rank)
    names += ["line"] * (args.raw == RUNNING) + ["document"] * args.documents
    writer = TextTable(args.format, names)
    if args.output_file is None:
        texts = (writer.text(table) for _, table in _tables(model, args, rows))
        print_text(writer.header + next(texts, ""), end="")
        for text in texts:
            print_text(text, end="")
        return
    total = count_lines(args, file, name)
    parts = (document_groups if args.documents else groups)(rows, PART_SENTENCES)
    facts = raw_facts(args.raw) | {key: getattr(args, key) for key in ("format", *OF_A_TEXT[:-1])}
    with model.snapshot(same_bits=True) as now:
        compute = partial(_tables, now, args)
        write_results(args.output_file, writer, compute, now, parts, facts, total=total)


def _check_arguments(args: argparse.Namespace, kind: str) -> None:
    """
    Raise an `InputError` if arguments contradict one another, or are not for this kind: a text,
    --pairs or --suites.
    """
    if kind != "--pairs" and (args.per_token or args.each_pair):
        raise InputError(f"--per-token and --each-pair: expected --pairs with them, found {kind}")
    if kind == "a text":
        check_shard(args, args.initial_state)
        if args.documents and (args.shard != (0, 1) or args.raw == RUNNING):
            raise InputError(
                "--documents: expected neither --shard, which would divide documents, nor "
                "--running-text, where blank lines end paragraphs, found one of them"
            )
        return
    if args.initial_state == "carry":
        fail("--initial-state", f"zero or warm with {kind}, which are no text", args.initial_state)
    given = [key for key in OF_A_TEXT if getattr(args, key) not in DEFAULTS]
    given += ["running_text"] * (args.raw == RUNNING)
    if given:
        options = ", ".join(f"--{key.replace('_', '-')}" for key in given)
        raise InputError(f"{options}: expected a text with them, found {kind}")


def _load(args: argparse.Namespace) -> LanguageModel:
    limit_threads()
    files, device = named_bilm(args)
    words = {"vocabulary_file": args.vocabulary_file, "softmax_file": args.softmax_file}
    model = find_bilm(*files, **words, with_softmax=True)
    options = {"initial_state": args.initial_state, "precision": args.precision}
    return LanguageModel.from_found(model, files[0], **options).to(device)


def _score_pairs(args: argparse.Namespace) -> None:
    rows = pair_scores(_load(args), _files(args.pairs), args.raw, args.per_token)
    _write(args, rows if args.each_pair else pair_accuracies(rows), args.output_file)


def _score_suites(args: argparse.Namespace) -> None:
    rows = suite_scores(_load(args), _files(args.suites), args.raw)
    if args.output_file is not None:
        _write(args, rows, args.output_file)
    _write(args, suite_accuracies(rows), None)


def _files(paths: Iterable[str]) -> list[Path]:
    return [file for path in paths for file in find_files(path)]


def _write(args: argparse.Namespace, rows: list[dict[str, Any]], out: str | None) -> None:
    """Write a table into a file, or to standard output."""
    writer = TextTable(args.format, list(rows[0]))
    text = writer.header + writer.text({name: [row[name] for row in rows] for name in rows[0]})
    if out is None:
        print_text(text, end="")
    else:
        with atomic_write(out) as temporary:
            temporary.write_bytes(encoded(text))


def _tables(
    model: LanguageModel, args: argparse.Namespace, rows: Iterable[Row]
) -> Iterator[tuple[int, Table]]:
    """The scores of rows as tables, each with the number of its rows, which one call scores."""
    # With `carry` each sentence continues from the one before it.
    some = groups(rows, 1 if model.initial_state == "carry" else AT_ONCE)
    for group in document_groups(rows, PART_SENTENCES) if args.documents else some:
        yield len(group), _table(model, args, group)


def _table(model: LanguageModel, args: argparse.Namespace, rows: list[Row]) -> Table:
    of_rows: dict[str, list[int]] = {}  # columns with a number for each row
    if args.raw == RUNNING:
        of_rows["line"] = [row[0].line for row in rows]
    if args.documents:
        of_rows["document"] = [x[0][0].row for x in documents_in(rows) for _ in x]
    scores = model.score(
        rows,
        args.entropy,
        args.base,
        documents=of_rows.get("document"),
        rank=args.rank,
        unknown_missing=args.unknown_missing,
    )
    numbers = [row[0].row for row in rows]
    table = (score_columns if args.format == "csv" else sentence_columns)(scores, numbers)
    for name, values in of_rows.items():
        of_number = dict(zip(numbers, values))
        table[name] = [of_number[number] for number in table["sentence"]]
    return table
