import argparse
import os
import time

from allennlp.commands.subcommand import Subcommand

from elmo_plugin.checks import InputError, check_count, check_path
from elmo_plugin.plugin.commands.command import Command
from elmo_plugin.text.characters import DEFAULT_MAX_CHARACTERS, check_max_characters
from elmo_plugin.text.corpus import is_corpus
from elmo_plugin.text.encoding import SHARD_TOKENS, encode
from elmo_plugin.text.lines import find_files


@Subcommand.register("bilm-encode")
class BilmEncode(Command):
    """
    Encodes text, one sentence a line, to a folder, which a config can name as its train_data_path.
    A config can also name the text itself, which is then encoded on first use.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("text", help="a file, a glob or a folder; plain, .gz, .xz or .zst")
        parser.add_argument("out", help="the folder to write")
        parser.add_argument(
            "--max-characters",
            type=int,
            default=DEFAULT_MAX_CHARACTERS,
            metavar="N",
            help="the max_characters_per_token of a model, to report the words that it would crop; "
            "the corpus has whole words",
        )
        parser.add_argument(
            "--shard-tokens",
            type=int,
            default=SHARD_TOKENS,
            metavar="N",
            help="the highest number of tokens in a shard, which bounds memory",
        )
        parser.add_argument(
            "--force", action="store_true", help="replace an existing encoded corpus"
        )

    def run(self, args: argparse.Namespace) -> None:
        check_max_characters("--max-characters", args.max_characters)
        check_count("--shard-tokens", args.shard_tokens)
        check_path("text", args.text)
        check_path("out", args.out)
        if os.path.exists(args.out) and not args.force:
            found = (
                "an encoded corpus (--force replaces it)"
                if is_corpus(args.out)
                else "something else"
            )
            raise InputError(f"out: {args.out}: expected a new folder to write, found {found}")
        started = time.monotonic()
        corpus = encode(find_files(args.text), args.out, args.shard_tokens, args.force)
        seconds = time.monotonic() - started
        cropped = corpus.word_lengths() > args.max_characters - 2
        occurrences = int(corpus.counts[cropped].sum())
        print(f"tokens          {corpus.num_tokens:>15,}")
        print(f"sentences       {corpus.num_sentences:>15,}")
        print(f"documents       {corpus.num_documents:>15,}")
        print(f"distinct words  {corpus.num_words:>15,}")
        print(
            f"cropped words   {int(cropped.sum()):>15,}  longer than {args.max_characters - 2} "
            f"bytes, {occurrences / corpus.num_tokens:.4%} of the tokens"
        )
        print(f"shards          {len(corpus.shards):>15,}")
        print(f"tokens/s        {corpus.num_tokens / seconds:>15,.0f}")
