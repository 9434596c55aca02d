"""The compiled LSTM kernel: what `test_operators.py` does not compare for all kernels."""

import pytest
import torch

from elmo_plugin.modules import ProjectedLSTM
from elmo_plugin.ops import backend
from elmo_plugin.ops.lstm import (
    LSTMWeights,
    kernel,
    lstm_scan,
    pack_lstm_weights,
    quantize_lstm_weights,
)
from elmo_plugin.ops.lstm.reference import Reading
from tests.conftest import needs_kernel

pytestmark = needs_kernel

Tensors = tuple[torch.Tensor, ...]
DTYPES = [torch.float32, torch.bfloat16]
FORMS = sorted(backend.KERNEL_DTYPES, key=str)
if backend.quantizes(torch.empty(0)):
    FORMS.append(torch.int8)


def lstm_of(dim: int, projection_dim: int, input_dim: int = 5) -> tuple[ProjectedLSTM, Tensors]:
    """An LSTM, and a state of zeros of 33 rows."""
    torch.manual_seed(0)
    sizes = {"input_dim": input_dim, "dim": dim, "projection_dim": projection_dim}
    lstm = ProjectedLSTM(**sizes, cell_clip=1.0, proj_clip=1.0)
    return lstm, (torch.zeros(2, 33, dim), torch.zeros(2, 33, projection_dim))


@pytest.mark.parametrize("dtype", FORMS)
def test_a_row_has_the_same_bits_in_any_company(dtype):
    """Property: a row's results are bit-identical alone and among others."""
    lstm, _ = lstm_of(130, 70)
    packed = pack_lstm_weights(lstm.weights().map_matrices(lambda x, _: x.detach().to(dtype)))
    if dtype == torch.int8:
        packed = quantize_lstm_weights(lstm.weights())
    tensors = [torch.randn(2, *shape) for shape in ((5, 45, 5), (45, 130), (45, 70))]
    together = lstm_scan(*tensors, packed)
    for row in range(0, 45, 4):
        alone = lstm_scan(*(x[..., row : row + 1, :] for x in tensors), packed)
        for x, y in zip(alone, together):
            assert torch.equal(x, y[..., row : row + 1, :])


def test_trained_weights_are_evaluated_by_the_kernel(monkeypatch):
    """Bit-identical with the same weights when they are packed, after each change of them, also one
    through `.data`, which no cache sees."""
    lstm, state = lstm_of(65, 64)
    monkeypatch.setattr("elmo_plugin.ops.lstm.torch_ops.scan", None)
    inputs, sizes = torch.randn(2, 3, 33, 5), [33, 20, 0]
    for _ in range(2):
        with torch.no_grad():
            expected = lstm_scan(inputs, *state, pack_lstm_weights(lstm.weights()), sizes)
            found = lstm(inputs, *state, sizes)
        assert all(map(torch.equal, found, expected))
        lstm.input_weight.data.mul_(2)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_row_of_nan_is_alone(dtype: torch.dtype) -> None:
    """By definition, the gradient of a row's inputs depends on no other row. 33 rows are read in
    two parts, and 65 cells in two blocks, of which the second has padding."""
    lstm, state = lstm_of(65, 5)
    lstm.requires_grad_(False).precision = dtype
    inputs = torch.randn(2, 3, 33, 5, requires_grad=True)
    weight, found = torch.ones(2, 3, 33, 5), []
    for value in (1.0, float("nan")):
        weight[:, :, 32] = value
        [gradient] = torch.autograd.grad(lstm(inputs, *state, None)[0], inputs, weight)
        found.append(gradient[:, :, :32])
    assert torch.equal(*found) and found[0].any()


def test_rising_batch_sizes_are_refused():
    """The kernel would write outside of its arrays. The message says what was found."""
    lstm, state = lstm_of(4, 2)
    with torch.no_grad(), pytest.raises(RuntimeError, match=r"never rise.*found \[1, 2\]"):
        lstm_scan(torch.randn(2, 2, 33, 5), *state, lstm.weights(), [1, 2])


@pytest.mark.parametrize("h_size, recurrent_size", [(1, 640), (640, 64)])
def test_sizes_that_disagree_are_refused(h_size, recurrent_size):
    """Without a projection, h has as many numbers as c; and the blocks of packed weights cover
    them. Otherwise the kernel would write or read outside of its arrays."""
    matrices = torch.zeros(2, 8, 4 * 640), torch.zeros(2, 640, 4 * recurrent_size)
    weights = LSTMWeights(*matrices, torch.zeros(2, 4 * 640), None, None, None)
    state = torch.zeros(2, 40, 640), torch.zeros(2, 40, h_size)
    with pytest.raises(RuntimeError, match="expected"):
        kernel.scan(Reading(torch.zeros(2, 1, 40, 8), *state, weights, [40]))


@pytest.mark.parametrize("name", ["bias", "recurrent_weight"])
def test_weights_of_any_strides(name):
    """Expected: the gradients of contiguous weights."""
    gradients = []
    for strided in (False, True):
        lstm, state = lstm_of(64, 64, 64)
        lstm.precision = torch.bfloat16
        if strided:
            weight = getattr(lstm, name).detach().transpose(0, -1).contiguous().transpose(0, -1)
            setattr(lstm, name, torch.nn.Parameter(weight))
        torch.manual_seed(1)
        lstm(torch.randn(2, 3, 33, 64), *state)[0].sum().backward()
        gradients.append([p.grad for p in lstm.parameters()])
    assert all(map(torch.equal, *gradients))
