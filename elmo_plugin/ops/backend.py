"""
The library of the compiled kernels.

The library is compiled from `kernel.cpp` of each operator; `setup.py` builds it where there is a
C++ compiler. The kernels are used on CPUs for the precisions that `KERNEL_DTYPES` lists, unless the
environment variable ELMO_PLUGIN_KERNEL is 0. Each operator compares its kernels with its definition
when it is imported.
"""

import logging
import os
import platform
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops.kernel_sources import sources_digest
from elmo_plugin.ops.private_torch import ONEDNN_DTYPES

logger = logging.getLogger(__name__)

LIBRARY = Path(__file__).with_name("compiled") / f"kernels{EXTENSION_SUFFIXES[0]}"

NOT_BUILT = "off, because it was not built"
NO_AVX2 = "off, because this processor has no AVX2"
MANY_STEPS = 100_000
"""Steps of an LSTM layer, 50,000 tokens with two layers, after which kernels would save seconds."""

_n_steps = 0
CPU = torch.device("cpu")

PADDED_TO = 32
"""
Rows of weights are padded to a multiple of this number, in the LSTM the AMX bf16 tile height.
"""


def how_to_build() -> str:
    """The command that builds the library; a wheel has no sources."""
    source = "-e ." if sources_digest() else "--force-reinstall SOURCES (a clone or the sdist)"
    return f"pip install --no-deps --no-build-isolation {source}"


def takes(weight: Any) -> bool:
    """Whether the kernels are used for this weight, which is not packed."""
    return (
        isinstance(weight, Tensor)
        and weight.device.type == "cpu"
        and weight.dtype in KERNEL_DTYPES
        and bool(torch.backends.mkldnn.enabled)
        and not torch.compiler.is_compiling()
    )


def quantizes(weight: Any) -> bool:
    """Whether this weight, which is not packed, can be multiplied in int8 once it is frozen."""
    return (
        takes(weight)
        and weight.dtype == torch.float32
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


def _load() -> tuple[frozenset[torch.dtype], str]:
    """Returns `KERNEL_DTYPES` and `KERNEL_STATUS`."""
    if os.environ.get("ELMO_PLUGIN_KERNEL") == "0":
        return frozenset(), "off, because ELMO_PLUGIN_KERNEL is 0"
    if not LIBRARY.exists():
        return frozenset(), NOT_BUILT
    try:
        _check_built_from()
        torch.ops.load_library(str(LIBRARY))
        dtypes = frozenset(filter(torch.ops.elmo_plugin.is_supported, ONEDNN_DTYPES))
    except Exception as error:  # whatever it is, PyTorch's operators compute the same
        return _off(error)
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


def _off(error: object) -> tuple[frozenset[torch.dtype], str]:
    logger.warning("The compiled kernels are not used: %s", error)
    return frozenset(), f"off, because {error}"


def check(
    kernel: Callable[..., Any],
    same: Callable[..., Any],
    arguments: Callable[[torch.dtype, Callable[..., Tensor]], Sequence[Any]],
    dtypes: Collection[torch.dtype] | None = None,
) -> None:
    """
    Compare the tensors that a kernel returns with those of another function of the `same` results.
    If one differs in any precision, no kernel is used. `arguments` makes them for a precision,
    with a function of shapes that returns random numbers. `dtypes`: by default `KERNEL_DTYPES`.
    """
    global KERNEL_DTYPES, KERNEL_STATUS
    try:
        for dtype in KERNEL_DTYPES if dtypes is None else dtypes:
            compare(kernel, same, arguments, dtype)
    except Exception as error:
        KERNEL_DTYPES, KERNEL_STATUS = _off(f"{kernel.__module__}: {error}")


def compare(
    kernel: Callable[..., Any],
    same: Callable[..., Any],
    arguments: Callable[[torch.dtype, Callable[..., Tensor]], Sequence[Any]],
    dtype: torch.dtype,
    device: torch.device = CPU,
) -> None:
    """Raise a `RuntimeError` if a kernel is wrong in one precision; see `check`."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, device=CPU).to(device)

    with _default_context(device):
        given = arguments(dtype, random)
        for found, expected in zip(kernel(*given), same(*given)):
            error = float((found - expected).abs().max())
            share = 1e-5 if dtype == torch.float32 else 0.02
            if not error <= share * max(1.0, float(expected.abs().max())):
                raise RuntimeError(f"{dtype} is wrong by {error:g}")


def triton_ops_or(torch_ops: Any, weights: Sequence[Tensor]) -> Any:
    """
    The module `triton_ops` beside an operator's `torch_ops`, whose kernels are for NVIDIA's GPUs
    and for products in fp32 and bf16; or `torch_ops` where they do not run, or are wrong. Triton's
    interpreter, which tests use, runs them on a CPU.
    """
    device, dtype = weights[0].device, weights[0].dtype
    is_nvidia = device.type == "cuda" and not torch.version.hip
    if (
        not (is_nvidia or os.environ.get("TRITON_INTERPRET") == "1")
        or dtype not in (torch.float32, torch.bfloat16)
        or any(x.dtype != dtype for x in weights)
        or torch.compiler.is_compiling()
    ):
        return torch_ops
    return _right_triton_ops(torch_ops, device, dtype) or torch_ops


def launch(kernel: Any, grid: tuple[int, ...], *arguments: Any) -> None:
    """Run a Triton kernel in a grid of programs, on the device of the first argument, a tensor."""
    with torch.cuda.device_of(arguments[0]):  # or Triton would use the current device
        kernel[grid](*arguments)


@cache  # compared once in a process
def _right_triton_ops(torch_ops: Any, device: torch.device, dtype: torch.dtype) -> Any:
    """The module `triton_ops`, if it computes the operator's example on this device."""
    if find_spec("triton") is None:
        return None
    name = torch_ops.__package__
    try:
        operator, triton_ops = import_module(name), import_module(f"{name}.triton_ops")
        computed, expected = (partial(operator.results, x) for x in (triton_ops, torch_ops))
        compare(computed, expected, operator.example, dtype, device)
    except Exception as error:  # whatever it is, PyTorch's operators compute the same
        logger.warning("The Triton kernels of %s are not used: %s", name, error)
        return None
    return triton_ops


@contextmanager
def _default_context(device: torch.device) -> Iterator[None]:
    """The contexts in which the package happens to be imported do not matter."""
    n_threads, default_dtype = torch.get_num_threads(), torch.get_default_dtype()
    products: Any = torch.backends.cuda.matmul
    precision = products.fp32_precision
    torch.set_num_threads(1)  # threads started here would be missing in a forked process
    torch.set_default_dtype(torch.float32)
    products.fp32_precision = "ieee"  # TF32 makes two right results differ by more than the bound
    try:
        with torch.inference_mode(False), torch.autocast(device.type, enabled=False), device:
            yield
    finally:
        products.fp32_precision = precision
        torch.set_num_threads(n_threads)
        torch.set_default_dtype(default_dtype)


KERNEL_DTYPES, KERNEL_STATUS = _load()
"""The precisions in which the kernels are used, and whether and why they are on or off."""
