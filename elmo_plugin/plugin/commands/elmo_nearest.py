import argparse
from pathlib import Path

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError, check_count, fail, shown
from elmo_plugin.elmo.arguments import add_model_arguments, print_text
from elmo_plugin.elmo.nearest import (
    Occurrence,
    Sentence,
    nearest_occurrences,
    occurrences,
    text_sentences,
)
from elmo_plugin.plugin.commands.command import Command, load_elmo
from elmo_plugin.plugin.faster.busy_machine import do_not_spin_if_busy
from elmo_plugin.plugin.task_address import with_repeats

MOST = 1000
"""The most queries, and neighbors of one, that finish in a reasonable time."""


@Subcommand.register("elmo-nearest")
class ElmoNearest(Command):
    """
    Prints the nearest neighbors of a word in its sentence among all words of a text, as in table 4
    of the paper.
    """

    prints_its_result = True

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "text",
            help="a file, a glob, a folder or docs://heldout, one sentence per line; plain, .gz, "
            ".xz or .zst",
        )
        queries = parser.add_mutually_exclusive_group(required=True)
        queries.add_argument(
            "--sentence",
            action="append",
            help="a sentence with one word between asterisks, as in 'the *stick* .'; may be "
            "repeated",
        )
        queries.add_argument("--word", help="a word; its occurrences in the text are the queries")
        parser.add_argument(
            "--queries",
            type=int,
            default=5,
            metavar="N",
            help=f"the maximum number of occurrences of --word in the text, at most {MOST}",
        )
        parser.add_argument(
            "-k", type=int, default=5, help=f"the number of neighbors per query, at most {MOST}"
        )
        parser.add_argument(
            "--layer", default="top", help="top, average, or a number, where 0 is the words"
        )
        parser.add_argument(
            "--same-word",
            action="store_true",
            help="consider only occurrences of the same word, which is faster",
        )
        add_model_arguments(parser)

    def run(self, args: argparse.Namespace) -> None:
        check_count("--queries", args.queries, most=MOST)
        check_count("-k", args.k, most=MOST)
        if args.sentence is not None:
            queries = [_marked(sentence) for sentence in args.sentence]
        else:
            queries = _spread(args.text, args.word, args.queries)
        do_not_spin_if_busy()
        elmo = load_elmo(args)
        layers: dict[str, str | int] = {str(k): k for k in range(elmo.n_layers)}
        layers |= {"top": "top", "average": "average"}
        if args.layer not in layers:
            fail("--layer", f"top, average or a number below {elmo.n_layers}", args.layer)
        sentences = text_sentences(with_repeats(args.text))
        found = nearest_occurrences(
            elmo, queries, sentences, k=args.k, layer=layers[args.layer], same_word=args.same_word
        )
        for query, neighbors in zip(queries, found):
            print_text(f"\n{_text(query)}")
            for cosine, other in neighbors:
                print_text(f"  {cosine:.3f}  {_text(other)}  ({other.sentence.source})")


def _marked(sentence: str) -> Occurrence:
    words = sentence.split()
    marked = [i for i, word in enumerate(words) if len(word) > 2 and word[0] == word[-1] == "*"]
    if len(marked) != 1:
        raise InputError(
            f"--sentence: {shown(sentence)}: expected one word between asterisks, as in "
            f"'the *stick* .', found {len(marked)}"
        )
    words[marked[0]] = words[marked[0]][1:-1]
    return Occurrence(Sentence(tuple(words)), marked[0])


def _spread(text: str, word: str, most: int) -> list[Occurrence]:
    """At most `most` different occurrences of a word, evenly spaced among all."""
    different: dict[tuple, Occurrence] = {}
    for occurrence in occurrences(text_sentences(with_repeats(text)), word):
        different.setdefault(occurrence.key, occurrence)
    if not different or Path(text).is_fifo():
        fail("--word", f"a word of {text}, which is read several times and cannot be a pipe", word)
    found, n = list(different.values()), min(most, len(different))
    return [found[k * len(found) // n] for k in range(n)]


def _text(occurrence: Occurrence) -> str:
    words = list(occurrence.sentence.words)
    words[occurrence.position] = f"*{occurrence.word}*"
    return " ".join(words)
