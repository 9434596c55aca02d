"""
Measures vectors and training steps on an idle machine and next to two CPU-bound processes, with
threads that spin while they wait for one another and with threads that sleep:

    python -m benchmarks.loaded
"""

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import torch

from benchmarks.embedding import first_pass, sample, to_batches
from benchmarks.measure import Record, in_turns, print_table
from benchmarks.settings import QUICK, SMALL, Settings, options_of, precisions
from benchmarks.training import own_trainer
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.plugin.faster.busy_machine import do_not_spin

N_BUSY = 2


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.loaded", description=__doc__)
    parser.add_argument("--text", default="docs://train", help="a file, a glob or a folder")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    run(Settings(text=arguments.text, threads=arguments.threads))


def run(settings: Settings) -> Record:
    """Print the table and return it, by name."""
    [(name, model)] = (QUICK if settings.quick else SMALL).items()
    options = options_of(name, model)
    torch.manual_seed(0)
    elmo = Elmo(BiLM(options)).eval()
    batches = to_batches(elmo, sample(settings.text, 96))
    trainers = {precision: own_trainer(settings, name, precision) for precision in precisions()}

    def embed(precision: str) -> None:
        elmo.bilm.set_precision(precision)
        first_pass(elmo, batches)

    works: dict[tuple[str, str], Callable[[], object]] = {
        ("vectors", precision): partial(embed, precision) for precision in precisions()
    }
    works |= {("training", precision): trainers[precision].step for precision in precisions()}
    alone = in_turns(*works.values())
    with busy_processes(N_BUSY):
        spinning = in_turns(*works.values())
    do_not_spin()
    with busy_processes(N_BUSY):
        sleeping = in_turns(*works.values())
    sleeping_alone = in_turns(*works.values())
    records = [
        {
            "work": work,
            "precision": precision,
            "ms": 1e3 * seconds[0],
            "share_spinning": seconds[0] / seconds[1],
            "share_sleeping": seconds[0] / seconds[2],
            "share_sleeping_alone": seconds[0] / seconds[3],
        }
        for (work, precision), *seconds in zip(works, alone, spinning, sleeping, sleeping_alone)
    ]
    print_table(
        f"{name}, {settings.threads} threads, alone and next to {N_BUSY} busy processes", records
    )
    return {"loaded": records}


@contextmanager
def busy_processes(count: int) -> Iterator[list[subprocess.Popen]]:
    command = [sys.executable, "-c", "while True: pass"]
    processes = [subprocess.Popen(command) for _ in range(count)]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.wait()


if __name__ == "__main__":
    main()
