"""
Compares one LSTM layer by the compiled kernel with the same by PyTorch's operators, in turns:

    OMP_NUM_THREADS=1 python -m benchmarks.lstm_kernel
"""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import torch

from benchmarks.measure import Record, in_turns, print_table
from elmo_plugin.modules import ProjectedLSTM
from elmo_plugin.ops import kernels

SIZES = ((1024, 128), (4096, 512))
SHAPES = ((32, 24), (1, 20))
TRAINED_SHAPE = 64, 20


def main() -> None:
    print(f"The compiled kernels are {kernels.KERNEL_STATUS}; {torch.get_num_threads()} threads")
    records: list[Record] = []
    for dtype in kernels.KERNEL_DTYPES:
        for dim, projection_dim in SIZES:
            for shape in SHAPES:
                records.append(compare(dtype, dim, projection_dim, *shape, train=False))
        records.append(compare(dtype, *SIZES[0], *TRAINED_SHAPE, train=True))
    if records:
        print_table("A layer: milliseconds", records)


def compare(
    dtype: torch.dtype, dim: int, projection_dim: int, rows: int, steps: int, *, train: bool
) -> Record:
    """Vectors of frozen weights, or a forward and a backward pass."""
    torch.manual_seed(0)
    lstms = [
        ProjectedLSTM(
            input_dim=projection_dim,
            dim=dim,
            projection_dim=projection_dim,
            cell_clip=3.0,
            proj_clip=3.0,
        ).requires_grad_(train)
        for _ in range(2)  # each keeps its own packed weights
    ]
    x = torch.randn(2, steps, rows, projection_dim)
    state = torch.zeros(2, rows, dim), torch.zeros(2, rows, projection_dim)

    def work(lstm: ProjectedLSTM, dtypes: frozenset[torch.dtype]) -> None:
        lstm.precision = dtype
        with kernel_for(dtypes), torch.set_grad_enabled(train):
            outputs, *_ = lstm(x, *state)
            if train:
                outputs.sum().backward()

    works = [
        partial(work, lstm, dtypes)
        for lstm, dtypes in zip(lstms, (kernels.KERNEL_DTYPES, frozenset()))
    ]
    for warm_up in works:
        warm_up()
    kernel, pytorch = in_turns(*works)
    return {
        "layer": f"{dim}_{projection_dim}",
        "passes": "forward, backward" if train else "forward",
        "rows x steps": f"{rows} x {steps}",
        "precision": str(dtype).removeprefix("torch."),
        "pytorch": pytorch * 1e3,
        "kernel": kernel * 1e3,
        "ratio": pytorch / kernel,
    }


@contextmanager
def kernel_for(dtypes: frozenset[torch.dtype]) -> Iterator[None]:
    """Uses the kernel for these precisions."""
    before = kernels.KERNEL_DTYPES
    kernels.KERNEL_DTYPES = dtypes
    try:
        yield
    finally:
        kernels.KERNEL_DTYPES = before


if __name__ == "__main__":
    main()
