"""Whether the compiled kernels are on or off, and why; and a PyTorch without private operators."""

import logging
import shutil
import subprocess
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.modules import ProjectedLSTM
from elmo_plugin.ops import backend, char_conv, kernel_sources, lstm, private_torch, softmax
from elmo_plugin.ops.lstm import lstm_scan, pack_lstm_weights
from tests.compare import assert_close
from tests.conftest import (
    NO_KERNELS,
    needs_kernel,
    pytest_configure,
    pytest_terminal_summary,
    python,
    threads,
)
from tests.ops.triton_cases import DistanceFromBounds

IN_CONTEXTS = """
import torch
with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
    from elmo_plugin.ops.backend import KERNEL_STATUS
print(KERNEL_STATUS)
"""


@needs_kernel
def test_the_context_of_the_import_does_not_matter():
    """The self-tests would fail in each of the three."""
    assert python("-c", IN_CONTEXTS).stdout.strip() == backend.KERNEL_STATUS


@needs_kernel
@pytest.mark.parametrize("operator", [char_conv, lstm, softmax])
def test_the_default_dtype_of_the_import_does_not_matter(operator):
    """The self-tests are in fp32, and the default dtype stays what it was."""
    torch.set_default_dtype(torch.float64)
    try:
        backend.compare(operator, operator.kernel, torch.float32)
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def during_a_self_test(setting):
    """The value of a setting while an operator is compared that has no results."""
    found = []
    operator = SimpleNamespace(
        example=lambda *_: found.append(setting()) or [], results=lambda _: [], torch_ops=None
    )
    backend.compare(operator, None, torch.float32)
    return found[0]


def test_the_self_test_is_precise():
    """In TF32, inputs that differ in their last bit can be rounded to neighbours 1e-3 apart."""
    products = torch.backends.cuda.matmul
    before = products.fp32_precision
    products.fp32_precision = "tf32"
    try:
        assert during_a_self_test(lambda: products.fp32_precision) == "ieee"
        assert products.fp32_precision == "tf32"
    finally:
        products.fp32_precision = before


def test_the_kernel_is_switched_off(monkeypatch):
    """Expected: as documented, for the variable's value 0."""
    monkeypatch.setenv("ELMO_PLUGIN_KERNEL", "0")
    assert backend.load_kernels([]) == (frozenset(), "off, because ELMO_PLUGIN_KERNEL is 0")


def test_no_kernel_is_no_fault(monkeypatch, tmp_path, caplog):
    """Expected: no warning where there was no compiler."""
    monkeypatch.delenv("ELMO_PLUGIN_KERNEL", raising=False)
    monkeypatch.setattr(backend, "LIBRARY", tmp_path / "absent.so")
    assert backend.load_kernels([]) == (frozenset(), "off, because it was not built")
    assert not caplog.records


def test_a_file_that_does_not_load_is_not_used(monkeypatch, tmp_path, caplog):
    """Expected: PyTorch's operators and one warning that says why."""
    monkeypatch.delenv("ELMO_PLUGIN_KERNEL", raising=False)
    monkeypatch.setattr(backend, "LIBRARY", tmp_path / "broken.so")
    (tmp_path / "broken.so").write_bytes(b"no library")
    dtypes, status = backend.load_kernels([])
    assert not dtypes and status.startswith("off, because ") and "broken.so" in status
    (record,) = caplog.records
    assert record.levelno == logging.WARNING and "broken.so" in record.getMessage()


def test_the_self_test_starts_no_threads():
    """Expected: one thread while the self-test runs, and as many as before after it. A process that
    is forked later would wait for threads that it does not have."""
    with threads(3):
        assert during_a_self_test(torch.get_num_threads) == 1 and torch.get_num_threads() == 3


FUNCTIONS = {
    char_conv: ["best_windows", "table_gradients"],
    lstm: ["scan", "scan_backward"],
    softmax: ["losses"],
}


@needs_kernel
@pytest.mark.parametrize(
    "operator, name", [(operator, name) for operator in FUNCTIONS for name in FUNCTIONS[operator]]
)
def test_wrong_numbers_are_found(operator, name, monkeypatch, caplog):
    """Expected: no kernel is used if a result of one differs from its definition, here by 0.1."""
    functions = {name: getattr(operator.kernel, name) for name in FUNCTIONS[operator]}

    def shifted(*given, **kwargs):
        first, *others = functions[name](*given, **kwargs)
        return first + 0.1, *others

    monkeypatch.delenv("ELMO_PLUGIN_KERNEL", raising=False)
    monkeypatch.setattr(operator, "kernel", SimpleNamespace(**{**functions, name: shifted}))
    dtypes, status = backend.load_kernels([char_conv, lstm, softmax])
    assert not dtypes and f"{operator.__name__}: torch." in status and "is wrong by 0.1" in status
    (record,) = caplog.records
    assert "is wrong by 0.1" in record.getMessage()


@pytest.mark.parametrize("dtype", lstm.DTYPES)
def test_the_example_of_the_lstm_has_no_numbers_near_a_bound(dtype):
    """Rounding may move such a number across its bound, which changes whether it has a gradient, so
    that a right kernel would seem to be wrong. Expected: the distances in the equation, in double
    precision."""
    random = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    reading, _ = lstm.example(dtype, random)
    weights = reading.weights.map_matrices(lambda x, _: x.double())
    weights = weights._replace(bias=weights.bias.double())
    with DistanceFromBounds() as distance:
        lstm.reference_lstm(*(x.double() for x in reading[:3]), weights, reading.batch_sizes)
    assert distance.least > 0.004


@needs_kernel
@pytest.mark.parametrize(
    "change, status",
    [
        (
            (torch, "__version__", "2.99.0+cpu"),
            f"built for PyTorch {torch.__version__.partition('+')[0]}, not 2.99.0",
        ),
        ((backend, "sources_digest", lambda: "another"), "built from other sources"),
    ],
)
def test_a_library_of_something_else_is_not_loaded(monkeypatch, change, status):
    """Expected: the file says what it was built from, so that it need not be loaded, which may
    crash with another PyTorch. Without sources, as in a wheel, nothing is compared with them."""
    monkeypatch.delenv("ELMO_PLUGIN_KERNEL", raising=False)
    loaded = []
    with monkeypatch.context() as patch:
        patch.setattr(torch.ops, "load_library", loaded.append)
        patch.setattr(*change)
        dtypes, found = backend.load_kernels([])
    assert not dtypes and status in found and not loaded
    monkeypatch.setattr(backend, "sources_digest", lambda: None)
    assert backend.load_kernels([]) == (backend.KERNEL_DTYPES, backend.KERNEL_STATUS)


@pytest.mark.parametrize(
    "status",
    [
        *NO_KERNELS,
        "off, because a.so was built from other sources",
        "off, because it is wrong by 1",
    ],
)
def test_no_test_runs_beside_an_old_library(status, monkeypatch):
    """By definition: where there is no library, its tests are skipped, and the last line says why.
    With one that is not used, no test runs."""
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    monkeypatch.setattr(backend, "KERNEL_STATUS", status)
    if status not in NO_KERNELS:
        with pytest.raises(pytest.UsageError, match=f"^the compiled kernels are {status}$"):
            pytest_configure()
        return
    pytest_configure()
    lines = []
    pytest_terminal_summary(SimpleNamespace(write_line=lines.append))
    assert len(lines) == 1 and lines[0].endswith(f"skipped: they are {status}")


def test_the_digest_of_the_sources(monkeypatch, tmp_path):
    """By hand: another content, name or number of files is another digest, and other files do not
    matter."""
    monkeypatch.setattr(kernel_sources, "__file__", str(tmp_path / "kernel_sources.py"))
    assert kernel_sources.sources_digest() is None
    found = []
    files = ("a/kernel.cpp", "1"), ("a/kernel.cpp", "2"), ("b/kernel.cpp", "2"), ("c.h", "")
    for name, content in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(content)
        found.append(kernel_sources.sources_digest())
    (tmp_path / "kernels.so").touch()
    assert kernel_sources.sources_digest() == found[-1] and len(set(found)) == 4


@pytest.mark.parametrize("name", ["char_conv", "lstm", "softmax"])
def test_the_source_is_empty_for_other_processors(name: str) -> None:
    """The preprocessor without the macro of x86-64 leaves nothing to compile, and needs no headers
    of PyTorch."""
    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("there is no C++ compiler")
    source = Path(backend.__file__).parent / name / "kernel.cpp"
    command = [compiler, "-E", "-P", "-U__x86_64__", source]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert not done.stdout.strip()


@pytest.mark.parametrize("in_clone", [False, True])
def test_who_reads_much_without_kernels_is_told_once(monkeypatch, caplog, in_clone):
    """By hand: the two layers of `tiny` read a sentence of 100 tokens in 200 steps. A wheel has no
    sources, so that the user names them."""
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    monkeypatch.setattr(backend, "sources_digest", lambda: "a" if in_clone else None)
    monkeypatch.setattr(backend, "MANY_STEPS", 1000)
    elmo, sentence = Elmo.from_pretrained("tiny"), ["dog"] * 100
    for status, n_messages in (("off, because ELMO_PLUGIN_KERNEL is 0", 0), (backend.NOT_BUILT, 1)):
        monkeypatch.setattr(backend, "KERNEL_STATUS", status)
        monkeypatch.setattr(backend, "_n_steps", 0)
        caplog.clear()
        elmo.embed([sentence, sentence])
        assert not caplog.text
        elmo.embed([sentence] * 5)
        elmo.embed([sentence] * 10)
        assert caplog.text.count("has no compiled kernels") == n_messages
    assert ("-e . builds" if in_clone else "SOURCES (a clone or the sdist) builds") in caplog.text


def results(lstm: ProjectedLSTM, inputs: torch.Tensor) -> list[torch.Tensor]:
    """Return outputs with packed weights, and gradients of two backward passes over one graph."""
    state = torch.zeros(2, 3, 6), torch.zeros(2, 3, 4)
    with torch.no_grad():
        outputs = lstm_scan(inputs, *state, pack_lstm_weights(lstm.weights()))[0]
    loss = lstm(inputs, *state)[0].square().sum()
    parameters = list(lstm.parameters())
    first = torch.autograd.grad(loss, parameters, retain_graph=True)
    return [outputs, *first, *torch.autograd.grad(loss, parameters)]


@pytest.mark.parametrize(
    "missing, instead",
    [
        ("_linear_pointwise", None),
        ("_reorder_linear_weight", None),
        ("_is_bf16_supported", None),
        ("_keeps_graph", lambda: True),
    ],
)
def test_a_pytorch_without_the_operator_gives_the_same(missing, instead, monkeypatch):
    """The expected results are those with all operators, which a build of PyTorch without oneDNN
    lacks."""
    torch.manual_seed(0)
    lstm = ProjectedLSTM(input_dim=5, dim=6, projection_dim=4, cell_clip=3.0, proj_clip=3.0)
    inputs = torch.randn(2, 7, 3, 5)
    expected = results(lstm, inputs)
    monkeypatch.setattr(private_torch, missing, instead)
    monkeypatch.setattr(private_torch, "ONEDNN_DTYPES", private_torch._onednn_dtypes())
    for found, reference in zip(results(lstm, inputs), expected):
        assert_close(found, reference, atol=1e-5, what=f"without {missing}")
