"""
`allennlp elmo`: the ELMo vectors of a text, one sentence a line, as an HDF5 file.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import torch
from allennlp.commands.subcommand import Subcommand
from allennlp.common import logging as common_logging
from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import get_weights_path

from elmo_plugin.checks import check_count, fail, shown
from elmo_plugin.commands.paths import check_output_folder, input_path
from elmo_plugin.data.text import read_blocks
from elmo_plugin.elmo.dump import PART_SENTENCES, Sentence, check_is_new, dump
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.sentence_keys import check_sentence_keys
from elmo_plugin.files.digest import file_digest
from elmo_plugin.modules.initial_state import INITIAL_STATES
from elmo_plugin.pretrained import pretrained_files, pretrained_names
from elmo_plugin.version import VERSION

ORDINARY_LENGTH = 32
"""Tokens; `--batch-size` counts sentences of this length, since long ones take as much as many."""


@Subcommand.register("elmo")
class ElmoCommand(Subcommand):
    """
    What AllenNLP 0.9 had and 1.0 dropped, with its options and its file layout; but for
    `--vocab-path`: each distinct word is computed once anyway.
    """

    def add_subparser(self, parser: argparse._SubParsersAction) -> argparse.ArgumentParser:
        description = "Write the ELMo vectors of a text, one sentence a line, to an HDF5 file."
        subparser = parser.add_parser(self.name, description=description, help=description)
        subparser.add_argument(
            "input_file", type=str, help="the text, plain or compressed; - for standard input"
        )
        subparser.add_argument("output_file", type=str, help="the HDF5 file to write")

        layers = subparser.add_mutually_exclusive_group(required=True)
        for layer, what in (
            ("all", "all layers of a sentence, (L + 1, n, 2P)"),
            ("top", "the top layer, (n, 2P)"),
            ("average", "the average of all layers, (n, 2P)"),
        ):
            layers.add_argument(
                f"--{layer}", dest="layer", action="store_const", const=layer, help=what
            )
        subparser.add_argument(
            "--pretrained", choices=pretrained_names(), help="a model that came with the package"
        )
        subparser.add_argument(
            "--archive-file", type=str, help="in its place: the model.tar.gz of a trained bilm"
        )
        subparser.add_argument("--options-file", type=str, help="in its place: bilm-tf's options")
        subparser.add_argument("--weight-file", type=str, help="and bilm-tf's weights")
        subparser.add_argument(
            "--batch-size",
            type=_batch_size,
            default=64,
            help="sentences of ordinary length to read at once",
        )
        subparser.add_argument("--cuda-device", type=int, default=-1, help="the GPU, if any")
        subparser.add_argument(
            "--initial-state",
            choices=INITIAL_STATES,
            default="warm",
            help="where a sentence starts; carry goes on from those before it, as 0.9 did",
        )
        subparser.add_argument("--float16", action="store_true", help="write half as many bytes")
        subparser.add_argument(
            "--shard",
            type=_shard,
            default="1/1",
            metavar="I/N",
            help="take every N-th line, from the I-th on (1/4 .. 4/4 are all lines)",
        )
        subparser.add_argument(
            "--forget-sentences",
            action="store_true",
            help="leave out sentence_to_index, which holds the whole text",
        )
        subparser.add_argument(
            "--use-sentence-keys",
            action="store_true",
            help="name the datasets by their sentences, not by line numbers",
        )
        subparser.add_argument(
            "--file-friendly-logging", action="store_true", help="progress on lines of its own"
        )
        subparser.set_defaults(func=elmo_from_args)
        return subparser


def elmo_from_args(args: argparse.Namespace) -> None:
    common_logging.FILE_FRIENDLY_LOGGING = args.file_friendly_logging
    check_output_folder("output_file", args.output_file)
    check_is_new(args.output_file)
    check_count("--cuda-device", args.cuda_device, least=-1)
    if args.cuda_device >= (n_gpus := torch.cuda.device_count()):
        fail("--cuda-device", f"-1 or one of the {n_gpus} GPUs, counted from 0", args.cuda_device)
    shard, n_shards = args.shard
    if args.initial_state == "carry" and n_shards > 1:
        raise ConfigurationError(
            "--shard: expected --initial-state zero or warm; under carry a sentence's vectors "
            "depend on those before it, which are in another shard"
        )
    elmo, model_files = _load(args)
    elmo.eval()
    if args.cuda_device >= 0:
        elmo.cuda(args.cuda_device)
    if args.input_file == "-":
        name = "stdin"
        blocks = read_blocks(sys.stdin.buffer, name=name)
        total = None
    else:
        name = args.input_file
        file = Path(input_path("input_file", name, "a text, one sentence a line"))
        if file.is_dir():
            raise ConfigurationError(f"input_file: {name}: expected a file, found a folder")
        blocks = read_blocks(file, name=name)
        # To count them is to check them: a blank line shows now, not after hours.
        total = sum(1 for _ in _sentences(read_blocks(file, name=name), name, shard, n_shards))
    sentences: Iterable[Sentence] = _sentences(blocks, name, shard, n_shards)
    if args.use_sentence_keys:
        sentences = check_sentence_keys(sentences, name)
    dump(
        elmo,
        sentences,
        args.output_file,
        layer=args.layer,
        settings={
            "versions": [VERSION, torch.__version__],
            "device": _device(args.cuda_device),
            "model": [file_digest(file) for file in model_files],
            "layer": args.layer,
            "batch_size": args.batch_size,
            "initial_state": args.initial_state,
            "float16": args.float16,
            "shard": [shard, n_shards],
        },
        batch_size=args.batch_size,
        max_tokens=args.batch_size * ORDINARY_LENGTH,
        dtype="float16" if args.float16 else "float32",
        use_sentence_keys=args.use_sentence_keys,
        forget_sentences=args.forget_sentences,
        total=total,
    )


def _device(cuda_device: int) -> str:
    """What computes, and how: other threads, or another GPU, may round otherwise."""
    if cuda_device >= 0:
        return torch.cuda.get_device_name(cuda_device)
    return f"cpu, {torch.get_num_threads()} threads"


def _load(args: argparse.Namespace) -> tuple[Elmo, list[str]]:
    """The model, and the files that it comes from."""
    options = ("--pretrained", "--archive-file", "--options-file", "--weight-file")
    values = (args.pretrained, args.archive_file, args.options_file, args.weight_file)
    given = [option for option, value in zip(options, values) if value is not None]
    match given:
        case ["--pretrained"]:
            files = list(pretrained_files(args.pretrained))
        case ["--archive-file"]:
            expected = "the model.tar.gz of a trained bilm"
            archive = input_path("--archive-file", args.archive_file, expected)
            weights = get_weights_path(archive) if Path(archive).is_dir() else archive
            return Elmo.from_archive(archive, initial_state=args.initial_state), [weights]
        case ["--options-file", "--weight-file"]:
            files = [
                input_path("--options-file", args.options_file, "bilm-tf's options.json"),
                input_path("--weight-file", args.weight_file, "bilm-tf's weights in HDF5"),
            ]
        case _:
            raise ConfigurationError(
                "expected one of --pretrained, --archive-file, or --options-file and "
                f"--weight-file, found {' and '.join(given) or 'none'}"
            )
    return Elmo.from_files(*files, initial_state=args.initial_state), files


def _sentences(
    blocks: Iterable[list[str]], name: str, shard: int, n_shards: int
) -> Iterator[Sentence]:
    for number, line in enumerate(chain.from_iterable(blocks)):
        if number % n_shards != shard:
            continue
        if not line.strip():
            raise ConfigurationError(f"{name}, line {number + 1}: expected a sentence, found none")
        yield Sentence(number, line.strip())


def _batch_size(text: str) -> int:
    # A part of the output is at most one batch.
    if not text.isdecimal() or len(text) > 9 or not 1 <= int(text) <= PART_SENTENCES:
        raise argparse.ArgumentTypeError(
            f"expected a number from 1 to {PART_SENTENCES}, found {shown(text)}"
        )
    return int(text)


def _shard(text: str) -> tuple[int, int]:
    try:
        first, n_shards = (int(part) for part in text.split("/"))
    except ValueError:
        first, n_shards = 0, 0
    if not 1 <= first <= n_shards:
        raise argparse.ArgumentTypeError(f"expected I/N with I from 1 to N, found {text}")
    return first - 1, n_shards
