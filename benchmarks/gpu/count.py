"""
How many operators a training step dispatches on a GPU: computing operators and Triton kernels,
which are launched, and views, which cost the CPU alone. Sizes do not matter, and no GPU is needed.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined

from collections import Counter
from itertools import product
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.optim import adagrad
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.gpu.precision import PRECISIONS
from benchmarks.gpu.step import Sizes, TrainingStep
from benchmarks.gpu.text import InventedText
from benchmarks.settings import PUBLISHED_FILTERS, blocks, options_of
from elmo_plugin.ops import backend, lstm, private_torch, softmax
from tests.conftest import as_on_a_gpu

VIEWS = frozenset(
    "view select slice as_strided t transpose expand unsqueeze split detach alias _unsafe_view "
    "unbind permute chunk empty empty_strided new_empty empty_like reshape squeeze "
    "new_empty_strided split_with_sizes".split()
)
OPTIONS = options_of("2x64_16", blocks(64, 16, [[w, 4] for w, _ in PUBLISHED_FILTERS], 1))
SIZES = Sizes(64, 20, 256, 2000)


class Counted(TorchDispatchMode):
    """The operators that are dispatched meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: Counter[str] = Counter()

    def __torch_dispatch__(self, operator: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators[operator._schema.name.removeprefix("aten::")] += 1
        return operator(*args, **(kwargs or {}))

    def line(self) -> str:
        computing = Counter({k: n for k, n in self.operators.items() if k not in VIEWS})
        n_views = self.operators.total() - computing.total()
        most = ", ".join(f"{name} {n}" for name, n in computing.most_common(12))
        return f"{computing.total()} computing operators with launches, {n_views} views; {most}"


def count() -> None:
    """Print a line for each precision."""
    with pytest.MonkeyPatch.context() as patch:
        as_on_a_gpu(patch)
        patch.setattr(backend, "KERNEL_DTYPES", frozenset())
        patch.setattr(adagrad, "_default_to_fused_or_foreach", lambda *_, **__: (False, True))
        patch.setattr(functional, "dropout", lambda x, p, *_: torch.native_dropout(x, p, True)[0])
        for dtype, operators in product((torch.float32, torch.bfloat16), (lstm, softmax)):
            # Compare the kernels with PyTorch's operators, so that they are chosen.
            backend.fastest(operators, [torch.empty(0, dtype=dtype)])
        counted = Counted()
        patch.setattr(private_torch, "CPU_HAS_BFLOAT16", True)
        patch.setattr(backend, "launch", lambda *_: counted.operators.update(["launch"]))
        for precision in PRECISIONS:
            windows = InventedText(SIZES.words, 50).windows(SIZES.rows, SIZES.steps, 2)
            step = TrainingStep(OPTIONS, SIZES, precision, torch.device("cpu"), windows)
            counted.operators.clear()
            with counted:
                step()
            print(f"{precision.name}: {counted.line()}")
