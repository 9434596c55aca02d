"""Whether two trainings with one seed have equal weights."""

from collections.abc import Iterator

import torch

from benchmarks.gpu.precision import Precision
from benchmarks.gpu.speed import each_precision, one_line, windows_of
from benchmarks.gpu.step import Sizes, TrainingStep
from benchmarks.measure import Record
from elmo_plugin.options import BiLMOptions

N_STEPS = 3


def run(options: BiLMOptions, sizes: Sizes, device: torch.device) -> Iterator[Record]:
    """
    Without and with `torch.use_deterministic_algorithms`. PyTorch refuses operators that have no
    such algorithm on the device.
    """
    for precision in each_precision(device):
        for deterministic in (False, True):
            torch.use_deterministic_algorithms(deterministic)
            largest, error = None, None
            try:
                first, second = (_weights(options, sizes, precision, device) for _ in range(2))
                largest = max(float((x - y).abs().max()) for x, y in zip(first, second))
            except RuntimeError as refused:
                error = one_line(refused)
            finally:
                torch.use_deterministic_algorithms(False)
            yield {
                "precision": precision.name,
                "deterministic_algorithms": deterministic,
                "largest_difference": largest,
                "error": error,
                "ok": error is None and (not deterministic or largest == 0.0),
            }


def _weights(
    options: BiLMOptions, sizes: Sizes, precision: Precision, device: torch.device
) -> list[torch.Tensor]:
    """The weights after some steps; `TrainingStep` sets the seed."""
    step = TrainingStep(options, sizes, precision, device, windows_of(options, sizes))
    for _ in range(N_STEPS):
        step()
    return [parameter.detach() for parameter in step.parameters]
