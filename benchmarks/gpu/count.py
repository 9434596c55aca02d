"""
How many operators a training step and a batch of sentences dispatch on a GPU: computing operators
and Triton kernels, which are launched, and views, which cost the CPU alone; and how often the CPU
waits for a number of the GPU. Sizes do not matter, and no GPU is needed.
"""

import os

os.environ["TRITON_INTERPRET"] = "1"  # read when kernels are defined

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional
from torch.optim import adagrad
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from benchmarks.gpu.precision import PRECISIONS
from benchmarks.gpu.step import Sizes, TrainingStep
from benchmarks.gpu.text import InventedText
from benchmarks.settings import PUBLISHED_FILTERS, blocks, options_of
from elmo_plugin import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.ops import backend, private_torch
from tests.as_on_a_gpu import as_on_a_gpu

VIEWS = frozenset(
    "view select slice as_strided t transpose expand unsqueeze split detach alias _unsafe_view "
    "unbind permute chunk empty empty_strided new_empty empty_like reshape squeeze "
    "new_empty_strided split_with_sizes".split()
)
WAITS = frozenset(
    "_local_scalar_dense nonzero equal _unique2 unique_dim masked_select bincount _coalesce".split()
)
"""Operators whose result, or its size, the CPU reads from the GPU."""
READS = frozenset({Tensor.cpu, Tensor.tolist, Tensor.numpy})
DRAWN = frozenset({"rand"})
"""Words are drawn on the CPU."""
OPTIONS = options_of("2x64_16", blocks(64, 16, [[w, 4] for w, _ in PUBLISHED_FILTERS], 1))
SIZES = Sizes(64, 20, 256, 2000)


class Counted(TorchDispatchMode):
    """
    The operators that are dispatched meanwhile for tensors on a GPU, for which those of this
    machine stand in, and the times that the CPU waits. `on_cpu`: tensors that are on the CPU
    nevertheless; what is computed from them stays there until it is copied without blocking.
    """

    def __init__(self, on_cpu: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.operators: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.on_cpu = WeakIdKeyDictionary(dict.fromkeys(on_cpu, True))

    def __torch_dispatch__(self, operator: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = operator._schema.name.removeprefix("aten::")
        result = operator(*args, **(kwargs or {}))
        if name in DRAWN or any(self.is_on_cpu(x) for x in tree_leaves((args, kwargs))):
            self.on_cpu.update((x, True) for x in tree_leaves(result) if isinstance(x, Tensor))
            return result
        self.operators[name] += 1
        by_mask = name in ("index", "index_put_") and any(
            x is not None and x.dtype == torch.bool for x in args[1]
        )
        self.waits[name] += name in WAITS or by_mask
        return result

    def is_on_cpu(self, x: Any) -> bool:
        return isinstance(x, Tensor) and x in self.on_cpu

    def line(self) -> str:
        computing = Counter({k: n for k, n in self.operators.items() if k not in VIEWS})
        n_views = self.operators.total() - computing.total()
        return (
            f"{computing.total()} computing operators with launches, {n_views} views, "
            f"{self.waits.total()} waits; {_most(self.waits)}; {_most(computing)}"
        )


def _most(counter: Counter[str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in (+counter).most_common(12)) or "none"


class Copies(TorchFunctionMode):
    """Tells a `Counted` of copies between the CPU and the GPU, for which nothing is dispatched."""

    def __init__(self, counted: Counted) -> None:
        super().__init__()
        self._counted = counted

    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        result, counted = function(*args, **(kwargs or {})), self._counted
        to_gpu = function is Tensor.to and "non_blocking" in (kwargs or {})
        if not to_gpu and (function not in READS or counted.is_on_cpu(args[0])):
            return result
        if not to_gpu:
            counted.waits[function.__name__] += 1
        if isinstance(result, Tensor):
            with _disable_current_modes():
                result = result.detach()  # another tensor than that on the other device
            if not to_gpu:
                counted.on_cpu[result] = True
        return result


def count() -> None:
    """Print a line for each precision of a training step, and two for batches of sentences."""
    with pytest.MonkeyPatch.context() as patch:
        as_on_a_gpu(patch)
        patch.setattr(backend, "KERNEL_DTYPES", frozenset())
        patch.setattr(adagrad, "_default_to_fused_or_foreach", lambda *_, **__: (False, True))
        patch.setattr(functional, "dropout", lambda x, p, *_: torch.native_dropout(x, p, True)[0])
        # The interpreter, which is slow and rounds otherwise than a GPU, computes nothing here.
        patch.setattr(backend, "compare", lambda *_: None)
        patch.setattr(backend, "launch", lambda *_: None)
        patch.setattr(private_torch, "CPU_HAS_BFLOAT16", True)
        for precision in PRECISIONS:
            windows = InventedText(SIZES.words, 50).windows(SIZES.rows, SIZES.steps, 2)
            step = TrainingStep(OPTIONS, SIZES, precision, torch.device("cpu"), windows)
            # PyTorch's Adagrad counts steps on the CPU.
            states = [x for optimizer in step.optimizers for x in optimizer.state.values()]
            counted = Counted(state["step"] for state in states)
            _print_line(precision.name, counted, step)
        for name, is_trained in {"frozen": False, "trained": True}.items():
            elmo = Elmo(BiLM(OPTIONS), requires_grad=is_trained)
            tokens = elmo.characters(InventedText(SIZES.words, 50).sentences(500))
            elmo(tokens)  # packs weights and caches words
            _print_line(f"sentences of a {name} biLM", Counted(), partial(elmo, tokens))


def _print_line(name: str, counted: Counted, run: Callable[[], object]) -> None:
    with pytest.MonkeyPatch.context() as patch, counted, Copies(counted):
        patch.setattr(backend, "launch", lambda *_: counted.operators.update(["launch"]))
        run()
    print(f"{name}: {counted.line()}")
