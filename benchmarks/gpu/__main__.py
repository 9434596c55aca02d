"""
`make bench-gpu`: whether the fast paths compute the right numbers on a GPU, and how fast they are.
The exit status is 1 if a number is wrong or a measurement failed.
"""

import argparse
import json
import os
import platform
import sys
import time
import warnings
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

from benchmarks.gpu import numerics, repeats, speed
from benchmarks.gpu.page import page
from benchmarks.gpu.step import Sizes
from benchmarks.measure import Record, progress
from benchmarks.settings import PUBLISHED, PUBLISHED_FILTERS, QUICK, SMALL, blocks, options_of
from elmo_plugin.elmo.layers import DEVICE_TOKENS, MAX_TOKENS
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.ops import backend, lstm, softmax

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # deterministic products need it

FIRST_SIZE = Sizes(1024, 20, 8192, 50_000)
OTHER_SIZES = [FIRST_SIZE._replace(rows=384), FIRST_SIZE._replace(words=793_471)]
"""With the vocabularies of our configs: 793,471 words of the 1B Word Benchmark."""
MEDIUM = {"2x2048_256": blocks(2048, 256, PUBLISHED_FILTERS, 1)}
FIRST_MODELS = {"2x4096_512": PUBLISHED["2x4096_512"], **MEDIUM}
VECTORS = 50_000
TOKENS_IN_A_BATCH = [DEVICE_TOKENS, MAX_TOKENS]
"""The batches of `Elmo.embed` on a GPU and on a CPU."""
MOST_SECONDS = 330
"""No part begins later, so that all of them take at most six minutes."""

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
        elapsed = time.monotonic() - began
        if elapsed > MOST_SECONDS and not arguments.quick:
            progress(f"no more {table}, because {elapsed:.0f} s have passed")
            continue
        progress(f"{table} ({elapsed:.0f} s)")
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
            "Triton kernels": triton_kernels(device),
        }
    return {**found, "python": platform.python_version(), "torch": torch.__version__}


def triton_kernels(device: torch.device) -> str:
    """The Triton kernels that passed their self-tests, without which the figures are others."""
    names = [
        f"{name} in {dtype}"
        for name, operators in {"lstm": lstm, "softmax": softmax}.items()
        for dtype in (torch.float32, torch.bfloat16)
        if backend.fastest(operators, [torch.empty(0, dtype=dtype, device=device)])
        is import_module(f"{operators.__name__}.triton_ops")
    ]
    return " and ".join(names) or "none"


def parts(quick: bool, device: torch.device) -> Iterator[tuple[str, Iterator[Record]]]:
    """
    The name of each table and the function that yields its records. The first ones say the most, in
    case that the time is short.
    """
    first = {name: options_of(name, m) for name, m in (QUICK if quick else FIRST_MODELS).items()}
    rest = {} if quick else {name: options_of(name, m) for name, m in SMALL.items()}
    size, others = (Sizes(4, 5, 64, 2000), []) if quick else (FIRST_SIZE, OTHER_SIZES)
    n_tokens, batches = (200, [100]) if quick else (VECTORS, TOKENS_IN_A_BATCH)
    peer_of_training, peer_of_vectors = peers()
    yield "limits", speed.limits(device, quick)
    yield "numerics", numerics.run(device, quick)
    *_, smallest = first.values()
    yield "repeats", repeats.run(smallest, size._replace(rows=min(size.rows, 64)), device)
    yield from trainers(device)
    for name, options in first.items():
        yield "training", speed.training(name, options, size, device, quick, peer_of_training)
    for name, options in first.items():
        peer = peer_of_vectors
        yield "vectors", speed.vectors(name, options, n_tokens, batches[0], device, quick, peer)
    for name, options in first.items():
        yield "embed", speed.embed(name, options, n_tokens, device)
    for name, options in rest.items():
        yield "training", speed.training(name, options, size, device, quick, peer_of_training)
    for name, options in (first | rest).items():
        yield "kernels", speed.kernels(name, options, size, device)
        yield "lstm", speed.lstm(name, options, size, device, quick)
    for name, options in (first | rest).items():
        for other in others:
            yield "training", speed.training(name, options, other, device, quick, None)
        for most in batches[1:]:
            yield "vectors", speed.vectors(name, options, n_tokens, most, device, quick, None)


def trainers(device: torch.device) -> Iterator[tuple[str, Iterator[Record]]]:
    """Trainings by AllenNLP, where it is installed."""
    try:
        from benchmarks.gpu.trainers import run
    except ImportError as error:
        progress(f"no trainings with use_amp, which need AllenNLP: {error}")
        return
    yield "trainers", run(device)


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
    others = [x for table in ("repeats", "trainers") for x in tables.get(table, []) if not x["ok"]]
    for record in others:
        print(f"wrong: {record}", file=sys.stderr)
    failures = tables.get("failures", [])
    for record in failures:
        print("failed: {part}: {error}".format(**record), file=sys.stderr)
    return 1 if wrong or others or failures else 0


if __name__ == "__main__":
    main()
