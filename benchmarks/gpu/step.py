"""A training step without AllenNLP, as `LanguageModel` and `ClippedAdagradOptimizer` make it."""

from itertools import cycle
from typing import NamedTuple

import torch
from torch import Tensor, nn

from benchmarks.gpu.precision import Precision
from benchmarks.gpu.text import Window, on_device
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.modules.bilm import PRECISIONS
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
    A biLM with its sampled softmax and optimizer; each call is a step. The softmax has row-sparse
    gradients, so that the cost does not depend on the size of the vocabulary.

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
        self.device = device
        self.bilm = BiLM(options, dropout=DROPOUT).to(device)
        with device:  # where the initial values of so many words are drawn faster
            self.softmax = SampledSoftmax(
                n_words=sizes.words,
                dim=options.lstm.projection_dim,
                n_negative_samples=sizes.negatives,
                sparse_gradients=True,
            )
        self.bilm.set_precision(precision.bilm)
        self.softmax.precision = PRECISIONS[precision.bilm]
        self.parameters = [*self.bilm.parameters(), *self.softmax.parameters()]
        self.optimizer = torch.optim.Adagrad(self.parameters, lr=0.2, initial_accumulator_value=1.0)
        self.state = self.bilm.bilstm.zero_state(sizes.rows)
        if device.type == "cuda":  # as the data loader does
            windows = [{name: x.pin_memory() for name, x in w.items()} for w in windows]
        self._windows = cycle(windows)
        for _ in windows:
            self()

    def __call__(self) -> None:
        self.optimizer.zero_grad()
        self.loss().backward()
        self._clip()
        with torch.sparse.check_sparse_tensor_invariants(enable=False):
            self.optimizer.step()

    def loss(self) -> Tensor:
        window = on_device(next(self._windows), self.device)
        layers, self.state = self.bilm(
            window["words"], window["forward_inputs"], window["backward_inputs"], self.state
        )
        targets = torch.stack([window["forward_targets"].T, window["backward_targets"].T])
        top = nn.functional.dropout(layers[-1], DROPOUT)
        total = sum(self.softmax(h, t) for h, t in zip(top, targets))
        assert isinstance(total, Tensor)
        return total / (2 * targets.size(2))  # the mean loss times the window's length

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
