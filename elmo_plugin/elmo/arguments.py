"""Arguments of commands that need no AllenNLP: the biLM, the device, and files to write."""

import argparse
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from elmo_plugin.checks import WHOLE, InputError, fail
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.files.atomic_write import check_is_new
from elmo_plugin.files.standard_streams import output_encoding, piped_output
from elmo_plugin.formats.find import KEYS, File, find_bilm, one_bilm
from elmo_plugin.modules.bilm import PRECISIONS
from elmo_plugin.pretrained import pretrained_names

NAMES_OF_A_BILM = (
    "the model.tar.gz or the folder of a trained bilm, or of a task model with the embedder elmo "
    "(ARCHIVE#NAME if it has several); a folder, zip or tar.gz file with bilm-tf's options.json "
    "and an HDF5 file or a TensorFlow checkpoint; a folder of ELMoForManyLangs; a URL; "
    "hf://USER/REPOSITORY; or pretrained://NAME"
)
"""Help of an argument for anything that `find_bilm` finds."""


def add_model_arguments(parser: argparse.ArgumentParser) -> None:
    """The biLM, where and how precisely it is computed, and the tokens that it reads."""
    installed = ", ".join(pretrained_names())
    parser.add_argument("--pretrained", help=f"the name of an installed model: {installed}")
    parser.add_argument("--archive-file", help=NAMES_OF_A_BILM)
    parser.add_argument("--options-file", help="the options file of bilm-tf")
    parser.add_argument("--weight-file", help="the weight file of bilm-tf")
    parser.add_argument(
        "--raw", action="store_true", help="split the text into tokens first; needs nltk"
    )
    parser.add_argument(
        "--precision",
        choices=tuple(PRECISIONS),
        default="fp32",
        help="the precision of the biLM's matrix products: fp32; bf16, where the processor has it; "
        "or int8, for its LSTMs on a CPU, with the compiled kernels",
    )
    parser.add_argument("--cuda-device", type=int, default=-1, help="a GPU, or -1 for the CPU")


def named_bilm(args: argparse.Namespace) -> tuple[list[File], str]:
    """
    The first one or two arguments of `find_bilm`, and the device. Raises an `InputError` if there
    is no such GPU, or if the arguments do not name exactly one biLM.
    """
    device = device_named("--cuda-device", args.cuda_device)
    values = (getattr(args, key) for key in KEYS)
    named = one_bilm(values, [f"--{key.replace('_', '-')}" for key in KEYS])
    return list(named.values()), device


def load_elmo(args: argparse.Namespace, initial_state: str = "warm") -> Elmo:
    """
    Load the biLM that the arguments name, in evaluation mode and on its device. Raises errors as
    `named_bilm` and `find_bilm`.
    """
    files, device = named_bilm(args)
    elmo = Elmo(find_bilm(*files).bilm, initial_state=initial_state, precision=args.precision)
    return elmo.eval().to(device)


def device_named(argument: str, cuda_device: int) -> str:
    """A GPU by its number, or the CPU for -1. Raises an `InputError` if there is no such GPU."""
    n_gpus = torch.cuda.device_count()
    if not isinstance(cuda_device, WHOLE) or not -1 <= cuda_device < n_gpus:
        gpus = f" or a GPU from 0 to {n_gpus - 1}" if n_gpus else ", because PyTorch finds no GPU"
        fail(argument, f"-1 for the CPU{gpus}", cuda_device)
    return "cpu" if cuda_device < 0 else f"cuda:{cuda_device}"


def check_output_file(argument: str, file: str) -> None:
    """Raise an `InputError` if the output `file` exists, and as `check_can_write`."""
    check_is_new(file)
    check_can_write(argument, file)


def check_can_write(argument: str, file: str) -> None:
    """
    Raise an `InputError` if the output `file` cannot be written, before hours of work. For a link,
    its target is checked.
    """
    if not file or os.path.isdir(file):
        fail(argument, "a file to write", file)
    if os.path.exists(file) and not os.path.isfile(file):  # a pipe
        return
    folder = Path(os.path.realpath(file)).parent
    try:  # permissions alone do not tell, as in /proc
        tempfile.TemporaryFile(dir=folder).close()
    except OSError as error:
        raise InputError(
            f"{argument}: {file}: expected to write into the folder {folder}, found: "
            f"{error.strerror}"
        ) from None


def run_command(command: Any, arguments: Sequence[str], prog: str) -> int | str | None:
    """
    Run a command where AllenNLP is not installed. `command`: its module, with `DESCRIPTION`,
    `add_arguments` and `run`. Returns the argument of `sys.exit`.
    """
    parser = argparse.ArgumentParser(prog=prog, description=command.DESCRIPTION)
    command.add_arguments(parser)
    args = parser.parse_args(arguments)
    try:
        with piped_output():
            command.run(args)
    except KeyboardInterrupt:
        return 130  # 128 + SIGINT
    except (ValueError, OSError) as error:
        return f"{prog}: {' '.join(str(error).split())}"
    return None


def print_text(text: str, end: str = "\n") -> None:
    """Print text, escaping characters outside the terminal's encoding, as in `caf\\xe9`."""
    encoding = output_encoding()
    print(text.encode(encoding, "backslashreplace").decode(encoding), end=end)
