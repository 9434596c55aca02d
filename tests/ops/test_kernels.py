"""What the compiled kernels of one operator have in addition to those of `test_operators.py`."""

import pytest
import torch

from elmo_plugin.modules import ProjectedLSTM
from elmo_plugin.ops import backend, char_conv
from elmo_plugin.ops.char_conv import frozen_convolve, max_of_convolutions
from elmo_plugin.ops.lstm import (
    LSTMWeights,
    kernel,
    lstm_scan,
    pack_lstm_weights,
    quantize_lstm_weights,
)
from elmo_plugin.ops.lstm.reference import Reading
from tests.conftest import needs_kernel
from tests.ops.test_operators import FORMS

pytestmark = needs_kernel

Tensors = tuple[torch.Tensor, ...]
DTYPES = [torch.float32, torch.bfloat16]


def lstm_of(dim: int, projection_dim: int, input_dim: int = 5) -> tuple[ProjectedLSTM, Tensors]:
    """An LSTM, and a state of zeros of 33 rows."""
    torch.manual_seed(0)
    sizes = {"input_dim": input_dim, "dim": dim, "projection_dim": projection_dim}
    lstm = ProjectedLSTM(**sizes, cell_clip=1.0, proj_clip=1.0)
    return lstm, (torch.zeros(2, 33, dim), torch.zeros(2, 33, projection_dim))


@pytest.mark.parametrize("dtype", sorted({dtype for _, dtype in FORMS}, key=str))
def test_a_row_has_the_same_bits_in_any_company(dtype):
    """Property: a row's results are bit-identical alone and among others."""
    lstm, _ = lstm_of(130, 70)
    weights = lstm.requires_grad_(False).weights()
    if dtype == torch.int8:
        packed = quantize_lstm_weights(weights)
    else:
        packed = pack_lstm_weights(weights.map_matrices(lambda x, _: x.to(dtype)))
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
    two parts, and 72 cells in two blocks, of which the second has padding. If the number of gates
    is no multiple of 32, PyTorch's product in bf16 on AMX reads the beginning of the next row."""
    lstm, state = lstm_of(72, 5)
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


@pytest.fixture
def only_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(char_conv.torch_ops, "_best_windows_of", None)


def test_frozen_convolutions_choose_at_each_call(only_the_kernel, monkeypatch):
    """Without kernels PyTorch's operators compute, of which this file has removed one. A benchmark
    compares both ways with the same frozen convolutions."""
    embedding, convolutions = torch.nn.Embedding(262, 4), [torch.nn.Conv1d(4, 8, 2)]
    convolve = frozen_convolve(embedding, convolutions)
    characters = torch.ones(3, 12, dtype=torch.long)
    assert convolve(characters).shape == (3, 8)
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        convolve(characters)


def test_a_lexicon_costs_what_its_characters_in_a_batch_cost(only_the_kernel):
    """Expected: what is saved for the gradient is less than a hundredth of the tables of all 6,000
    characters. An id without a row is an error."""
    characters = torch.tensor([[5, 5999, 7, 0, 0], [5, 512, 5999, 7, 0]])
    weights = torch.randn(6000, 4, requires_grad=True), torch.randn(64, 4, 2), torch.randn(64)
    saved = []
    hooks = torch.autograd.graph.saved_tensors_hooks(lambda x: saved.append(x.nbytes) or x, iter)
    with hooks:
        max_of_convolutions(characters, weights[0], [weights[1:]])
    assert 0 < sum(saved) < 6000 * 64 * 2 * 4 / 100
    for character in (-1, 6000):
        with pytest.raises(IndexError):
            max_of_convolutions(characters * 0 + character, weights[0], [weights[1:]])
