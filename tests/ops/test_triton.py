"""The Triton kernels: their numbers in Triton's interpreter, and whether they compile."""

import os
import subprocess
import sys
from collections import Counter
from functools import partial
from unittest.mock import MagicMock, call

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from elmo_plugin.ops import backend, lstm, softmax
from tests.as_on_a_gpu import as_on_a_gpu
from tests.conftest import ROOT

triton = pytest.importorskip("triton", reason="Triton is not installed")


@pytest.mark.parametrize("kernel", ["lstm", "softmax"])
def test_random_cases(kernel, pytestconfig):
    """Expected: the equations in double precision; see `operator_cases`. Each process first
    compares the kernels' examples, which have all their branches, with PyTorch's operators."""
    option = pytestconfig.getoption
    number = "40" if option("--long") else "1"
    command = [sys.executable, "-m", "tests.ops.operator_cases", kernel]
    process = subprocess.run(
        [*command, str(option("--fuzz-seed")), number],
        cwd=ROOT,
        env={**os.environ, "TRITON_INTERPRET": "1"},
        capture_output=True,
        text=True,
    )
    assert process.returncode == 0, process.stderr[-2000:]
    dtypes = "torch.float32", "torch.bfloat16"
    assert process.stdout.splitlines() == [f"{kernel}, {dtype}: {number} cases" for dtype in dtypes]


def test_a_kernel_runs_on_its_tensors_device(monkeypatch):
    """Triton launches on PyTorch's current device, which need not be the one of the tensors."""
    calls, tensor = MagicMock(), torch.ones(1)
    monkeypatch.setattr(torch.cuda, "device_of", calls.device_of)
    backend.launch(calls.kernel, (1,), tensor, 2)
    assert calls.mock_calls == [
        call.device_of(tensor),
        call.device_of().__enter__(),
        call.kernel.__getitem__((1,)),
        call.kernel.__getitem__()(tensor, 2),
        call.device_of().__exit__(None, None, None),
    ]


def signature(kernel, products, clip):
    """The types with which the scans and `losses` call a kernel."""
    types = {"bias": "*fp32", "c_before": "*fp32", "c": "*fp32", "d_c": "*fp32", "hits": "*i64"}
    types |= dict.fromkeys(("true_logits", "of_rows", "d_true"), "*fp32")
    types |= dict.fromkeys(("gates", "recurrent", "m", "d_m", "d_h", "logits"), products)
    types |= {"clip": clip, "KEEP": "constexpr"}
    return {name: types.get(name, "i32") for name in kernel.arg_names}


@pytest.mark.parametrize("capability, products", [(80, "*fp32"), (90, "*bf16")])
def test_compiles(capability, products, tmp_path, monkeypatch):
    """Expected: machine code for a GPU, which Triton's compiler makes without one."""
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from elmo_plugin.ops.lstm import triton_ops as of_lstm
    from elmo_plugin.ops.softmax import triton_ops as of_softmax

    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path))
    for kernel in (of_lstm._cell, of_lstm._cell_backward, of_softmax._row_losses):
        for clip in ("fp32", "constexpr"):
            types = signature(kernel, products, clip)
            values = {"KEEP": True} if "KEEP" in types else {}
            values |= {"clip": None} if types.get("clip") == "constexpr" else {}
            source = ASTSource(fn=kernel, signature=types, constexprs=values)
            assert triton.compile(source, target=GPUTarget("cuda", capability, 32)).asm["cubin"]


def test_sizes_that_change_are_not_compiled_in():
    """By definition of Triton, which compiles a kernel again for a size or an address that is 1 or
    begins to be a multiple of 16. Only a GPU shows the compilations that this saves."""
    from elmo_plugin.ops.lstm import triton_ops as of_lstm
    from elmo_plugin.ops.softmax import triton_ops as of_softmax

    expected = {
        of_lstm._cell_backward: {"n_rows"},
        of_softmax._row_losses: {"bias", "hits", "true_logits", "of_rows", "d_true"},
    }
    for kernel, names in expected.items():
        assert {x.name for x in kernel.params if x.do_not_specialize} == names


class Computing(TorchDispatchMode):
    """Counts the operators that are dispatched meanwhile, without views."""

    def __init__(self):
        super().__init__()
        self.operators = Counter()

    def __torch_dispatch__(self, operator, _, args=(), kwargs=None):
        self.operators[str(operator)] += not operator.is_view
        return operator(*args, **(kwargs or {}))


def test_ended_rows_have_no_launches(monkeypatch):
    """By definition: a gradient has as many operators and kernels if rows end at three different
    steps. Nothing is computed by the kernels, for which a counter stands in."""
    from elmo_plugin.ops.lstm import triton_ops

    given, _ = next(lstm.examples(torch.float32, torch.randn, 70))

    def operators(batch_sizes):
        reading = given._replace(batch_sizes=batch_sizes)
        outputs, _, _, _, *kept = triton_ops.scan(reading, keep=True)
        with Computing() as computing:
            launched = partial(computing.operators.update, ["launch"])
            monkeypatch.setattr(backend, "launch", lambda *_: launched())
            triton_ops.scan_backward(reading, outputs, outputs, *kept)
        return +computing.operators

    monkeypatch.setattr(backend, "launch", lambda *_: None)
    operators([3, 3, 3, 3])  # rounds the bound, once in a process
    found = operators([3, 2, 1, 1])
    assert found == operators([3, 3, 3, 3]) and found["launch"] == 4


def test_falls_back(monkeypatch, caplog):
    """Kernels that do not run are replaced by PyTorch's operators, with one warning: here they are
    asked for as in the interpreter, but were defined without it, and there is no GPU."""
    import elmo_plugin.ops.softmax.triton_ops  # noqa: F401

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    as_on_a_gpu(monkeypatch)
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    backend._right_triton_ops.cache_clear()
    for _ in range(2):
        assert backend.fastest(softmax, [torch.empty(1, 1)]) is softmax.torch_ops
    (record,) = caplog.records
    assert "Triton kernels of elmo_plugin.ops.softmax are not used" in record.getMessage()
    backend._right_triton_ops.cache_clear()
