"""
Measures what each form of the LSTM brings to a whole training step and to the vectors of a batch:
the equation with PyTorch's automatic gradient, PyTorch's operators with the hand-written gradient,
and the compiled kernel. Everything else is the same for all three.

    python -m benchmarks.forms
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from benchmarks.embedding import ROWS, first_pass, sample, to_batches
from benchmarks.measure import Record, in_turns, print_table, progress
from benchmarks.settings import Settings, models, options_of, precisions
from benchmarks.training import own_trainer
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.ops import kernels
from elmo_plugin.ops.lstm_reference import reference_lstm

FORMS = "equation", "operators", "kernel"


def main(quick: bool = False) -> None:
    settings = Settings(threads=torch.get_num_threads(), quick=quick)
    print(f"The compiled kernels are {kernels.KERNEL_STATUS}; {settings.threads} threads")
    records = [
        record
        for name in models(settings)
        for precision in precisions()
        for record in (trained(settings, name, precision), embedded(settings, name, precision))
    ]
    print_table("Milliseconds of a training step and of a batch of sentences", records)


def trained(settings: Settings, name: str, precision: str) -> Record:
    """A step of 64 rows x 20 time steps, as in `benchmarks.training`."""
    progress(f"training of {name} in {precision}")
    trainer = own_trainer(settings, name, precision)
    return record(f"training {name} {precision}", [partial(used, f, trainer.step) for f in FORMS])


def embedded(settings: Settings, name: str, precision: str) -> Record:
    """The first pass over a batch of sentences, as in `benchmarks.embedding`."""
    progress(f"vectors of {name} in {precision}")
    torch.manual_seed(0)
    elmo = Elmo(BiLM(options_of(name, models(settings)[name]))).eval()
    elmo.bilm.set_precision(precision)
    batches = to_batches(elmo, sample(settings.text, ROWS))
    work = partial(first_pass, elmo, batches)
    return record(f"vectors {name} {precision}", [partial(used, f, work) for f in FORMS])


def record(name: str, works: list[Callable[[], object]]) -> Record:
    for warm_up in works:
        warm_up()
    milliseconds = [1e3 * seconds for seconds in in_turns(*works, n_rounds=5)]
    by_equation, by_operators, by_kernel = milliseconds
    return {
        "task": name,
        **dict(zip(FORMS, milliseconds)),
        "equation / operators": by_equation / by_operators,
        "operators / kernel": by_operators / by_kernel,
    }


def used(form: str, work: Callable[[], object]) -> None:
    with lstm_by(form):
        work()


@contextmanager
def lstm_by(form: str) -> Iterator[None]:
    """Computes the LSTM, and nothing else, in this form."""
    if form == "kernel":
        yield
        return
    with mock.patch("elmo_plugin.ops.lstm.takes", lambda _: False):
        if form == "operators":
            yield
            return
        unpacked = mock.patch("elmo_plugin.ops.lstm.pack_weights", lambda weights: weights)
        with mock.patch("elmo_plugin.modules.lstm.lstm_scan", equation), unpacked:
            yield


def equation(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """`reference_lstm`, whose products autocast computes in the weights' precision."""
    inputs, c_0, h_0, weights, sizes = arguments
    precision = weights.input.dtype
    in_fp32 = weights.map_matrices(lambda x, _: x.float())
    with torch.autocast("cpu", precision, enabled=precision == torch.bfloat16):
        outputs, c, h = reference_lstm(inputs.float(), c_0.float(), h_0.float(), in_fp32, sizes)
    return outputs.to(inputs.dtype), c, h


if __name__ == "__main__":
    main(quick="--quick" in sys.argv)
