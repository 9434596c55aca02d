"""A training step without AllenNLP, as `BiLMModel` and `ClippedAdagradOptimizer` make it."""

from itertools import cycle
from typing import NamedTuple

import torch
from torch import Tensor

from benchmarks.gpu.precision import Precision
from benchmarks.gpu.text import Window, on_device
from elmo_plugin.modules import BiLMWithSoftmax
from elmo_plugin.options import BiLMOptions

DROPOUT = 0.1
GRAD_NORM = 10.0


class Sizes(NamedTuple):
    """Numbers of rows, of time steps, of negatives and of words."""

    rows: int
    steps: int
    negatives: int
    words: int


class TrainingStep:
    """
    A language model and its optimizer; each call is a step. The softmax has row-sparse gradients,
    so that the cost does not depend on the size of the vocabulary.

    # Parameters

    options : `BiLMOptions`
    sizes : `Sizes`
    precision : `Precision`
    device : `torch.device`
    windows : `list[Window]`
        Windows that the steps read in turn, on the CPU. Each is first read here to warm up.
    """

    def __init__(
        self,
        options: BiLMOptions,
        sizes: Sizes,
        precision: Precision,
        device: torch.device,
        windows: list[Window],
    ) -> None:
        torch.manual_seed(0)
        with device:  # where the initial values of so many words are drawn faster
            self.model = BiLMWithSoftmax(
                options,
                n_words=sizes.words,
                dropout=DROPOUT,
                n_negative_samples=sizes.negatives,
                sparse_gradients=True,
                precision=precision.bilm,
            )
        self.parameters = list(self.model.parameters())
        tables = set(self.model.softmax.parameters())  # with sparse gradients
        dense = [parameter for parameter in self.parameters if parameter not in tables]
        self.optimizers = [
            torch.optim.Adagrad(group, lr=0.2, initial_accumulator_value=1.0)
            for group in (dense, list(tables))
        ]
        self.starts = torch.zeros(sizes.rows, dtype=torch.bool, device=device)  # of no row
        if device.type == "cuda":  # as the data loader does
            windows = [{name: x.pin_memory() for name, x in w.items()} for w in windows]
        self._windows = cycle(windows)
        for _ in windows:
            self()

    def __call__(self) -> None:
        self.model.zero_grad()
        self.loss().backward()
        self._clip()
        with torch.sparse.check_sparse_tensor_invariants(enable=False):
            for optimizer in self.optimizers:
                optimizer.step()

    def loss(self) -> Tensor:
        window = on_device(next(self._windows), self.starts.device)
        hidden, targets = self.model.read_window(self.starts, **window)
        sums = self.model.negative_log_likelihoods(hidden, targets)
        return (sums[0] + sums[1]) / (2 * len(self.starts))  # the mean times the window's length

    def _clip(self) -> None:
        gradients = []
        for parameter in self.parameters:
            assert parameter.grad is not None
            if parameter.grad.is_sparse:
                parameter.grad = parameter.grad.coalesce()
                gradients.append(parameter.grad.values())
            else:
                gradients.append(parameter.grad)
        factor = torch.clamp(GRAD_NORM / torch.nn.utils.get_total_norm(gradients), max=1.0)
        torch._foreach_mul_(gradients, factor)
