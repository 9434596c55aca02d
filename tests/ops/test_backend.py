"""Whether the compiled kernels are on or off, and why; and a PyTorch without private operators."""

import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from functools import partial
from itertools import permutations
from pathlib import Path
from threading import Barrier
from time import sleep
from types import SimpleNamespace
from unittest.mock import Mock

import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.modules import ProjectedLSTM
from elmo_plugin.ops import backend, char_conv, kernel_sources, lstm, private_torch, softmax
from elmo_plugin.ops.lstm import lstm_scan, pack_lstm_weights
from tests.compare import assert_close
from tests.conftest import needs_kernel, pytest_configure, python, threads, write_file
from tests.ops.operator_cases import DistanceFromBounds

IN_CONTEXTS = """
import torch
torch.set_default_dtype(torch.float64)
with torch.inference_mode(), torch.autocast("cpu", torch.bfloat16), torch.device("meta"):
    from elmo_plugin.ops.backend import KERNEL_STATUS
print(KERNEL_STATUS, torch.get_default_dtype())
"""


@needs_kernel
def test_the_context_of_the_import_does_not_matter():
    """The self-tests would fail in each of the three, and are in fp32; the default dtype stays what
    it was."""
    expected = f"{backend.KERNEL_STATUS} torch.float64"
    assert python("-c", IN_CONTEXTS).stdout.strip() == expected


def during_a_self_test(setting):
    """The values of a setting while the results of a module and of PyTorch are computed."""
    found = []
    operator = SimpleNamespace(
        examples=lambda *_: [[]], results=lambda _: found.append(setting()) or [], torch_ops=None
    )
    backend.compare(operator, None, torch.float32)
    return found


def switches():
    """PyTorch's switches of the precision of fp32, which inherit from those before them."""
    backends = torch.backends
    products = backends.cuda.matmul, backends.mkldnn.matmul
    return [backends, backends.cudnn, backends.mkldnn, *products]


def precisions():
    """The values of all switches, old and new, or the error that reading one of them raises."""

    def read(function):
        try:
            return function()
        except RuntimeError as error:
            return str(error)

    old = torch.get_float32_matmul_precision, lambda: torch.backends.cuda.matmul.allow_tf32
    return [*(switch.fp32_precision for switch in switches()), *map(read, old)]


@pytest.fixture
def default_precisions():
    def reset():
        torch.set_float32_matmul_precision("highest")
        for switch in switches():
            switch.fp32_precision = "none"

    reset()
    yield reset
    reset()


def setter(backend, value):
    return lambda: setattr(backend, "fp32_precision", value)


SETTERS = {
    "high": lambda: torch.set_float32_matmul_precision("high"),
    "medium": lambda: torch.set_float32_matmul_precision("medium"),
    "allow_tf32": lambda: setattr(torch.backends.cuda.matmul, "allow_tf32", True),
    "all tf32": setter(torch.backends, "tf32"),
    "cuda tf32": setter(torch.backends.cudnn, "tf32"),
    "cuda matmul tf32": setter(torch.backends.cuda.matmul, "tf32"),
    "cuda matmul ieee": setter(torch.backends.cuda.matmul, "ieee"),
    "mkldnn bf16": setter(torch.backends.mkldnn, "bf16"),
    "mkldnn matmul bf16": setter(torch.backends.mkldnn.matmul, "bf16"),
}


@pytest.mark.parametrize("names", [(), *((name,) for name in SETTERS), *permutations(SETTERS, 2)])
def test_the_self_test_is_precise(names, default_precisions):
    """In TF32, inputs that differ in their last bit can be rounded to neighbours 1e-3 apart.
    Expected: whatever the user has set before, products are in fp32 during a self-test, and the
    values of all switches are the same afterwards, also once a general switch is set from which
    others inherit."""

    def values(compare):
        default_precisions()
        for name in names:
            SETTERS[name]()
        during = during_a_self_test(precisions)[0] if compare else None
        found = [precisions()]
        for general, value in ("tf32", "none"), ("ieee", "tf32"):
            torch.backends.fp32_precision = general
            torch.backends.cudnn.fp32_precision = value
            found.append(precisions())
        return found, during

    found, during = values(compare=True)
    assert found == values(compare=False)[0]
    assert during == [*["none"] * 3, "ieee", "ieee", "highest", False]


@pytest.fixture
def has_triton(monkeypatch):
    """As on a GPU with Triton, whose kernels were not compared yet."""
    monkeypatch.setattr(backend, "_has_kernels", lambda _: False)
    monkeypatch.setattr(backend, "_has_triton", lambda _: True)
    monkeypatch.setattr(backend, "find_spec", lambda _: True)
    backend._right_triton_ops.cache_clear()
    yield
    backend._right_triton_ops.cache_clear()


def test_threads_restore_the_settings(monkeypatch, default_precisions, has_triton):
    """Expected: the settings before. Eight threads together need kernels for the first time, which
    a self-test compares once for each precision; it is as long as those of a GPU. One at a time,
    because it sets what all threads share."""
    dtypes = torch.float32, torch.bfloat16
    during, barrier = [], Barrier(8)

    def results(*_):
        during.append((torch.get_default_dtype(), precisions()[-1]))
        sleep(0.05)
        return []

    monkeypatch.setattr(softmax, "results", results)
    torch.set_default_dtype(torch.float64)
    torch.set_float32_matmul_precision("high")

    def settings(_):
        barrier.wait()  # a task for each of the threads
        return torch.get_default_dtype(), precisions(), torch.get_num_threads()

    def first_call(k):
        barrier.wait()
        return backend.fastest(softmax, [torch.empty(1, dtype=dtypes[k % 2])])

    try:
        with threads(3), ThreadPoolExecutor(8) as pool:
            before = [*pool.map(settings, range(8))]
            chosen = [*pool.map(first_call, range(8))]
            assert [*pool.map(settings, range(8))] == before and torch.get_num_threads() == 3
    finally:
        torch.set_default_dtype(torch.float32)
    assert {x.__name__ for x in chosen} == {"elmo_plugin.ops.softmax.triton_ops"}
    assert during == [(torch.float32, False)] * 4  # two precisions, by two modules


@pytest.mark.parametrize(
    "error, n_tests",
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"), 2),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"), 2),
        (RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried"), 2),
        (RuntimeError("out of resource: shared memory"), 1),
        (RuntimeError("elmo_plugin.ops.softmax: torch.float32 is wrong by 0.1"), 1),
    ],
)
def test_too_little_memory_is_not_remembered(error, n_tests, monkeypatch, caplog, has_triton):
    """By definition: memory that others have now may be free at the next call, which compares the
    kernels again. The messages are those of PyTorch's allocators, CUDA and cuBLAS. What is wrong is
    replaced by PyTorch's operators, with one warning."""
    compare = Mock(side_effect=[error, None, None])
    monkeypatch.setattr(backend, "compare", compare)
    first, second, third = (backend.fastest(softmax, [torch.empty(1)]) for _ in range(3))
    assert first is softmax.torch_ops and second is third and compare.call_count == n_tests
    assert (second is first) == (n_tests == 1)
    (record,) = caplog.records
    assert f"Triton kernels of elmo_plugin.ops.softmax are not used: {error}" in record.getMessage()


def test_without_triton(monkeypatch, caplog, has_triton):
    """Without Triton there is nothing to say, because PyTorch's builds for CPUs have none."""
    monkeypatch.setattr(backend, "find_spec", lambda _: None)
    assert backend.fastest(softmax, [torch.empty(1, 1)]) is softmax.torch_ops
    assert not caplog.records


@pytest.mark.parametrize(
    "content, status",
    [
        ("", "off, because ELMO_PLUGIN_KERNEL is 0"),
        ("", "off, because it was not built"),
        ("no library", r"off, because \S*library\.so.* found none"),
        ("elmo_plugin kernels of a for PyTorch 2.99.0\0", "built for PyTorch 2.99.0, not "),
        ("elmo_plugin kernels of a for PyTorch VERSION\0", "built from other sources"),
        ("elmo_plugin kernels of SOURCES for PyTorch VERSION\0", r"library\.so"),
    ],
)
def test_a_library_that_is_not_used(monkeypatch, tmp_path, caplog, content, status):
    """Expected: PyTorch's operators, and one warning that says why, except for the documented value
    0 and where there was no compiler. A file says what it was built from, so that it need not be
    loaded, which may crash with another PyTorch; only the last one is loaded, which fails."""
    monkeypatch.setenv("ELMO_PLUGIN_KERNEL", "0" if "PLUGIN" in status else "1")
    library, load = tmp_path / "library.so", Mock(side_effect=torch.ops.load_library)
    monkeypatch.setattr(backend, "LIBRARY", library)
    monkeypatch.setattr(torch.ops, "load_library", load)
    if content:
        filled = content.replace("VERSION", torch.__version__.partition("+")[0])
        library.write_text(filled.replace("SOURCES", str(backend.sources_digest())))
    dtypes, found = backend.load_kernels([])
    assert not dtypes and re.search(status, found)
    assert load.called == ("SOURCES" in content)
    reason = found.removeprefix("off, because ")
    assert [reason in x.getMessage() for x in caplog.records] == [True] * bool(content)


@needs_kernel
def test_a_library_without_its_sources(monkeypatch):
    """Expected: it is used, as in a wheel, where nothing is compared with them."""
    monkeypatch.delenv("ELMO_PLUGIN_KERNEL", raising=False)
    monkeypatch.setattr(backend, "sources_digest", lambda: None)
    assert backend.load_kernels([]) == (backend.KERNEL_DTYPES, backend.KERNEL_STATUS)


@pytest.mark.parametrize("allowed", [1, 3])
def test_the_self_test_computes_in_two_threads(allowed):
    """Expected: two threads for the kernels, unless only one is allowed, one for PyTorch's
    operators, which stands for the definition, and as many as before after it."""
    with threads(allowed):
        assert during_a_self_test(torch.get_num_threads) == [min(2, allowed), 1]
        assert torch.get_num_threads() == allowed


FORKS = """
import os, signal, torch
from elmo_plugin.ops import backend, char_conv, lstm
torch.set_num_threads(2)
for _ in range(10):
    if not os.fork():
        signal.alarm(60)
        backend.compare(lstm, lstm.kernel, torch.float32)
        os._exit(3)
    print(os.waitstatus_to_exitcode(os.wait()[1]), end=" ")
"""


@needs_kernel
def test_a_forked_process_does_not_wait_for_threads_of_the_self_test():
    """Expected: forked processes compute in two threads and end, each with the number by which it
    says so. They would wait forever for threads that the thread which forks had started."""
    assert python("-c", FORKS, OMP_NUM_THREADS="2").stdout.split() == ["3"] * 10


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
    """Expected: no kernel is used if a result of one differs from its definition, here by 0.1. In
    bf16, large losses are rounded by as much, and their bias tells."""
    functions = {name: getattr(operator.kernel, name) for name in FUNCTIONS[operator]}

    def shifted(*given, **kwargs):
        first, *others = functions[name](*given, **kwargs)
        return first + 0.1, *others

    monkeypatch.delenv("ELMO_PLUGIN_KERNEL", raising=False)
    monkeypatch.setattr(operator, "kernel", SimpleNamespace(**{**functions, name: shifted}))
    dtypes, status = backend.load_kernels([char_conv, lstm, softmax])
    assert not dtypes and f"{operator.__name__}: torch." in status
    (record,) = caplog.records
    fault = re.search(r"is wrong by 0\.1|bfloat16 has a bias of", status)[0]
    assert fault in record.getMessage()


@pytest.mark.parametrize("size, n_least", [(150, 10_000), (1100, 10_000)])
def test_the_examples_are_larger_than_a_block(size, n_least):
    """Expected: more than the numbers that kernels compute at a time, which their sources say:
    64 units or filters, 128 words and 1,024 of both on GPUs; 32 rows; 16 words of characters. And
    10,000 numbers of some results, so that rounding does not move their mean."""
    random = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    (words, tables), *_ = char_conv.examples(torch.float32, random, size)
    assert len(words) > 2 * 16 and tables[1].size(2) == size > 128
    *_, (reading, _) = lstm.examples(torch.bfloat16, random, size)
    sizes = reading.batch_sizes
    assert reading.cell.size(-1) == size and 2 * size * sizes[0] >= n_least and sizes[-1] < sizes[0]
    assert size > 1024 or sizes[0] > 32
    (hidden, _, weight, *_), *_ = softmax.examples(torch.bfloat16, random, size)
    assert len(weight) == size and weight.numel() >= n_least and len(hidden) > 64


@pytest.mark.parametrize("operator", [lstm, softmax])
@pytest.mark.parametrize("share", [0.0, 0.01])
def test_a_bias_is_found_in_bf16(operator, share):
    """By hand: results that are all too large by 1 % are not of a kernel that rounds to nearest,
    although each differs by less than bf16's bound of 2 %."""

    def scaled(name):
        function = getattr(operator.torch_ops, name)
        return lambda *given, **kw: tuple(x * (1 + share) for x in function(*given, **kw))

    other = SimpleNamespace(**{name: scaled(name) for name in FUNCTIONS[operator]})
    is_wrong = pytest.raises(RuntimeError, match=r"torch.bfloat16 has a bias of 1\.00%")
    with is_wrong if share else nullcontext():
        backend.compare(operator, other, torch.bfloat16)


@pytest.mark.parametrize("dtype", lstm.DTYPES)
def test_the_example_of_the_lstm_has_no_numbers_near_a_bound(dtype):
    """Rounding may move such a number across its bound, which changes whether it has a gradient, so
    that a right kernel would seem to be wrong. Expected: the distances in the equation, in double
    precision."""
    random = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    reading, _ = next(lstm.examples(dtype, random, 150))
    weights = reading.weights.map_matrices(lambda x, _: x.double())
    weights = weights._replace(bias=weights.bias.double())
    with DistanceFromBounds() as distance:
        lstm.reference_lstm(*(x.double() for x in reading[:3]), weights, reading.batch_sizes)
    assert distance.least > 0.004


def test_no_test_runs_beside_an_old_library(monkeypatch):
    """By definition: no test runs with a library that is not used."""
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    monkeypatch.setattr(backend, "KERNEL_STATUS", "off, because it is wrong by 1")
    with pytest.raises(pytest.UsageError, match="wrong by 1"):
        pytest_configure()


def test_the_digest_of_the_sources(monkeypatch, tmp_path):
    """By hand: another content, name or number of files is another digest, and other files do not
    matter."""
    monkeypatch.setattr(kernel_sources, "__file__", str(tmp_path / "kernel_sources.py"))
    assert kernel_sources.sources_digest() is None
    found = []
    files = ("a/kernel.cpp", "1"), ("a/kernel.cpp", "2"), ("b/kernel.cpp", "2"), ("c.h", "")
    for name, content in (*files, ("kernels.so", "")):
        write_file(tmp_path / name, content)
        found.append(kernel_sources.sources_digest())
    assert found[-1] == found[-2] and len(set(found)) == 4


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
