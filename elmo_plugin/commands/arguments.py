"""Arguments that several commands have: the text, the biLM, the device, and files to write."""

import argparse
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

from elmo_plugin.checks import MOST, InputError, device_named, fail, shown
from elmo_plugin.commands.streams import standard_input
from elmo_plugin.commands.threads import limit_threads
from elmo_plugin.corpora.parts import check_no_results
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.files.atomic_write import check_can_write
from elmo_plugin.files.local_path import local_path
from elmo_plugin.formats.find import KEYS, NAMES_OF_A_BILM, File, find_bilm, one_bilm
from elmo_plugin.modules.bilm import INITIAL_STATES, PRECISIONS
from elmo_plugin.pretrained import pretrained_names
from elmo_plugin.text.advice import Advice, collected
from elmo_plugin.text.lines import TABLE_NAME, numbered_lines, read_lines
from elmo_plugin.text.raw_text import RUNNING, check_wrapped
from elmo_plugin.text.tables import read_table

PLUGIN_ADDRESSES = ("docs://", "task://")


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """The biLM, where and how precisely it is computed, and the tokens that it reads."""
    installed = ", ".join(pretrained_names())
    parser.add_argument(
        "--pretrained",
        help=f"the name of an installed model: {installed}; this, --archive-file, or "
        "--options-file with --weight-file is required",
    )
    parser.add_argument("--archive-file", help=NAMES_OF_A_BILM)
    parser.add_argument("--options-file", help="the options file of bilm-tf")
    parser.add_argument("--weight-file", help="the weight file of bilm-tf")
    split = parser.add_mutually_exclusive_group()
    split.add_argument(
        "--raw",
        action="store_true",
        help="split each line into sentences and tokens first; needs nltk and nupunkt",
    )
    split.add_argument(
        "--running-text",
        action="store_const",
        dest="raw",
        const=RUNNING,
        help="read raw text whose lines end anywhere: join the lines of a paragraph, up to a blank "
        "line, and split it into sentences and tokens",
    )
    parser.add_argument(
        "--precision",
        choices=tuple(PRECISIONS),
        default="fp32",
        help="the precision of the biLM's matrix multiplications: fp32; bf16, where the processor "
        "has it; or int8, for its LSTMs on a CPU, with the compiled kernels",
    )
    parser.add_argument("--cuda-device", type=int, default=-1, help="a GPU, or -1 for the CPU")


def add_initial_state(parser: argparse.ArgumentParser, default: str | None) -> None:
    """`default`: `None` for that of the archive, as in `Elmo.from_archive`."""
    by_default = "" if default else "; by default that of the archive of a task, or else warm"
    parser.add_argument(
        "--initial-state",
        choices=INITIAL_STATES,
        default=default,
        help="the LSTM state at the start of a sentence: warm, one fixed state; zero, zeros; "
        f"carry, the state after earlier sentences, as in AllenNLP 0.9{by_default}",
    )


def named_bilm(args: argparse.Namespace) -> tuple[list[File], str]:
    """
    The first one or two arguments of `find_bilm`, and the device. Raises an `InputError` if there
    is no such GPU, or if the arguments do not name exactly one biLM.
    """
    device = device_named("--cuda-device", args.cuda_device)
    values = (getattr(args, key) for key in KEYS)
    named = one_bilm(values, [f"--{key.replace('_', '-')}" for key in KEYS])
    return list(named.values()), device


def load_elmo(args: argparse.Namespace, **options: Any) -> Elmo:
    """
    Load the biLM that the arguments name, in evaluation mode and on its device. Raises errors as
    `named_bilm`, `find_bilm` and `check_shard`.
    """
    limit_threads()
    files, device = named_bilm(args)
    elmo = Elmo.from_found(find_bilm(*files), precision=args.precision, **options)
    check_shard(args, elmo.initial_state)
    return elmo.eval().to(device)


def text_file(argument: str, path: str) -> tuple[str, Path | BinaryIO]:
    """
    The name of a text in errors, and its file; `-` is standard input. Raises errors as `readable`,
    `standard_input` and `local_path`.
    """
    if path == "-":
        return "stdin", standard_input(argument).buffer
    return path, Path(local_path(readable(path), "a text, one sentence per line"))


def readable(path: str) -> str:
    """
    Return `path`, after the plugin is imported if it is an address that only the plugin reads.
    Raises an `InputError` if AllenNLP is not installed.
    """
    if path.startswith(PLUGIN_ADDRESSES):
        try:
            import_module("elmo_plugin.plugin")
        except ImportError as error:
            raise InputError(f"{path}: to read this address, {error}") from error
    return path


def text_lines(
    args: argparse.Namespace, file: Path | BinaryIO, name: str
) -> Iterator[tuple[int, str]]:
    """
    The numbers and the text of the lines of a text, or of the sentences of a table, of the shard,
    or of all lines of running text. For a table, `--running-text` and `--documents` raise an
    `InputError`.
    """
    texts, documents = read_lines(file, name), getattr(args, "documents", False)
    if TABLE_NAME.fullmatch(name):
        if documents or args.raw == RUNNING:
            fail("--documents" if documents else "--running-text", "a text, not a table", name)
        texts = (sentence for _, sentence in read_table(file, name, ["sentence"]))
    elif args.raw == RUNNING:
        return enumerate(texts)
    elif args.raw:
        texts = check_wrapped(texts)
    return numbered_lines(texts, name, documents, *args.shard)


def count_lines(args: argparse.Namespace, file: Path | BinaryIO, name: str) -> int | None:
    """
    The number of `text_lines`, which finds a blank one before hours of work. `None` for a pipe,
    which can be read only once, and for running text, whose lines are no sentences. What is found
    in the text is said when it is read again.
    """
    if not isinstance(file, Path) or not file.is_file():
        return None
    with collected(Advice()):
        n_lines = sum(1 for _ in text_lines(args, file, name))
    return None if args.raw == RUNNING else n_lines


def check_output_file(argument: str, file: str) -> None:
    """
    Raise an `InputError` as `check_can_write` and `check_no_results`, and for a name with which
    other programs would decompress the file.
    """
    if file.endswith((".gz", ".xz", ".zst")) and not file.endswith(".tar.gz"):
        fail(argument, "a name without .gz, .xz or .zst", file)
    check_can_write(argument, file)
    check_no_results(file)


def add_shard(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--shard",
        type=_shard,
        default="1/1",
        metavar="I/N",
        help="every N-th sentence from the I-th on, so that 1/4 to 4/4 are the whole text",
    )


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


def check_shard(args: argparse.Namespace, initial_state: str) -> None:
    """Raise an `InputError` if a shard is read with `carry`."""
    if initial_state == "carry" and args.shard[1] > 1:
        raise InputError(
            "--shard: expected the initial state zero or warm, found carry, under which results "
            "depend on earlier sentences, which are in another shard"
        )
