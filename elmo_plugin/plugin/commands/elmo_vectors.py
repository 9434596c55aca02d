import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from allennlp.commands.subcommand import Subcommand
from tqdm import tqdm

from elmo_plugin.checks import MOST, InputError, check_count, shown
from elmo_plugin.elmo.arguments import add_model_arguments, check_output_file, load_elmo, print_text
from elmo_plugin.elmo.dump import DumpSettings, bytes_of_dump, dump, measure_text
from elmo_plugin.elmo.elmo import POOLS
from elmo_plugin.elmo.parts import PART_SENTENCES, Line, read_lines
from elmo_plugin.elmo.raw_text import split_tokens
from elmo_plugin.files.standard_streams import standard_input
from elmo_plugin.modules.bilm import INITIAL_STATES
from elmo_plugin.plugin.commands.command import Command, input_path
from elmo_plugin.plugin.faster.busy_machine import do_not_spin_if_busy
from elmo_plugin.text.characters import count_cropped, warn_of_cropped


@Subcommand.register("elmo")
class ElmoCommand(Command):
    """
    Writes the ELMo vectors of a text, one sentence per line, to an HDF5 file, with the options and
    the file layout of AllenNLP 0.9.
    """

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "input_file", help="the text, plain or compressed; - for standard input"
        )
        parser.add_argument("output_file", help="the HDF5 file to write")

        layers = parser.add_mutually_exclusive_group(required=True)
        for layer, text in (
            ("all", "all layers: (layers + 1, tokens, vector size) for each sentence"),
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
        parser.add_argument(
            "--pool",
            choices=POOLS,
            help="one vector for each sentence, the mean over its tokens: (vector size)",
        )
        add_model_arguments(parser)
        parser.add_argument(
            "--batch-size",
            type=int,
            default=64,
            help="the number of sentences of ordinary length in a batch",
        )
        parser.add_argument(
            "--initial-state",
            choices=INITIAL_STATES,
            default="warm",
            help="the LSTM state at the start of a sentence: warm, one fixed state; zero, zeros; "
            "carry, the state after earlier sentences, as in AllenNLP 0.9",
        )
        parser.add_argument(
            "--float16", action="store_true", help="write float16, which halves the size"
        )
        parser.add_argument(
            "--shard",
            type=_shard,
            default="1/1",
            metavar="I/N",
            help="read every N-th line from the I-th on, so that 1/4 to 4/4 are all lines",
        )
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
        parser.add_argument(
            "--file-friendly-logging",
            action="store_true",
            help="update the progress bar every 10 seconds, for a log file",
        )
        parser.add_argument("--vocab-path", help="an option of AllenNLP 0.9 that has no effect")

    def run(self, args: argparse.Namespace) -> None:
        check_output_file("output_file", args.output_file)
        # A batch cannot have more sentences than a part of the dump.
        check_count("--batch-size", args.batch_size, most=PART_SENTENCES)
        shard, n_shards = args.shard
        if args.initial_state == "carry" and n_shards > 1:
            raise InputError(
                "--shard: expected --initial-state zero or warm, found carry, under which vectors "
                "depend on earlier sentences, which are in another shard"
            )
        name = args.input_file
        file: Path | BinaryIO
        if name != "-":
            file = Path(input_path("input_file", name, "a text, one sentence per line"))
        else:
            name, file = "stdin", standard_input("input_file").buffer
        do_not_spin_if_busy()
        elmo = load_elmo(args, args.initial_state)
        if isinstance(args.layer, int):
            check_count("--layer", args.layer, least=0, most=elmo.n_layers - 1)
        most = elmo.bilm.max_characters_per_token

        def lines(warns: bool) -> Iterator[Line]:
            n_tokens = n_cropped = 0
            for line in read_lines(file, name, shard, n_shards):
                if args.raw:
                    line = line._replace(text=" ".join(split_tokens(line.text).tokens))
                n_tokens += len(tokens := line.tokens)
                n_cropped += count_cropped(tokens, most)
                yield line
            if warns:
                warn_of_cropped(name, n_cropped, n_tokens, most)

        settings = DumpSettings(
            layer=args.layer,
            pool=args.pool,
            batch_size=args.batch_size,
            dtype="float16" if args.float16 else "float32",
            use_sentence_keys=args.use_sentence_keys,
            forget_sentences=args.forget_sentences,
        )
        size = None
        if isinstance(file, Path) and file.is_file():  # a pipe can be read only once
            size = measure_text(lines(True))  # also finds blank lines now instead of after hours
            n_bytes = bytes_of_dump(elmo, size, settings)
            print_text(
                f"{args.output_file}: about {tqdm.format_sizeof(n_bytes, 'B')}, for "
                f"{size.n_sentences:,} sentences with {size.n_tokens:,} tokens; twice the space "
                "while it is written"
            )
        total, seconds = size and size.n_sentences, 10.0 if args.file_friendly_logging else 0.1
        dump(elmo, lines(size is None), args.output_file, settings, total, seconds)


def _shard(text: str) -> tuple[int, int]:
    try:
        first, n_shards = (int(part) for part in text.split("/"))
    except ValueError:
        first, n_shards = 0, 0
    if not 1 <= first <= n_shards <= MOST:
        raise argparse.ArgumentTypeError(
            f"expected I/N with I from 1 to N, at most {MOST}, found {shown(text)}"
        )
    return first - 1, n_shards
