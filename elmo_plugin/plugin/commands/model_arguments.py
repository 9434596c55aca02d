"""The arguments with which commands name a biLM."""

import argparse

import torch

from elmo_plugin.checks import InputError, check_count, fail
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.plugin.commands.paths import input_path
from elmo_plugin.pretrained import pretrained_names


def add_model_arguments(subparser: argparse.ArgumentParser) -> None:
    subparser.add_argument(
        "--pretrained",
        choices=pretrained_names(),
        help="the name of a model that is part of the package",
    )
    subparser.add_argument(
        "--archive-file",
        type=str,
        help="the model.tar.gz of a trained bilm, or a folder or zip file with bilm-tf's "
        "options.json and an HDF5 file",
    )
    subparser.add_argument("--options-file", type=str, help="the options file of bilm-tf")
    subparser.add_argument("--weight-file", type=str, help="the weight file of bilm-tf")
    subparser.add_argument("--cuda-device", type=int, default=-1, help="a GPU, or -1 for the CPU")


def load_elmo(args: argparse.Namespace) -> Elmo:
    """
    The biLM of the arguments, in evaluation mode and on its device. `args` also has the
    `initial_state`.

    # Raises

    `InputError`
        If there is no such GPU, or if the arguments do not name one biLM that reads characters.
    `FileNotFoundError`
        If a file does not exist.
    """
    check_count("--cuda-device", args.cuda_device, least=-1)
    if args.cuda_device >= (n_gpus := torch.cuda.device_count()):
        fail("--cuda-device", f"-1 or one of the {n_gpus} GPUs, counted from 0", args.cuda_device)
    elmo = _load(args).eval()
    if args.cuda_device >= 0:
        elmo.cuda(args.cuda_device)
    return elmo


def _load(args: argparse.Namespace) -> Elmo:
    names = ("--pretrained", "--archive-file", "--options-file", "--weight-file")
    values = (args.pretrained, args.archive_file, args.options_file, args.weight_file)
    given = [name for name, value in zip(names, values) if value is not None]
    match given:
        case ["--pretrained"]:
            return Elmo.from_pretrained(args.pretrained, initial_state=args.initial_state)
        case ["--archive-file"]:
            expected = "the model.tar.gz of a trained bilm, or a folder or zip of bilm-tf's files"
            archive = input_path("--archive-file", args.archive_file, expected)
            return Elmo.from_archive(archive, initial_state=args.initial_state)
        case ["--options-file", "--weight-file"]:
            options = input_path("--options-file", args.options_file, "bilm-tf's options.json")
            weights = input_path("--weight-file", args.weight_file, "bilm-tf's weights in HDF5")
            return Elmo.from_files(options, weights, initial_state=args.initial_state)
    raise InputError(
        "expected one of --pretrained, --archive-file, or --options-file and --weight-file, found "
        f"{' and '.join(given) or 'none'}"
    )
