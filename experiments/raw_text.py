"""
How much of a tokenized text comes out the same after its tokens were joined to raw text and split
again, as by `raw=True`:

    python -m experiments.raw_text OUT/heldout

for each file of a folder, such as that of `experiments.small_text`.
"""

import difflib
from pathlib import Path

from elmo_plugin.elmo.raw_text import split_tokens
from elmo_plugin.text.lines import find_files, read_sentences
from experiments import new_parser, run
from experiments.markdown import table

AFTER = {
    *",.;:?!)]}%",
    "...",
    "n't",
    "N'T",
    *(f"'{x}" for x in "s S m M d D ll LL re RE ve VE".split()),
}
"""Tokens without a space before them."""
BEFORE = {*"([{$£"}
"""Tokens without a space after them."""


def join(tokens: list[str]) -> str:
    """The sentence as raw text. Quotes open and close in turns."""
    text, is_open, glued = "", False, True
    for token in tokens:
        is_quote = token == '"'
        glued = glued or token in AFTER or (is_quote and is_open)
        text += token if glued else f" {token}"
        is_open ^= is_quote
        glued = token in BEFORE or (is_quote and is_open)
    return text


def shares(file: Path) -> tuple[int, float, float]:
    """The number of sentences, and the percentages of sentences and of tokens that change."""
    n_sentences = n_changed = n_tokens = n_lost = 0
    for tokens in read_sentences(file):
        found = split_tokens(join(tokens)).tokens
        n_sentences += 1
        n_tokens += len(tokens)
        if found != tokens:
            n_changed += 1
            blocks = difflib.SequenceMatcher(None, tokens, found, autojunk=False)
            n_lost += len(tokens) - sum(block.size for block in blocks.get_matching_blocks())
    return n_sentences, 100 * n_changed / n_sentences, 100 * n_lost / n_tokens


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("text", help="a text as in train_data_path")
    rows = [[file.stem, *shares(file)] for file in find_files(parser.parse_args().text)]
    print(table(["text", "sentences", "changed sentences, %", "changed tokens, %"], rows))


if __name__ == "__main__":
    run("raw_text", main)
