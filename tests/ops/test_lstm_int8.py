"""The compiled LSTM kernel in int8, compared with a model of the quantized equations in NumPy."""

from functools import partial

import numpy as np
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.modules.language_model import BiLMWithSoftmax
from elmo_plugin.ops import backend, private_torch
from elmo_plugin.ops.lstm import examples, lstm_scan, pack_lstm_weights, quantize_lstm_weights
from elmo_plugin.text.lines import read_sentences
from tests.compare import assert_close
from tests.conftest import HAS_INT8
from tests.ops.operator_cases import random_lstm

needs_int8 = pytest.mark.skipif(
    not HAS_INT8, reason=f"no int8 products: the kernels are {backend.KERNEL_STATUS}"
)


def rounded(x, axis):
    """Numbers q s with integers q from -127 to 127 and a scale s for each row or column."""
    scale = np.abs(x).max(axis, keepdims=True) / 127
    return np.rint(x / np.where(scale == 0, 1, scale)) * scale


def quantized_lstm(inputs, c, h, weights, sizes):
    """
    The equations of benchmarks/README.md in double precision: weights have a scale for each column,
    the other factors one for each row, m in two parts; and the rows of W_x are divided, and the
    numbers of x multiplied, by the roots of the rows' maxima. Weights are rounded in single
    precision, in which a number near the middle of two integers goes to the same one as in the
    kernel's.
    """
    matrices = weights.input, weights.recurrent, weights.projection
    w_x, w_h, w_p = (None if w is None else w.numpy() for w in matrices)
    inputs, c, h, b = (x.numpy().astype(float) for x in (inputs, c, h, weights.bias))
    factor = np.sqrt(np.abs(w_x).max(2))
    w_x = rounded(w_x / factor[:, :, None], 1)
    w_h = rounded(w_h, 1)
    x = rounded(inputs * factor[:, None, None], -1)
    y = np.zeros((*inputs.shape[:3], h.shape[-1]))
    for t, n in enumerate(sizes or [inputs.shape[2]] * inputs.shape[1]):
        gates = x[:, t, :n] @ w_x + rounded(h[:, :n], -1) @ w_h + b[:, None]
        i, j, f, o = np.split(gates, 4, -1)
        i, f, o = (1 / (1 + np.exp(-z)) for z in (i, f, o))
        c[:, :n] = f * c[:, :n] + i * np.tanh(j)
        if weights.cell_clip:
            c[:, :n] = c[:, :n].clip(-weights.cell_clip, weights.cell_clip)
        m = o * np.tanh(c[:, :n])
        if w_p is not None:
            first = rounded(m, -1)
            m = (first + rounded(m - first, -1)) @ rounded(w_p, 1)
            if weights.proj_clip:
                m = m.clip(-weights.proj_clip, weights.proj_clip)
        h[:, :n] = y[:, t, :n] = m
    return y, c, h


def moved_by_rounding(expected, inputs, c, h, weights, sizes):
    """How far the results of the quantized equations move, at most, if what they read and their
    weights move by a millionth, as rounding in single precision may move them: the means of y, c
    and h, and that of the first step of y."""
    random = np.random.default_rng(0)

    def near(x, _=None):
        return x.double() * torch.from_numpy(1 + 1e-6 * random.uniform(-1, 1, x.shape))

    moved = []
    for _ in range(8):
        others = quantized_lstm(*map(near, (inputs, c, h)), weights.map_matrices(near), sizes)
        differences = [np.abs(x - y) for x, y in zip(others, expected)]
        moved.append([*(x.mean() for x in differences), differences[0][:, 0].mean()])
    return np.max(moved, axis=0)


@needs_int8
def test_random_shapes(fuzz):
    """Expected: the quantized equations in NumPy. The mean difference is below a tenth of the mean
    error that int8 makes against the equation in fp32, and in the first step below a hundredth. But
    a number halfway between two integers may round either way, which later steps feel: where a
    difference is larger, it is not twice as large as those that rounding makes in the equations."""
    for random in fuzz.cases(40):
        lstm, tensors, sizes = random_lstm(random)
        weights = lstm.requires_grad_(False).weights()
        with torch.no_grad():
            found = lstm_scan(*tensors, quantize_lstm_weights(weights), sizes)
            exact = lstm_scan(*tensors, pack_lstm_weights(weights), sizes)
        expected = quantized_lstm(*tensors, weights, sizes)
        pairs = [[np.abs(a.numpy() - y) for a in (z, x)] for x, y, z in zip(found, expected, exact)]
        pairs.append([x[:, 0] for x in pairs[0]])
        errors, differences = np.array([[x.mean() for x in pair] for pair in pairs]).T
        if not (differences < np.array([0.1, 0.1, 0.1, 0.01]) * errors + 1e-7).all():
            moved = moved_by_rounding(expected, *tensors, weights, sizes)
            assert (differences < 2 * moved).all(), (errors, differences, moved)


@needs_int8
def test_columns_of_zeros_and_large_numbers():
    """Expected: the quantized equations in NumPy, in which a column or a row of zeros gives zeros,
    and the largest numbers are exact."""
    weights = random_case_weights()
    weights.recurrent[:, :, 3] = 0
    weights.input[:, 0] = 0
    weights.input[:, :, 5] = 1000
    inputs, c, h = torch.zeros(2, 2, 3, 5), torch.zeros(2, 3, 70), torch.zeros(2, 3, 6)
    inputs[:, 1, 1] = torch.tensor([1e-20, 0, 0, 1e-20, 0])
    found = lstm_scan(inputs, c, h, quantize_lstm_weights(weights))
    for x, y in zip(found, quantized_lstm(inputs, c, h, weights, None)):
        assert np.abs(x.numpy() - y).max() < 1e-4


@needs_int8
def test_a_row_of_numbers_near_zero_is_a_row_of_zeros():
    """By hand: an output gate of exp(-95), about 6e-42, makes every m so small that the inverse of
    its scale is infinite in fp32, and infinity times zero is NaN. The outputs are m W_p."""
    weights = random_case_weights()
    weights.bias[:, 3 * 70 :] = -95
    inputs, c, h = torch.randn(2, 3, 4, 5), torch.zeros(2, 4, 70), torch.zeros(2, 4, 6)
    for x in lstm_scan(inputs, c, h, quantize_lstm_weights(weights))[::2]:
        assert_close(x, torch.zeros_like(x), atol=1e-30, what="outputs")


def random_case_weights():
    """Weights of an LSTM with an input of 5, D = 70 and P = 6."""
    random = partial(torch.randn, generator=torch.Generator().manual_seed(0))
    return next(examples(torch.float32, random, 150))[0].weights


@needs_int8
@pytest.mark.parametrize("number", [torch.nan, torch.inf, -torch.inf])
def test_what_is_not_finite_is_not_a_number(number):
    """A row with a NaN or an infinity has no scale, so it becomes NaN, and no other row does."""
    weights = quantize_lstm_weights(random_case_weights())
    inputs, c, h = torch.randn(2, 3, 4, 5), torch.zeros(2, 4, 70), torch.zeros(2, 4, 6)
    inputs[:, 1, 2, 0] = number
    outputs, c, h = lstm_scan(inputs, c, h, weights)
    is_nan = outputs.isnan()
    assert is_nan[:, 1:, 2].all() and c[:, 2].isnan().all() and h[:, 2].isnan().all()
    assert is_nan.sum() == is_nan[:, 1:, 2].numel()


@pytest.mark.parametrize(
    "has, is_faster",
    [("avx512_vnni", True), ("avx512_bf16", False), ("amx_bf16 amx_int8", True), ("bf16", False)],
)
def test_int8_is_for_processors_on_which_it_is_faster(has, is_faster, monkeypatch):
    """Expected: the rule of docs/speed.md, for what PyTorch says of processors."""
    names = dict.fromkeys(has.split(), True)
    monkeypatch.setattr(private_torch, "_capabilities", lambda: names)
    assert private_torch._int8_is_faster() == is_faster
    if HAS_INT8:
        monkeypatch.setattr(private_torch, "INT8_IS_FASTER", is_faster)
        assert backend.quantizes(torch.empty(0)) == is_faster


@needs_int8
@pytest.mark.parametrize("initial_state", ["zero", "warm", "carry"])
def test_vectors_of_the_english_model(initial_state, monkeypatch):
    """The rule of docs/speed.md: for each layer the mean cosine with the layer in fp32 is at least
    0.999. The numbers are not those of fp32 or bf16, so int8 is what computed them."""
    sentences, layers = list(read_sentences("fixtures/text/train.txt"))[:64], {}
    monkeypatch.setattr(private_torch, "INT8_IS_FASTER", True)
    for precision in ("fp32", "bf16", "int8"):
        elmo = Elmo.from_pretrained("small", initial_state=initial_state, precision=precision)
        numbers = np.hstack([x.reshape(3, -1, 256) for x in elmo.embed(sentences, layer="all")])
        layers[precision] = numbers / np.linalg.norm(numbers, axis=-1, keepdims=True)
    assert (layers["int8"] * layers["fp32"]).sum(-1).mean(1).min() > 0.999
    assert (layers["int8"] * layers["bf16"])[1:].sum(-1).mean() < 0.99995


def test_without_int8_products_the_precision_is_that_of_bf16(monkeypatch):
    """Expected: bit-identical with `"bf16"`, which is fp32 on a CPU without bfloat16."""
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    monkeypatch.setattr(private_torch, "INT8_IS_FASTER", True)
    sentences = list(read_sentences("fixtures/text/train.txt"))[:8]
    elmo, other = (Elmo.from_pretrained("tiny", precision=x) for x in ("int8", "bf16"))
    assert elmo.bilm.precision == other.bilm.precision != "int8"
    assert all(map(np.array_equal, elmo.embed(sentences), other.embed(sentences)))


def test_training_in_int8_is_refused():
    """Expected: an error that names the key, before anything is computed."""
    with pytest.raises(InputError, match='precision "int8": expected a frozen biLM'):
        Elmo.from_pretrained("tiny", precision="int8", requires_grad=True)
    options = Elmo.from_pretrained("tiny").bilm.options
    with pytest.raises(InputError, match="precision: expected one of 'fp32', 'bf16', found 'int8'"):
        BiLMWithSoftmax(options, n_words=9, precision="int8")
