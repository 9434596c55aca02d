"""The compiled LSTM kernel compared with its equation."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from random import Random
from typing import Any

import pytest
import torch
from torch.overrides import TorchFunctionMode

from elmo_plugin.modules import ProjectedLSTM
from elmo_plugin.ops import backend
from elmo_plugin.ops.lstm import LSTMWeights, kernel, lstm_scan, pack_lstm_weights, reference_lstm
from elmo_plugin.ops.lstm.reference import Reading
from tests.compare import assert_close, cosine
from tests.conftest import needs_kernel, threads

DTYPES = [torch.float32, torch.bfloat16]


def random_case(random: Random) -> tuple[ProjectedLSTM, tuple[Any, ...]]:
    """A frozen LSTM and its arguments: every kind of shape, clip and length."""
    torch.manual_seed(random.randrange(1000))
    dim = random.choice([1, 7, 64, 65, 130])
    clips = [random.choice([None, 0.3]) for _ in range(2)]
    lstm = ProjectedLSTM(
        input_dim=random.choice([1, 5, 64, 100]),
        dim=dim,
        projection_dim=random.choice([dim, 3, 64, 70]),
        cell_clip=clips[0],
        proj_clip=clips[1],
    )
    for parameter in lstm.requires_grad_(False).parameters():
        torch.nn.init.normal_(parameter, std=0.1)
    n_steps, n_rows = random.choice([0, 1, 2, 9, 140]), random.choice([0, 1, 3, 16, 33, 40])
    sizes = None
    if random.random() < 0.5:
        sizes = sorted((random.randint(0, n_rows) for _ in range(n_steps)), reverse=True)
    input_dim, projection_dim = lstm.input_weight.size(1), lstm.projection_dim
    tensors = (
        torch.randn(2, n_steps, n_rows, input_dim),
        0.3 * torch.randn(2, n_rows, dim),
        0.2 * torch.randn(2, n_rows, projection_dim),
    )
    return lstm, (*tensors, sizes)


def reference(lstm: ProjectedLSTM, dtype: torch.dtype, *arguments: Any) -> tuple[torch.Tensor, ...]:
    """The equation with weights rounded to `dtype`; that of fp32 in double precision."""
    precise = torch.float64 if dtype == torch.float32 else torch.float32
    *tensors, sizes = arguments
    lstm.precision = dtype
    weights = lstm.weights()
    weights = weights.map_matrices(lambda x, _: x.to(precise))._replace(
        bias=weights.bias.to(precise)
    )
    return reference_lstm(*(x.to(precise) for x in tensors), weights, sizes)


class Bfloat16Products(TorchFunctionMode):
    """Rounds what is multiplied to bf16, and lets gradients through as if it were not rounded."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if func in (torch.Tensor.matmul, torch.Tensor.__matmul__):
            args = [x + (x.bfloat16().float() - x).detach() for x in args]
        return func(*args, **(kwargs or {}))


@needs_kernel
@pytest.mark.parametrize("dtype", DTYPES)
def test_random_shapes(fuzz, dtype):
    """Expected: the equation, within 1e-5 in fp32. In bf16 the equation multiplies rounded numbers,
    too; without, a product of few numbers may differ by 2^-9 of its largest term. What remains is a
    factor that the kernel rounds to the other neighbor, one bit in 8, which is rare: the cosine is
    at least 0.99999. The equation refuses no steps: then nothing comes out, and the state is the
    given one."""
    if dtype not in backend.KERNEL_DTYPES:
        pytest.skip(f"the LSTM kernel is {backend.KERNEL_STATUS}")
    for random in fuzz.cases(40):
        lstm, arguments = random_case(random)
        lstm.precision = dtype
        *tensors, sizes = arguments
        with torch.no_grad():
            packed = pack_lstm_weights(lstm.weights())
            found = lstm_scan(*tensors, packed, sizes)
        assert isinstance(packed.input, kernel.KernelWeights)
        if not arguments[0].size(1):
            assert found[0].shape == (*arguments[0].shape[:3], lstm.projection_dim)
            assert all(map(torch.equal, found[1:], arguments[1:3]))
            continue
        with Bfloat16Products() if dtype == torch.bfloat16 else nullcontext():
            expected = reference(lstm, dtype, *arguments)
        for name, x, y in zip("hch", found, expected):
            if dtype == torch.float32:
                assert_close(x, y, atol=1e-5, what=name)
            elif y.any():
                assert cosine(x, y) > 0.99999


@needs_kernel
@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_for_random_shapes(fuzz, dtype):
    """Expected: the equation differentiated by autograd; gradients within 1e-4 of the largest in
    fp32, and with a cosine of at least 0.9995 in bf16, where the equation multiplies rounded
    numbers, too. The gradient of a clip jumps, so that another rounding next to it changes those of
    some steps. In fp32, a cosine of at least 0.9999 suffices only where the equation's own gradient
    jumps, if the clips are moved by a hundred-thousandth."""
    if dtype not in backend.KERNEL_DTYPES:
        pytest.skip(f"the LSTM kernel is {backend.KERNEL_STATUS}")
    for random in fuzz.cases(20):
        lstm, (inputs, *state, sizes) = random_case(random)
        if not inputs.numel():
            continue
        parameters = [inputs.requires_grad_(), *lstm.requires_grad_().parameters()]
        lstm.precision = dtype
        found = lstm(inputs, *state, sizes)
        assert found[0].grad_fn.operators is kernel
        with Bfloat16Products() if dtype == torch.bfloat16 else nullcontext():
            expected = reference(lstm, dtype, inputs, *state, sizes)
        weight = torch.randn_like(found[0])
        gradients = [
            torch.autograd.grad((x[0] * weight).sum(), parameters) for x in (found, expected)
        ]
        for value, x, y in zip("hch", found, expected):
            atol = 1e-5 if dtype == torch.float32 else 0.05
            assert_close(x.detach(), y.detach(), atol=atol, what=value)
        least = 0.9995
        if dtype == torch.float32:
            if are_close(*gradients):
                continue
            moved = []
            clips = lstm.cell_clip, lstm.proj_clip
            for factor in (1 - 1e-5, 1 + 1e-5):
                lstm.cell_clip, lstm.proj_clip = (clip and clip * factor for clip in clips)
                outputs = reference(lstm, dtype, inputs, *state, sizes)[0]
                moved.append(torch.autograd.grad((outputs * weight).sum(), parameters))
            assert not are_close(*moved), "the gradients differ, and no clip is the reason"
            least = 0.9999
        assert all(cosine(x, y) > least for x, y in zip(*gradients) if y.any())


def are_close(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> bool:
    """Whether the differences of gradients are within 1e-4 of the largest number of each."""
    pairs = zip(found, expected)
    return all((x - y).abs().max() <= 1e-4 * float(y.abs().max()) + 1e-7 for x, y in pairs)


@needs_kernel
@pytest.mark.parametrize("dtype", sorted(backend.KERNEL_DTYPES, key=str))
def test_a_row_has_the_same_bits_in_any_company(dtype, fuzz):
    """Property: a row's results are bit-identical alone and among others, with any number of
    threads."""
    for random in fuzz.cases(3):
        lstm, _ = random_case(random)
        lstm.precision = dtype
        check_bits_in_any_company(lstm, lstm)


def check_bits_in_any_company(lstm: ProjectedLSTM, scan: Callable[..., Any]) -> None:
    """Compare the bits of a row that `scan` reads alone with those among others and with more
    threads, for tensors of the sizes of `lstm`."""
    sizes = (5, 45, lstm.input_weight.size(1)), (45, lstm.dim), (45, lstm.projection_dim)
    tensors = [torch.randn(2, *size) for size in sizes]
    with torch.no_grad():
        together = scan(*tensors)
        with threads(6):
            assert all(map(torch.equal, scan(*tensors), together))
        for row in range(0, 45, 4):
            alone = scan(*(x[..., row : row + 1, :] for x in tensors))
            for x, y in zip(alone, together):
                assert torch.equal(x, y[..., row : row + 1, :])


@needs_kernel
def test_trained_weights_are_evaluated_by_the_kernel(monkeypatch):
    """Bit-identical with the same weights when they are packed, after each change of them, also one
    through `.data`, which no cache sees."""
    lstm, arguments = random_case(Random(1))
    monkeypatch.setattr("elmo_plugin.ops.lstm.torch_ops.scan", None)
    for _ in range(2):
        *tensors, sizes = arguments
        with torch.no_grad():
            expected = lstm_scan(*tensors, pack_lstm_weights(lstm.weights()), sizes)
            found = lstm.requires_grad_(True)(*arguments)
        assert all(map(torch.equal, found, expected))
        lstm.input_weight.data.mul_(2)


@needs_kernel
def test_nan_stays_nan():
    """By the definition of a NaN: it reaches every later number of its row, and no other row."""
    lstm, (inputs, memory, output, _) = random_case(Random(0))
    inputs, memory, output = (
        torch.randn(2, 3, 4, lstm.input_weight.size(1)),
        *(torch.zeros(2, 4, n) for n in (lstm.dim, lstm.projection_dim)),
    )
    inputs[:, 1, 2, 0] = torch.nan
    for precision in backend.KERNEL_DTYPES:
        lstm.precision = precision
        with torch.no_grad():
            outputs, c, h = lstm(inputs, memory, output)
        is_nan = outputs.isnan()
        assert is_nan[:, 1:, 2].all() and c[:, 2].isnan().all() and h[:, 2].isnan().all()
        assert is_nan.sum() == is_nan[:, 1:, 2].numel()


@needs_kernel
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_of_nan_is_alone(dtype: torch.dtype) -> None:
    """By definition, the gradient of a row's inputs depends on no other row. 33 rows are read in
    two parts, and 65 cells in two blocks, of which the second has padding."""
    lstm = ProjectedLSTM(input_dim=5, dim=65, projection_dim=5, cell_clip=3, proj_clip=3)
    lstm.requires_grad_(False).precision = dtype
    inputs = torch.randn(2, 3, 33, 5, requires_grad=True)
    state = torch.zeros(2, 33, 65), torch.zeros(2, 33, 5)
    weight = torch.ones(2, 3, 33, 5)
    found = []
    for value in (1.0, float("nan")):
        weight[:, :, 32] = value
        [gradient] = torch.autograd.grad(lstm(inputs, *state, None)[0], inputs, weight)
        found.append(gradient[:, :, :32])
    assert torch.equal(*found) and found[0].any()


@needs_kernel
def test_rising_batch_sizes_are_refused():
    """The kernel would write outside of its arrays. The message says what was found."""
    lstm = ProjectedLSTM(input_dim=3, dim=4, projection_dim=2, cell_clip=None, proj_clip=None)
    state = torch.zeros(2, 2, 4), torch.zeros(2, 2, 2)
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"never rise.*found \[1, 2\]"):
        lstm_scan(torch.randn(2, 2, 2, 3), *state, lstm.weights(), [1, 2])


@needs_kernel
@pytest.mark.parametrize("wrong", ["output", "recurrent_weight"])
def test_sizes_that_disagree_are_refused(wrong):
    """Without a projection, h has as many numbers as c; and the blocks of packed weights cover
    them. Otherwise the kernel would write or read outside of its arrays."""
    sizes = {"output": (1, 640), "recurrent_weight": (640, 64)}[wrong]
    matrices = torch.zeros(2, 8, 4 * 640), torch.zeros(2, 640, 4 * sizes[1])
    weights = LSTMWeights(*matrices, torch.zeros(2, 4 * 640), None, None, None)
    inputs, memory = torch.zeros(2, 1, 40, 8), torch.zeros(2, 40, 640)
    hidden = torch.zeros(2, 40, sizes[0])
    with pytest.raises(RuntimeError, match="expected"):
        kernel.scan(Reading(inputs, memory, hidden, weights, [40]))


@needs_kernel
@pytest.mark.parametrize("name", ["bias", "recurrent_weight"])
def test_weights_of_any_strides(name):
    """Expected: the gradients of contiguous weights."""
    gradients = []
    for strided in (False, True):
        torch.manual_seed(0)
        lstm = ProjectedLSTM(input_dim=64, dim=64, projection_dim=64, cell_clip=1.0, proj_clip=None)
        lstm.precision = torch.bfloat16
        if strided:
            weight = getattr(lstm, name).detach().transpose(0, -1).contiguous().transpose(0, -1)
            setattr(lstm, name, torch.nn.Parameter(weight))
        state = torch.zeros(2, 4, 64)
        lstm(torch.randn(2, 3, 4, 64), state, state)[0].sum().backward()
        gradients.append([p.grad for p in lstm.parameters()])
    for one, other in zip(*gradients):
        assert_close(one, other, atol=0, what="gradient")
