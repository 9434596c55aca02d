"""
Chooses what computes an operator, and loads the library of the compiled kernels.

The library is compiled from `kernel.cpp` of each operator; `setup.py` builds it where there is a
C++ compiler. The kernels are used on CPUs for the precisions that `KERNEL_DTYPES` lists, unless the
environment variable ELMO_PLUGIN_KERNEL is 0. They are compared with PyTorch's operators when the
library is loaded, and Triton's kernels when they are first used.
"""

import logging
import os
import platform
import re
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from threading import RLock
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops import private_torch
from elmo_plugin.ops.kernel_sources import sources_digest
from elmo_plugin.ops.linear import is_on_cpu

logger = logging.getLogger(__name__)

LIBRARY = Path(__file__).with_name("compiled") / f"kernels{EXTENSION_SUFFIXES[0]}"

NOT_BUILT = "off, because it was not built"
NO_AVX2 = "off, because this processor has no AVX2"
MANY_STEPS = 100_000
"""Steps of an LSTM layer, 50,000 tokens with two layers, after which kernels would save seconds."""

_n_steps = 0
_one_self_test = RLock()  # a self-test changes settings of the whole process meanwhile
CPU = torch.device("cpu")

KERNEL_DTYPES: frozenset[torch.dtype] = frozenset()
KERNEL_STATUS = ""
"""
The precisions in which the compiled kernels are used, and whether and why they are on or off.
`elmo_plugin.ops` sets both from `load_kernels` when it is imported.
"""

PADDED_TO = 32
"""
Rows of weights are padded to a multiple of this number, in the LSTM the AMX bf16 tile height.
"""


def how_to_build() -> str:
    """The command that builds the library; a wheel has no sources."""
    source = "-e ." if sources_digest() else "--force-reinstall SOURCES (a clone or the sdist)"
    return f"pip install --no-deps --no-build-isolation {source}"


def fastest(operator: Any, weights: Sequence[Any]) -> Any:
    """
    The module of an operator that computes fastest with these weights: `kernel` on CPUs and
    `triton_ops` on NVIDIA's GPUs, if its `DTYPES` have the weights' precision and it computes its
    `example` right; `torch_ops` otherwise, and for packed weights. Triton's interpreter, which
    tests use, runs on a CPU.
    """
    weight = weights[0]
    if not isinstance(weight, Tensor) or torch.compiler.is_compiling():
        return operator.torch_ops
    has_kernels = _has_kernels(weight)
    if (
        not (has_kernels or _has_triton(weight))
        or weight.dtype not in operator.DTYPES
        or any(x.dtype != weight.dtype for x in weights[1:])
    ):
        return operator.torch_ops
    if has_kernels:
        return operator.kernel
    with _one_self_test, suppress(MemoryError):  # the next call compares them again
        return _right_triton_ops(operator, weight.device, weight.dtype)
    return operator.torch_ops


def _has_kernels(weight: Tensor) -> bool:
    """Whether the compiled kernels are used for the precision and the device of a weight."""
    return (
        weight.dtype in KERNEL_DTYPES
        and weight.device.type == "cpu"
        and bool(torch.backends.mkldnn.enabled)
    )


def _has_triton(weight: Tensor) -> bool:
    """Whether Triton's kernels run where a weight is."""
    if is_on_cpu(weight):
        return False
    is_nvidia = weight.device.type == "cuda" and not torch.version.hip
    return is_nvidia or os.environ.get("TRITON_INTERPRET") == "1"


def quantizes(weight: Tensor) -> bool:
    """Whether this weight, which is not packed, is multiplied in int8 once it is frozen."""
    return (
        weight.dtype == torch.float32
        and private_torch.INT8_IS_FASTER
        and _has_kernels(weight)
        and bool(torch.ops.elmo_plugin.is_supported(torch.int8))
    )


def _check_built_from() -> None:
    """
    Raise a `RuntimeError` if the library is not complete, or was built for another PyTorch or from
    other sources. It is not loaded for this, because its calls into another PyTorch may crash.
    """
    pattern = rb"elmo_plugin kernels of (\w+) for PyTorch ([\w.]+)\0"
    built = re.search(pattern, LIBRARY.read_bytes())
    sources, built_for = (x.decode() for x in built.groups()) if built else (None, None)
    again = f"; {how_to_build()} builds it again"
    if built_for != torch.__version__.partition("+")[0]:
        raise RuntimeError(
            f"{LIBRARY} was built for PyTorch {built_for}, not {torch.__version__}{again}"
            if built
            else f"{LIBRARY}: expected a library of this version of elmo_plugin, found none{again}"
        )
    if sources_digest() not in (None, sources):
        raise RuntimeError(f"{LIBRARY} was built from other sources than those beside it{again}")


def load_kernels(operators: Sequence[Any]) -> tuple[frozenset[torch.dtype], str]:
    """
    Load the library and compare it with PyTorch's operators. If one kernel is wrong in any
    precision, none is used. Returns `KERNEL_DTYPES` and `KERNEL_STATUS`.
    """
    if os.environ.get("ELMO_PLUGIN_KERNEL") == "0":
        return frozenset(), "off, because ELMO_PLUGIN_KERNEL is 0"
    if not LIBRARY.exists():
        return frozenset(), NOT_BUILT
    try:
        _check_built_from()
        torch.ops.load_library(str(LIBRARY))
        is_supported = torch.ops.elmo_plugin.is_supported
        dtypes = tested = frozenset(filter(is_supported, private_torch.ONEDNN_DTYPES))
        if dtypes and is_supported(torch.int8):
            tested |= {torch.int8}
        # The threads in which kernels compute end with the thread that calls them. Threads of this
        # one would be missing in a process that is forked later, which would wait for them.
        with ThreadPoolExecutor(1) as own_thread:
            for operator, dtype in product(operators, tested):
                if dtype in operator.DTYPES:
                    own_thread.submit(compare, operator, operator.kernel, dtype).result()
    except Exception as error:  # whatever it is, PyTorch's operators compute the same
        logger.warning("The compiled kernels are not used: %s", error)
        return frozenset(), f"off, because {error}"
    names = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
    return dtypes, f"on, for {names}" if names else NO_AVX2


def hint_to_build(n_steps: int) -> None:
    """
    Count the steps of an LSTM layer that PyTorch's operators compute on a CPU. After many of them,
    say once in a process that kernels could be built, if this is why there are none.
    """
    global _n_steps
    if KERNEL_STATUS != NOT_BUILT or platform.machine() not in ("x86_64", "AMD64"):
        return
    before, _n_steps = _n_steps, _n_steps + n_steps
    if before < MANY_STEPS <= _n_steps:
        logger.warning(
            "elmo_plugin has no compiled kernels, which make it faster on a CPU; with a C++ "
            "compiler and setuptools, %s builds them (ELMO_PLUGIN_KERNEL=0 hides this line)",
            how_to_build(),
        )


def compare(
    operator: Any, module: Any, dtype: torch.dtype, device: torch.device = CPU, size: int = 150
) -> None:
    """
    Raise a `RuntimeError` if a module of an operator has other `results` than `torch_ops` for the
    operator's `examples` in this precision. `examples` makes the arguments with a function of
    shapes that returns random numbers. `size`: the number of units, words or filters of the largest
    example, more than a kernel computes at a time.
    """
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=CPU).to(device)

    with _default_context(device) as allowed:
        for given in operator.examples(dtype, random, size):
            results = []
            # One thread for PyTorch: its operators' threads wait for one another, long if the
            # processor is busy. Kernels are tested in two.
            for x, threads in ((module, 2), (operator.torch_ops, 1)):
                torch.set_num_threads(min(threads, allowed))
                results.append(operator.results(x, *given))
            for found, expected in zip(*results, strict=True):
                errors, sizes = (found - expected).float(), expected.float().abs()
                error = float(errors.abs().max())
                share = 1e-5 if dtype == torch.float32 else 0.02
                if not error <= share * max(1.0, float(sizes.max())):
                    raise RuntimeError(f"{operator.__name__}: {dtype} is wrong by {error:g}")
                if dtype == torch.bfloat16:
                    # Rounding is as often up as down, and moves such a mean by at most 0.2 %.
                    means = errors.mean(), (errors * expected.sign()).mean()
                    bias = float(torch.stack(means).abs().max() / sizes.mean())
                    if not bias <= 0.005:
                        raise RuntimeError(f"{operator.__name__}: {dtype} has a bias of {bias:.2%}")


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any) -> None:
    """Run a Triton kernel in a grid of programs, on the device of the first argument, a tensor."""
    with torch.cuda.device_of(arguments[0]):  # or Triton would use the current device
        kernel[grid](*arguments)


@cache  # compared once in a process
def _right_triton_ops(operator: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """`triton_ops` if there is one that is right on this device, or `torch_ops`."""
    name = f"{operator.__name__}.triton_ops"
    if None in map(find_spec, ("triton", name)):
        return operator.torch_ops
    try:
        triton_ops = import_module(name)
        compare(operator, triton_ops, dtype, device, 1100)
    except Exception as error:  # whatever it is, PyTorch's operators compute the same
        logger.warning("The Triton kernels of %s are not used: %s", operator.__name__, error)
        # Of CUDA, PyTorch, Triton or cuBLAS. An error is not cached.
        if re.search("out of memory|can't allocate memory|ALLOC_FAILED", str(error)):
            raise MemoryError from error
        return operator.torch_ops
    return triton_ops


@contextmanager
def _default_context(device: torch.device) -> Iterator[int]:
    """
    The contexts in which the package happens to be imported do not matter, nor do TF32 and bf16 in
    products of fp32, which make two right results differ by more than the bound. Yields the number
    of threads before, which is set again at the end.
    """
    backends: Any = torch.backends
    # The general switches first, from which the others inherit. PyTorch raises an error where a new
    # switch contradicts the old one, which is `set_float32_matmul_precision`.
    general = backends, backends.cudnn, backends.mkldnn
    switches = *general, backends.cuda.matmul, backends.mkldnn.matmul
    with _one_self_test:
        n_threads, default_dtype = torch.get_num_threads(), torch.get_default_dtype()
        precisions = []
        for switch in switches:
            precisions.append(switch.fp32_precision)
            switch.fp32_precision = "none"
        old_precision = torch.get_float32_matmul_precision()
        torch.set_float32_matmul_precision("highest")
        torch.set_default_dtype(torch.float32)
        torch.set_num_threads(1)
        try:
            with torch.inference_mode(False), torch.autocast(device.type, enabled=False), device:
                yield n_threads
        finally:
            torch.set_float32_matmul_precision(old_precision)
            # The other way round, because PyTorch 2.13 sets the first where the third is set.
            for switch, precision in zip(reversed(switches), reversed(precisions)):
                switch.fp32_precision = precision
            torch.set_default_dtype(default_dtype)
            torch.set_num_threads(n_threads)
