"""The command `bilm-encode`: a text as a folder of numbers, for training."""

import argparse
import time

from elmo_plugin.commands.arguments import readable
from elmo_plugin.text.characters import DEFAULT_MAX_CHARACTERS
from elmo_plugin.text.corpus_advice import advise_of_corpus
from elmo_plugin.text.encoding import encode_corpus
from elmo_plugin.text.text_files import find_files

DESCRIPTION = """
Encodes text, one sentence per line, to a folder that a config can use as its train_data_path. A
config can also name the text itself, which is then encoded on first use.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("text", help="a file, a glob or a folder; plain, .gz, .xz or .zst")
    parser.add_argument("out", help="the folder to write")


def run(args: argparse.Namespace) -> None:
    started = time.monotonic()
    corpus = encode_corpus(find_files(readable(args.text)), args.out)
    seconds = time.monotonic() - started
    advise_of_corpus(corpus, args.text, DEFAULT_MAX_CHARACTERS)
    most = DEFAULT_MAX_CHARACTERS - 2  # and the word's two boundaries
    occurs = corpus.counts > 0  # the special words are always listed
    lengths, counts = corpus.word_lengths()[occurs], corpus.counts[occurs]
    cropped = lengths > most
    occurrences = int(counts[cropped].sum())
    print(f"tokens          {corpus.num_tokens:>15,}")
    print(f"sentences       {corpus.num_sentences:>15,}")
    print(f"distinct words  {len(lengths):>15,}")
    print(
        f"cropped words   {int(cropped.sum()):>15,}  longer than {most} bytes, "
        f"{100 * occurrences / corpus.num_tokens:.4f} % of the tokens"
    )
    print(f"longest word    {int(lengths.max()):>15,}  bytes")
    print(f"shards          {len(corpus.shards):>15,}")
    print(f"tokens/s        {corpus.num_tokens / seconds:>15,.0f}")
