"""
`make bench-gpu`: whether the fast paths compute the right numbers on a GPU, and how fast they are.
The exit status is 1 if a number is wrong or a measurement failed.
"""

import argparse
import json
import platform
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import numerics, speed
from benchmarks.gpu.page import page
from benchmarks.gpu.step import Sizes
from benchmarks.measure import Record, progress
from benchmarks.settings import PUBLISHED, QUICK, options_of
from elmo_plugin.files.atomic_write import atomic_write

SIZES = [Sizes(rows, 20, 8192, words) for words in (50_000, 793_471) for rows in (384, 1024)]
"""With the vocabularies of our configs: 793,471 words of the 1B Word Benchmark."""
VECTORS = 50_000
TOKENS_IN_A_BATCH = [2048, 16_384]
"""Batches of `Elmo.embed`, and larger ones."""

Results = dict[str, Any]


def main() -> None:
    arguments = parse()
    warnings.simplefilter("ignore")  # AllenNLP's
    if arguments.count:
        from benchmarks.gpu.count import count  # it lets Triton interpret its kernels

        count()
        return
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    results: Results = {"conditions": conditions(device), "tables": {}}
    began = time.monotonic()
    for table, records in parts(arguments.quick, device):
        progress(f"{table} ({time.monotonic() - began:.0f} s)")
        try:
            for record in records:
                results["tables"].setdefault(table, []).append(record)
                write(arguments, results)
        except Exception as error:  # the other parts are still worth their time
            failure = {"part": table, "error": speed.one_line(error)}
            results["tables"].setdefault("failures", []).append(failure)
            write(arguments, results)
    results["conditions"]["seconds"] = round(time.monotonic() - began)
    write(arguments, results)
    print(page(results["conditions"], results["tables"]))
    sys.exit(report_failures(results["tables"]))


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--out", type=Path, help="the JSON file for all figures")
    parser.add_argument("--page", type=Path, help="also write the tables as a page in Markdown")
    parser.add_argument(
        "--quick", action="store_true", help="tiny models, to check that everything works"
    )
    parser.add_argument(
        "--count",
        action="store_true",
        help="instead of measuring, count the operators of a training step, on any machine",
    )
    arguments = parser.parse_args()
    if arguments.count == (arguments.out is not None):
        parser.error("expected either --out or --count")
    for path in filter(None, (arguments.out, arguments.page)):
        if not path.parent.is_dir():
            parser.error(f"expected a file in a folder, found no {path.parent}")
    if not torch.cuda.is_available() and not arguments.count:
        if not arguments.quick:
            parser.error("expected a GPU, found none; --quick runs on a CPU")
        if arguments.page:
            parser.error("--page: expected a GPU, found none, and a page has figures of a GPU only")
    return arguments


def conditions(device: torch.device) -> Record:
    """The conditions of the run that affect the figures."""
    found: Record = {"device": platform.processor() or platform.machine()}
    if device.type == "cuda":
        properties = torch.cuda.get_device_properties(device)
        found = {
            "device": properties.name,
            "memory, GiB": round(properties.total_memory / 2**30, 1),
            "multiprocessors": properties.multi_processor_count,
            "CUDA": torch.version.cuda,
            "cuDNN": torch.backends.cudnn.version(),
        }
    return {**found, "python": platform.python_version(), "torch": torch.__version__}


def parts(quick: bool, device: torch.device) -> Iterator[tuple[str, Iterator[Record]]]:
    """
    The name of each table and the function that yields its records. The first ones say the most, in
    case that the time is short.
    """
    models = {name: options_of(name, m) for name, m in (QUICK if quick else PUBLISHED).items()}
    peer_of_training, peer_of_vectors = peers()
    sizes = [Sizes(4, 5, 64, 2000)] if quick else SIZES
    yield "limits", speed.limits(device, quick)
    yield "numerics", numerics.run(device, quick)
    for name, options in models.items():
        for size in sizes:
            peer = peer_of_training if size == sizes[0] else None
            yield "training", speed.training(name, options, size, device, quick, peer)
    for name, options in models.items():
        yield "lstm", speed.lstm(name, options, sizes[0], device, quick)
    n_tokens, batches = (200, [100]) if quick else (VECTORS, TOKENS_IN_A_BATCH)
    for name, options in models.items():
        for most in batches:
            peer = peer_of_vectors if most == batches[0] else None
            yield "vectors", speed.vectors(name, options, n_tokens, most, device, quick, peer)
    for name, options in models.items():
        yield "kernels", speed.kernels(name, options, sizes[0], device)


def peers() -> tuple[speed.Peer | None, speed.Peer | None]:
    """AllenNLP's training step and vectors, where it is installed."""
    try:
        from benchmarks.gpu.peers import training_step, vectors
    except ImportError as error:
        progress(f"without AllenNLP: {error}")
        return None, None
    return training_step, vectors


def write(arguments: argparse.Namespace, results: Results) -> None:
    """Write everything that was measured so far."""
    with atomic_write(arguments.out) as temporary:
        temporary.write_text(json.dumps(results, indent=2) + "\n")
    if arguments.page:
        with atomic_write(arguments.page) as temporary:
            temporary.write_text(page(results["conditions"], results["tables"]))


def report_failures(tables: dict[str, list[Record]]) -> int:
    """Print what is wrong, one line each, and return the exit status."""
    wrong = [record for record in tables.get("numerics", []) if not record["ok"]]
    for record in wrong:
        print(
            "wrong: {part}, {tensor}, {precision}: expected a difference of at most {bound:.1e}, "
            "found {difference:.1e}, largest difference {largest_difference:.1e}".format(**record),
            file=sys.stderr,
        )
    failures = tables.get("failures", [])
    for record in failures:
        print("failed: {part}: {error}".format(**record), file=sys.stderr)
    return 1 if wrong or failures else 0


if __name__ == "__main__":
    main()
