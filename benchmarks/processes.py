"""
Compares our training steps on one core, on two cores with one process, and on two cores with two
processes, each of which has half of the rows; gradients are exchanged through Gloo.
"""

import os
import tempfile
from dataclasses import replace
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from benchmarks.measure import MatrixProductPeak, Record, in_turns, print_table, progress
from benchmarks.settings import QUICK, SMALL, Settings, options_of
from benchmarks.training import (
    DROPOUT,
    N_WINDOWS,
    WINDOW,
    Trainer,
    first_batches,
    operations,
    sizes,
    vocabulary_of,
)
from benchmarks.workers import forked
from elmo_plugin.plugin.callbacks.keep_freed_memory import keep_freed_memory
from elmo_plugin.plugin.models.language_model import LanguageModel
from elmo_plugin.text.corpus_cache import open_corpus

N_ROUNDS = 9
GRADIENTS = ("dense", "sparse")


class Way(NamedTuple):
    processes: int
    threads: int
    """Number of threads of each process, one per core."""


WAYS = (Way(1, 1), Way(1, 2), Way(2, 1))


class Steps(NamedTuple):
    """Figures of a process for one kind of gradients."""

    seconds: float
    least_seconds: float
    """Time of a step's useful operations at the rate of matrix products."""


def run(settings: Settings) -> Record:
    """Print the table and return it, by name."""
    [name] = QUICK if settings.quick else SMALL
    text = settings.text
    settings = replace(settings, text=str(open_corpus(settings.text).folder))
    rows, negatives, _ = sizes(settings)
    records: list[Record] = []
    for way in WAYS:
        progress(f"{way.processes} process(es) of {way.threads} thread(s)")
        for gradients, *ranks in zip(GRADIENTS, *run_processes(settings, way)):
            # All processes wait for the slowest one.
            seconds = max(steps.seconds for steps in ranks)
            least = max(steps.least_seconds for steps in ranks)
            records.append(
                {
                    **way._asdict(),
                    "gradients": gradients,
                    "ms_per_step": 1000 * seconds,
                    "tokens_per_second": rows * WINDOW / seconds,
                    "limit": rows * WINDOW / least,
                    "share_of_limit": least / seconds,
                }
            )
    for record, one in zip(records, records[: len(GRADIENTS)] * len(WAYS)):
        record["ratio_to_one"] = record["tokens_per_second"] / one["tokens_per_second"]
    print_table(
        f"Training {name} on {text}, {rows} rows x {WINDOW} time steps in all processes "
        f"together, {negatives:,} negatives",
        records,
    )
    return {"processes": records}


def run_processes(settings: Settings, way: Way) -> list[list[Steps]]:
    """Return the figures of each process."""
    with tempfile.TemporaryDirectory() as folder, forked(way.processes) as pool:
        store = f"file://{folder}/store"
        ranks = [
            pool.submit(time_steps, settings, way, rank, store) for rank in range(way.processes)
        ]
        return [rank.result() for rank in ranks]


def time_steps(settings: Settings, way: Way, rank: int, store: str) -> list[Steps]:
    """Measure in one process. Returns the figures by kind of gradients."""
    bind(way, rank)
    keep_freed_memory()
    if way.processes > 1:
        dist.init_process_group("gloo", init_method=store, rank=rank, world_size=way.processes)
    trainers = [trainer(settings, way, gradients) for gradients in GRADIENTS]
    peak = MatrixProductPeak(quick=settings.quick)
    # The same number of rounds in each process, because they wait for each other in each step.
    _, *seconds = in_turns(
        peak, *(each.step for each in trainers), n_rounds=N_ROUNDS, least_seconds=0
    )
    [(name, model)] = (QUICK if settings.quick else SMALL).items()
    n_operations = operations(options_of(name, model), sizes(settings)[1], trainers[0].batches)
    if way.processes > 1:
        dist.destroy_process_group()
    return [Steps(each, peak.seconds_at_least(n_operations)) for each in seconds]


def bind(way: Way, rank: int) -> None:
    """Bind a process to its cores, which are shared if there are too few."""
    cores = sorted(os.sched_getaffinity(0))
    first = rank * way.threads
    os.sched_setaffinity(0, {cores[i % len(cores)] for i in range(first, first + way.threads)})
    torch.set_num_threads(way.threads)


def trainer(settings: Settings, way: Way, gradients: str) -> Trainer:
    rows, negatives, _ = sizes(settings)
    [model] = (QUICK if settings.quick else SMALL).values()
    vocabulary = vocabulary_of(settings)
    torch.manual_seed(0)
    language_model: torch.nn.Module = LanguageModel(
        vocabulary,
        model["lstm"],
        model["char_cnn"],
        dropout=DROPOUT,
        n_negative_samples=negatives,
        sparse_gradients=gradients == "sparse",
    )
    if way.processes > 1:
        language_model = DistributedDataParallel(language_model)  # as AllenNLP's trainer does
    # The loader gives each process different rows.
    own_rows = rows // way.processes
    batches = first_batches(settings.text, vocabulary, own_rows, WINDOW, N_WINDOWS)
    return Trainer(language_model, batches)
