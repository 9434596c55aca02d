import argparse
from collections.abc import Sequence
from html import escape

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError, check_count, check_path, fail, shown
from elmo_plugin.elmo.nearest import (
    Neighbour,
    Occurrence,
    Sentence,
    nearest_occurrences,
    occurrences,
    text_sentences,
)
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.plugin.commands.command import (
    Command,
    add_model_arguments,
    check_output_file,
    load_elmo,
    print_text,
)

PAGE = """<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<title>Nearest neighbours in context</title>
<style>
body {{ font-family: sans-serif; max-width: 60em; margin: 2em auto; }}
td {{ padding: 0.2em 0.6em; vertical-align: top; }}
td:first-child, td:last-child {{ color: #666; white-space: nowrap; }}
mark {{ background: #cde; font-weight: bold; }}
</style>
<h1>Nearest neighbours in context</h1>
<p>{caption}</p>
{sections}
</html>
"""


@Subcommand.register("elmo-nearest")
class ElmoNearest(Command):
    """
    Prints the occurrences in a text whose vectors are nearest to that of a word in its sentence, as
    in table 4 of the paper.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "text",
            help="a file, a glob, a folder or docs://heldout, one sentence a line; plain, .gz, .xz "
            "or .zst",
        )
        queries = parser.add_mutually_exclusive_group(required=True)
        queries.add_argument(
            "--sentence",
            action="append",
            metavar="SENTENCE",
            help="a sentence with one word between asterisks, as in 'the *stick* .'; may be "
            "repeated",
        )
        queries.add_argument("--word", help="a word, whose occurrences in the text are the queries")
        parser.add_argument(
            "--queries",
            type=int,
            default=5,
            metavar="N",
            help="the highest number of occurrences of --word, spread over the text",
        )
        parser.add_argument(
            "-k", type=int, default=5, help="the number of neighbours of each query"
        )
        parser.add_argument(
            "--layer", default="top", help="top, average, or a number, where 0 is the words"
        )
        parser.add_argument(
            "--same-word",
            action="store_true",
            help="look only at occurrences of the same word, which is faster",
        )
        add_model_arguments(parser)
        parser.add_argument(
            "--initial-state",
            choices=["zero", "warm"],
            default="warm",
            help="the LSTM state at the start of a sentence",
        )
        parser.add_argument("--html", metavar="FILE", help="a page to write")

    def run(self, args: argparse.Namespace) -> None:
        check_path("text", args.text)
        check_count("--queries", args.queries)
        check_count("-k", args.k)
        if args.html is not None:
            check_output_file("--html", args.html)
        if args.sentence is not None:
            queries = [_marked(sentence) for sentence in args.sentence]
        else:
            queries = _spread(args.text, args.word, args.queries)
        elmo = load_elmo(args, args.initial_state)
        layer: str | int = args.layer
        if args.layer not in ("top", "average"):
            if not args.layer.isdecimal() or int(args.layer) >= elmo.n_layers:
                fail("--layer", f"top, average or a number below {elmo.n_layers}", args.layer)
            layer = int(args.layer)
        sentences = text_sentences(args.text)
        found = nearest_occurrences(
            elmo, queries, sentences, k=args.k, layer=layer, same_word=args.same_word
        )
        for query, neighbours in zip(queries, found):
            print_text(f"\n{_text(query)}")
            for neighbour in neighbours:
                occurrence = neighbour.occurrence
                print_text(
                    f"  {neighbour.cosine:.3f}  {_text(occurrence)}  ({occurrence.sentence.source})"
                )
        if args.html is not None:
            caption = f"Layer {args.layer}, cosine; the text is {args.text}."
            with atomic_write(args.html) as temporary:
                temporary.write_text(page(queries, found, caption), "utf-8", "backslashreplace")
            print_text(f"\nwrote {args.html}")


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
    """At most `most` occurrences of a word, at equal distances in the list of all."""
    n_occurrences = sum(1 for _ in occurrences(text_sentences(text), word))
    if not n_occurrences:
        fail("--word", f"a word of {text}", word)
    most = min(most, n_occurrences)
    chosen = {i * n_occurrences // most for i in range(most)}
    every = enumerate(occurrences(text_sentences(text), word))
    found = [occurrence for number, occurrence in every if number in chosen]
    if len(found) < most:
        fail("--word", "a text that can be read several times, not a pipe", text)
    return found


def _text(occurrence: Occurrence) -> str:
    words = list(occurrence.sentence.words)
    words[occurrence.position] = f"*{occurrence.word}*"
    return " ".join(words)


def page(queries: Sequence[Occurrence], found: Sequence[Sequence[Neighbour]], caption: str) -> str:
    """A page in HTML that needs no other file."""
    sections = []
    for query, neighbours in zip(queries, found):
        rows = [
            f"<tr><td>{neighbour.cosine:.3f}</td><td>{_html(neighbour.occurrence)}</td>"
            f"<td>{escape(neighbour.occurrence.sentence.source)}</td></tr>"
            for neighbour in neighbours
        ]
        sections.append("\n".join([f"<h3>{_html(query)}</h3>", "<table>", *rows, "</table>"]))
    return PAGE.format(caption=escape(caption), sections="\n".join(sections))


def _html(occurrence: Occurrence) -> str:
    words = [escape(word) for word in occurrence.sentence.words]
    words[occurrence.position] = f"<mark>{words[occurrence.position]}</mark>"
    return " ".join(words)
