"""
Compares an LSTM layer, the sampled softmax and the convolutions by the compiled kernels with the
same by PyTorch's operators, in turns:

    OMP_NUM_THREADS=1 python -m benchmarks.kernels
"""

import math
from collections.abc import Callable
from functools import cache, partial
from itertools import chain, islice
from pathlib import Path
from typing import Any
from unittest import mock

import torch

from benchmarks.measure import MatrixProductPeak, Record, in_turns, print_table
from benchmarks.operations import FORWARD_AND_BACKWARD
from benchmarks.settings import PUBLISHED_FILTERS
from elmo_plugin.modules import CharCNN, ProjectedLSTM
from elmo_plugin.ops import backend
from elmo_plugin.ops.char_conv import frozen_convolve
from elmo_plugin.ops.lstm import lstm_scan, pack_lstm_weights
from elmo_plugin.ops.softmax import sampled_softmax_loss
from elmo_plugin.text.characters import words_to_characters
from elmo_plugin.text.lines import read_sentences

SIZES = ((1024, 128), (4096, 512))
SHAPES = ((32, 24), (1, 20))
TRAINED_SHAPE = 64, 20
SOFTMAX_SIZES = ((128, 4096), (128, 8192), (512, 8192))
"""Sizes of a hidden vector, and numbers of negatives."""

TEXT = Path(__file__).parents[1] / "fixtures/text/train.txt"


def main() -> None:
    print(f"The compiled kernels are {backend.KERNEL_STATUS}; {torch.get_num_threads()} threads")
    layers: list[Record] = []
    for dtype in backend.KERNEL_DTYPES:
        layers += [compare_layer(dtype, *size, *shape) for size in SIZES for shape in SHAPES]
        layers.append(compare_layer(dtype, *SIZES[0], *TRAINED_SHAPE, train=True))
    if layers:
        print_table("A layer: milliseconds", layers)
        sizes = [(dtype, *size) for dtype in backend.KERNEL_DTYPES for size in SOFTMAX_SIZES]
        print_table(
            "The sampled softmax with its gradient: milliseconds",
            [compare_softmax(*size) for size in sizes],
        )
        convolutions = [compare_convolutions(train=train) for train in (False, True)]
        print_table("The convolutions of distinct words: milliseconds", convolutions)


def compare_layer(
    dtype: torch.dtype, dim: int, projection_dim: int, rows: int, steps: int, train: bool = False
) -> Record:
    """Vectors of frozen weights, or a forward and a backward pass."""
    torch.manual_seed(0)
    x = torch.randn(2, steps, rows, projection_dim)
    state = torch.zeros(2, rows, dim), torch.zeros(2, rows, projection_dim)

    def layer() -> Callable[[], None]:
        lstm = ProjectedLSTM(
            input_dim=projection_dim,
            dim=dim,
            projection_dim=projection_dim,
            cell_clip=3.0,
            proj_clip=3.0,
        ).requires_grad_(train)
        lstm.precision = dtype
        if train:
            return partial(run, lambda: lstm(x, *state)[0], train)
        packed = cache(lambda: pack_lstm_weights(lstm.weights()))  # once, by the first call
        return partial(run, lambda: lstm_scan(x, *state, packed())[0], train)

    return {
        "layer": f"{dim}_{projection_dim}",
        "passes": "forward, backward" if train else "forward",
        "rows x steps": f"{rows} x {steps}",
        "precision": str(dtype).removeprefix("torch."),
        **compare(layer(), layer()),  # each has its own packed weights
    }


def compare_softmax(dtype: torch.dtype, dim: int, n_negatives: int) -> Record:
    """A forward pass, which computes the gradient too, for the targets of `TRAINED_SHAPE`."""
    torch.manual_seed(0)
    n = math.prod(TRAINED_SHAPE)
    hidden, targets = torch.randn(n, dim, requires_grad=True), torch.arange(n)
    weight = (dim**-0.5 * torch.randn(n + n_negatives, dim)).to(dtype)
    others = torch.arange(n_negatives), weight, torch.zeros(len(weight))
    peak = MatrixProductPeak(dtype)
    work = partial(sampled_softmax_loss, hidden, targets, *others)
    times = compare(work, work, peak)
    least = peak.seconds_at_least(FORWARD_AND_BACKWARD * 2 * n * n_negatives * dim)
    return {
        "dim": dim,
        "negatives": n_negatives,
        "precision": str(dtype).removeprefix("torch."),
        **times,
        "share_of_limit": 1e3 * least / times["kernel"],
    }


def compare_convolutions(*, train: bool) -> Record:
    """The paper's convolutions with frozen weights, or a forward and a backward pass."""
    torch.manual_seed(0)
    tokens = chain.from_iterable(read_sentences(TEXT))
    words = sorted(set(islice(tokens, math.prod(TRAINED_SHAPE))))
    characters = torch.from_numpy(words_to_characters(words, 50)).long()
    cnn = CharCNN(
        n_characters=262,
        embedding_dim=16,
        filters=PUBLISHED_FILTERS,
        n_highway=0,
        projection_dim=128,
    ).requires_grad_(train)
    convolve = partial(cnn.convolve, characters)
    if not train:
        convolve = partial(frozen_convolve(cnn.char_embedding, cnn.convolutions), characters)
    work = partial(run, convolve, train)
    passes = "forward, backward" if train else "forward"
    return {"words": len(characters), "passes": passes, **compare(work, work)}


def run(work: Callable[[], torch.Tensor], train: bool) -> None:
    with torch.set_grad_enabled(train):
        outputs = work()
        if train:
            outputs.sum().backward()


def compare(ours: Callable[[], object], theirs: Callable[[], object], *others: Any) -> Record:
    """The times with the kernels and of PyTorch's operators, in turns with other work."""

    def without_kernels() -> None:
        with mock.patch.object(backend, "KERNEL_DTYPES", frozenset()):
            theirs()

    for warm_up in (ours, without_kernels):
        warm_up()
    kernel, pytorch, *_ = in_turns(ours, without_kernels, *others)
    return {"pytorch": 1e3 * pytorch, "kernel": 1e3 * kernel, "ratio": pytorch / kernel}


if __name__ == "__main__":
    main()
