"""
Creates an untrained biLM with the sizes of a model in the package, as a control:

    python -m experiments.random_bilm OUT --like small --seed 13370

OUT receives bilm-tf's two files and can be used as `archive_file`. The same seed gives the same
weights. The warm state is that after empty sentences.
"""

import argparse
from pathlib import Path

import torch

from elmo_plugin.formats.bilm_tf.options_file import read_options, write_options
from elmo_plugin.formats.bilm_tf.weight_file import write_weights
from elmo_plugin.modules import BiLM
from elmo_plugin.pretrained import pretrained_files


def write_random_bilm(folder: Path, like: str, seed: int) -> None:
    """Write bilm-tf's two files, the options last, so that a folder with options is complete."""
    options = read_options(pretrained_files(like).options_file)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        bilm = BiLM(options).eval()
    bilm.warm_up()
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(bilm, folder / "weights.hdf5")
    write_options(options, folder / "options.json")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--like", default="small", help="a model in the package")
    parser.add_argument("--seed", type=int, default=13370)
    arguments = parser.parse_args()
    write_random_bilm(arguments.out, arguments.like, arguments.seed)


if __name__ == "__main__":
    main()
