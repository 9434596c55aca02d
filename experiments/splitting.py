"""
How raw text is split: the ends of sentences and the tokens that `raw=True` finds, compared with
those of a text that was split by hand or by its publisher.

    python -m experiments.splitting TEXT

TEXT has a tokenized sentence in each line. Documents of up to 200 tokens are joined to raw text
twice: as in a book, and with spaces on both sides of quotation marks and brackets, as in COHA.
"""

from collections.abc import Iterator
from pathlib import Path

from elmo_plugin.elmo.raw_text import split_sentences, split_tokens
from experiments import new_parser, run
from experiments.markdown import table

Span = tuple[int, int]
SIZE = 200
JOINED_TO_THE_LAST = {*".,;:!?%'", "...", "n't", "'s", "'re", "'ve", "'ll", "'d", "'m"}
OPENING, CLOSING = {*"([{$#"}, {*")]}"}


def documents(path: Path) -> Iterator[list[list[str]]]:
    document: list[list[str]] = []
    for line in path.read_text("utf-8").splitlines():
        if not line.strip() or sum(map(len, document)) > SIZE:
            yield document
            document = []
        document.append(line.split())
    yield document


def joined(document: list[list[str]], is_spaced: bool) -> tuple[str, set[Span], set[int]]:
    """The text, and the spans of its tokens and the ends of its sentences."""
    text, tokens, ends = "", set(), set()
    for sentence in filter(None, document):
        is_open = False
        for number, token in enumerate(sentence):
            before = sentence[number - 1]
            is_quote = '"' in (token, before) if number else False
            follows = token in JOINED_TO_THE_LAST or (
                not is_spaced and (token in CLOSING or before in OPENING or (is_quote and is_open))
            )
            text += "" if number and follows else " " if text else ""
            tokens.add((len(text), len(text) + len(token)))
            text += token
            is_open ^= token == '"'
        ends.add(len(text))
    return text, tokens, ends


def figures(path: Path, is_spaced: bool) -> list[str]:
    """F1 of tokens, precision and recall of the ends of sentences, in percent."""
    n_tokens, n_ends = [0, 0, 0], [0, 0, 0]  # of the text, found, and both
    for document in documents(path):
        text, tokens, ends = joined(document, is_spaced)
        found = set(split_tokens(text).spans or ())
        found_ends = {end for _, end in split_sentences(text)}
        for counts, expected, own in ((n_tokens, tokens, found), (n_ends, ends, found_ends)):
            for k, items in enumerate((expected, own, expected & own)):
                counts[k] += len(items)
    f1 = 2 * n_tokens[2] / (n_tokens[0] + n_tokens[1])
    ratios = (f1, n_ends[2] / n_ends[1], n_ends[2] / n_ends[0])
    return [f"{100 * ratio:.2f}" for ratio in ratios]


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("text", type=Path)
    arguments = parser.parse_args()
    names = {"joined": False, "spaced": True}
    rows = [[name, *figures(arguments.text, is_spaced)] for name, is_spaced in names.items()]
    print(table(["quotes", "F1 of tokens", "precision of ends", "recall of ends"], rows))


if __name__ == "__main__":
    run("splitting", main)
