"""The loop over the steps compared with AllenNLP's own, from a fresh import without patches."""

import importlib.util

import pytest
import torch
from allennlp.common import Params
from allennlp.modules.augmented_lstm import AugmentedLstm
from allennlp.modules.seq2seq_encoders import PytorchSeq2SeqWrapper, Seq2SeqEncoder
from torch.nn.utils.rnn import pack_padded_sequence

spec = importlib.util.find_spec("allennlp.modules.augmented_lstm")
stock = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stock)

MASK = torch.arange(9) < torch.tensor([[4], [8], [0], [1], [8], [5]])


def both(monkeypatch: pytest.MonkeyPatch, work) -> list:
    """What `work` returns with AllenNLP's loop and with ours, from the same random state."""
    results = []
    for forward in (stock.AugmentedLstm.forward, AugmentedLstm.forward):
        with monkeypatch.context() as patched:
            patched.setattr(AugmentedLstm, "forward", forward)
            torch.manual_seed(0)
            results.append(work())
    return results


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "alternating_lstm", "num_layers": 3, "recurrent_dropout_probability": 0.5},
        {"type": "alternating_lstm", "num_layers": 2, "use_highway": False},
        {"type": "stacked_bidirectional_lstm", "num_layers": 2},
        {"type": "augmented_lstm", "use_input_projection_bias": False},
    ],
)
def test_outputs_and_gradients_are_allennlps(monkeypatch, parameters, training):
    """The same weights and dropout masks; outputs and the gradients of weights and inputs agree in
    fp64, with rows of several lengths, an empty one, and padding after the longest."""

    def work():
        sizes = {"input_size": 7, "hidden_size": 5}
        encoder = Seq2SeqEncoder.from_params(Params({**parameters, **sizes})).double()
        encoder.train(training)
        x = torch.randn(*MASK.shape, 7, dtype=torch.float64, requires_grad=True)
        output = encoder(x, MASK)
        (output * torch.randn_like(output)).sum().backward()
        return [output, x.grad, *(p.grad for p in encoder.parameters())]

    expected, found = both(monkeypatch, work)
    torch.testing.assert_close(found, expected)


def test_mixed_precision_is_allennlps(monkeypatch):
    """The products in bfloat16, the memory in float32, as under `use_amp`."""

    def work():
        encoder = PytorchSeq2SeqWrapper(AugmentedLstm(7, 5))
        with torch.autocast("cpu", torch.bfloat16):
            return encoder(torch.randn(*MASK.shape, 7), MASK)

    expected, found = both(monkeypatch, work)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-2)


@pytest.mark.parametrize("go_forward", [True, False])
def test_final_states_are_allennlps(monkeypatch, go_forward):
    """Each row's last output and memory, from given states and from zeros."""

    def work():
        lstm = AugmentedLstm(7, 5, go_forward)
        inputs = pack_padded_sequence(torch.randn(3, 6, 7), [6, 4, 1], batch_first=True)
        states = tuple(torch.randn(2, 1, 3, 5))
        return [lstm(inputs, start)[1] for start in (states, None)]

    expected, found = both(monkeypatch, work)
    torch.testing.assert_close(found, expected)


def test_final_states_have_gradients():
    """Finite differences, with rows of several lengths; AllenNLP's loop drops the gradients of
    those that end before the longest."""

    def final_states(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return lstm(pack_padded_sequence(x, [5, 3, 1], batch_first=True))[1]

    x = torch.randn(3, 5, 2, dtype=torch.float64, requires_grad=True)
    lstm = AugmentedLstm(2, 3).double()
    assert torch.autograd.gradcheck(final_states, x)
    lstm = stock.AugmentedLstm(2, 3).double()
    assert not torch.autograd.gradcheck(final_states, x, raise_exception=False)


def test_a_stateful_encoder_carries_its_states(monkeypatch):
    """Two batches of one stream."""

    def work():
        encoder = PytorchSeq2SeqWrapper(AugmentedLstm(7, 5), stateful=True)
        mask = torch.ones(3, 4, dtype=torch.bool)
        return [encoder(torch.randn(3, 4, 7), mask) for _ in range(2)]

    expected, found = both(monkeypatch, work)
    torch.testing.assert_close(found, expected)
