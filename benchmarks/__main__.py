"""`make bench`: each figure with the peer's and the machine's limit, from the same run."""

import argparse
import importlib
import json
import os
import platform
import sys
import warnings
from dataclasses import fields
from pathlib import Path
from typing import Any

import torch

PARTS = {
    "embedding": "vectors: speed, latency",
    "installed": "vectors of small and medium on one thread and on all",
    "scores": "log probabilities",
    "training": "steps of training",
}
INSTRUCTIONS = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 with bf16", "avx512f": "AVX-512"}
INSTRUCTIONS |= {"avx2": "AVX2"}
"""What makes kinds of one processor's name differ: flags of Linux, the best first."""


def main() -> None:
    arguments = parse()
    # Importing AllenNLP prints irrelevant warnings, also in the processes that train.
    os.environ["PYTHONWARNINGS"] = "ignore"
    warnings.simplefilter("ignore")
    import elmo_plugin.plugin  # noqa: F401  registers docs://
    from benchmarks.settings import Settings
    from elmo_plugin.checks import InputError

    torch.set_num_threads(arguments.threads)
    settings = Settings(**{x.name: getattr(arguments, x.name) for x in fields(Settings)})
    found = conditions(arguments.quick)
    for key, value in found.items():
        print(f"{key}: {value}")
    for part in arguments.parts or PARTS:
        try:
            figures = importlib.import_module(f"benchmarks.{part}").run(settings)
        except (FileNotFoundError, InputError) as error:
            sys.exit(f"{part}: {error}")
        if arguments.json:
            record(arguments.json, part, {"conditions": found, **figures})


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
        "--json",
        type=Path,
        metavar="FILE",
        help="also write the figures to this file, in place of the same parts of this processor",
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny models, to check that everything works"
    )
    parser.add_argument(
        "--profile", action="store_true", help="also print our most expensive operators"
    )
    parser.add_argument(
        "--transformer",
        type=Path,
        metavar="FOLDER",
        help="also measure a transformer next to the installed models",
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


def record(file: Path, part: str, figures: dict[str, Any]) -> None:
    """Write the figures of a part to `file`, which keeps all other parts and processors."""
    from elmo_plugin.files.atomic_write import atomic_write

    results = json.loads(file.read_text("utf-8")) if file.exists() else {}
    results.setdefault(figures["conditions"]["kind"], {})[part] = figures
    with atomic_write(file) as temporary:
        temporary.write_text(json.dumps(results, indent=1) + "\n")


def conditions(quick: bool) -> dict[str, object]:
    """Return the conditions of the run that affect the figures."""
    from benchmarks.measure import MatrixProductPeak
    from benchmarks.settings import precisions
    from elmo_plugin.ops.backend import KERNEL_STATUS
    from experiments.rows import ORIGIN

    peaks = {name: MatrixProductPeak(dtype, quick) for name, dtype in precisions().items()}
    flags = Path("/proc/cpuinfo")
    known = flags.read_text().split() if flags.exists() else []
    instructions = [name for flag, name in INSTRUCTIONS.items() if flag in known]
    return {
        **ORIGIN,
        "kind": ", ".join([ORIGIN["processor"], *instructions[:1]]),
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
