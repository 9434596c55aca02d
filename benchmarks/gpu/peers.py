"""The peers of training and of vectors: AllenNLP's modules, which this module imports."""

import tempfile
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from types import SimpleNamespace

import torch
from torch import Tensor

from benchmarks.embedding import stock_elmo, stock_pass, write_random_weights
from benchmarks.gpu.step import DROPOUT, GRAD_NORM, Sizes
from benchmarks.gpu.text import Window, on_device
from benchmarks.peer_language_model import AllenNLPLanguageModel
from elmo_plugin.options import BiLMOptions


def training_step(
    options: BiLMOptions, sizes: Sizes, device: torch.device, windows: list[Window]
) -> Callable[[], object]:
    """A step of the same model, with dense gradients, which are what AllenNLP can clip."""
    model = AllenNLPLanguageModel(options, sizes.words, sizes.negatives, DROPOUT).to(device)
    parameters = list(model.train().parameters())
    optimizer = torch.optim.Adagrad(parameters, lr=0.2, initial_accumulator_value=1.0)
    following = cycle([SimpleNamespace(tensors=partial(on_device, window)) for window in windows])
    starts = torch.zeros(sizes.rows, dtype=torch.bool, device=device)

    def step() -> None:
        optimizer.zero_grad()
        model(starts, next(following))["loss"].backward()
        torch.nn.utils.clip_grad_norm_(parameters, GRAD_NORM)
        optimizer.step()

    return step


def vectors(options: BiLMOptions, batches: list[Tensor]) -> Callable[[], object]:
    """A pass over the same batches."""
    with tempfile.TemporaryDirectory() as folder:
        stock = stock_elmo(*write_random_weights(options, Path(folder)))
    return partial(stock_pass, stock.to(batches[0].device), batches)
