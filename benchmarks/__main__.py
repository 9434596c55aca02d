"""`make bench`: each figure with the peer's and the machine's limit, from the same run."""

import argparse
import importlib
import json
import os
import platform
import sys
import warnings
from pathlib import Path

import torch

PARTS = {
    "embedding": "vectors: speed, latency",
    "scores": "log probabilities",
    "training": "steps of training",
}


def main() -> None:
    arguments = parse()
    # Importing AllenNLP prints irrelevant warnings, also in the processes that train.
    os.environ["PYTHONWARNINGS"] = "ignore"
    warnings.simplefilter("ignore")
    import elmo_plugin.plugin  # noqa: F401  registers docs://
    from benchmarks.settings import Settings
    from elmo_plugin.checks import InputError
    from elmo_plugin.files.atomic_write import atomic_write

    torch.set_num_threads(arguments.threads)
    fields = ("text", "sentences", "quick", "threads", "profile")
    settings = Settings(**{field: getattr(arguments, field) for field in fields})
    results = {"conditions": conditions(arguments.quick)}
    for key, value in results["conditions"].items():
        print(f"{key}: {value}")
    for part in arguments.parts or PARTS:
        try:
            results[part] = importlib.import_module(f"benchmarks.{part}").run(settings)
        except (FileNotFoundError, InputError) as error:
            sys.exit(f"{part}: {error}")
        if arguments.json:
            with atomic_write(arguments.json) as temporary:
                temporary.write_text(json.dumps(results, indent=2) + "\n")


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description=__doc__,
        epilog="; ".join(f"{part}: {what}" for part, what in PARTS.items()),
    )
    parser.add_argument("parts", nargs="*", help=f"of {', '.join(PARTS)}; by default all")
    parser.add_argument("--text", default="docs://train", help="a file, a glob or a folder")
    parser.add_argument(
        "--sentences",
        type=int,
        default=96,
        help="sentences for vectors (%(default)s); the more, the less packing the weights matters",
    )
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="also write the figures to this file"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny models, to check that everything works"
    )
    parser.add_argument(
        "--profile", action="store_true", help="also print our most expensive operators"
    )
    parser.add_argument(
        "--threads", type=int, default=torch.get_num_threads(), help="PyTorch threads (%(default)s)"
    )
    arguments = parser.parse_args()
    if unknown := set(arguments.parts) - PARTS.keys():
        parser.error(f"expected parts out of {', '.join(PARTS)}, found {', '.join(unknown)}")
    for name in ("threads", "sentences"):
        if (found := getattr(arguments, name)) < 1:
            parser.error(f"--{name}: expected at least 1, found {found}")
    if arguments.json and not arguments.json.parent.is_dir():
        parser.error(f"--json: expected a file in a folder, found no {arguments.json.parent}")
    return arguments


def conditions(quick: bool) -> dict[str, object]:
    """Return the conditions of the run that affect the figures."""
    from benchmarks.measure import MatrixProductPeak
    from benchmarks.settings import precisions
    from elmo_plugin.ops.backend import KERNEL_STATUS
    from experiments.rows import ORIGIN

    peaks = {name: MatrixProductPeak(dtype, quick) for name, dtype in precisions().items()}
    return {
        **ORIGIN,
        "cores": os.cpu_count(),
        "threads": torch.get_num_threads(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "compiled kernels": KERNEL_STATUS,
        "fp32 GFLOP/s by torch.mm": round(peaks["fp32"].gflops_of_torch, 1),
        **{f"{name} GFLOP/s": round(peak.gflops, 1) for name, peak in peaks.items()},
    }


if __name__ == "__main__":
    main()
