"""The encoder `lstm` compared with AllenNLP's own class, which is the oracle throughout."""

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules.seq2seq_encoders import LstmSeq2SeqEncoder, Seq2SeqEncoder

MASK = torch.arange(9) < torch.tensor([[4], [8], [0], [1], [8]])  # padded to nine, one row empty


def encoders(**parameters) -> tuple[LstmSeq2SeqEncoder, Seq2SeqEncoder]:
    """AllenNLP's and ours, each created from the same seed."""
    parameters = {"input_size": 7, "hidden_size": 5, **parameters}
    torch.manual_seed(0)
    ours = Seq2SeqEncoder.from_params(Params({"type": "lstm", **parameters}))
    torch.manual_seed(0)
    return LstmSeq2SeqEncoder(**parameters), ours


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("num_layers", [1, 3])
def test_outputs_and_gradients_are_allennlps(num_layers, bidirectional, bias):
    """The same seed gives the same weights under the same names; outputs and the gradients of
    weights and inputs agree in fp32. Evaluation is AllenNLP's own."""
    parameters = {"num_layers": num_layers, "bidirectional": bidirectional, "bias": bias}
    stock, ours = encoders(**parameters)
    x = torch.randn(len(MASK), MASK.shape[1], 7)
    upstream = torch.randn(len(MASK), MASK.shape[1], 5 * (1 + bidirectional))
    found = []
    for encoder in (stock, ours):
        inputs = x.clone().requires_grad_()
        output = encoder(inputs, MASK)
        (output * upstream).sum().backward()
        gradients = {name: p.grad for name, p in encoder.named_parameters()}
        with torch.no_grad():
            found.append((encoder(inputs, MASK), output, inputs.grad, gradients))
    (expected, *expected_training), (evaluated, *training) = found
    assert torch.equal(evaluated, expected)
    torch.testing.assert_close(training, expected_training, rtol=1e-5, atol=1e-6)


def test_no_step_of_the_gradient_is_as_large_as_all_steps():
    """The graph of a long batch has as many nodes as that of a short one, so that nothing in it is
    done once a step; AllenNLP's grows."""

    def n_nodes(encoder, n_steps: int) -> int:
        mask = torch.arange(n_steps) < torch.tensor([[n_steps], [n_steps - 3]])
        output = encoder(torch.randn(2, n_steps, 7), mask)
        seen, waiting = set(), [output.grad_fn]
        while waiting:
            node = waiting.pop()
            if node is not None and node not in seen:
                seen.add(node)
                waiting += [below for below, _ in node.next_functions]
        return len(seen)

    stock, ours = encoders(bidirectional=True)
    assert n_nodes(stock, 40) > 2 * n_nodes(stock, 10)
    assert n_nodes(ours, 40) == n_nodes(ours, 10)


def test_padding_may_be_anything():
    """With NaN at padding, outputs and gradients are those of AllenNLP, which never reads it."""
    x = torch.randn(*MASK.shape, 7).masked_fill(~MASK.unsqueeze(-1), float("nan"))
    found = []
    for encoder in encoders(bidirectional=True):
        output = encoder(x, MASK)
        output.sum().backward()
        found.append((output, [p.grad for p in encoder.parameters()]))
    expected, ours = found
    torch.testing.assert_close(ours, expected, rtol=1e-5, atol=1e-6)


def test_dropout_is_between_the_layers_only_in_training():
    """With a dropout of almost all numbers, the upper layer reads only zeros, so the output of a
    row does not depend on its input; in evaluation mode it does."""
    _, ours = encoders(num_layers=2, dropout=0.999999)
    x = torch.randn(1, 1, 7)
    mask = torch.ones(1, 1, dtype=torch.bool)
    assert torch.equal(ours(x, mask), ours(-x, mask))
    ours.eval()
    assert not torch.equal(ours(x, mask), ours(-x, mask))


def test_a_stateful_encoder_carries_its_states():
    """A row in two halves, in training mode: AllenNLP's outputs."""
    stock, ours = encoders(stateful=True)
    halves = torch.randn(2, 3, 4, 7)
    mask = torch.ones(3, 4, dtype=torch.bool)
    for half in halves:
        assert torch.equal(ours(half, mask), stock(half, mask))


def test_initial_states_are_read():
    """AllenNLP's output from the same states."""
    stock, ours = encoders()
    x, states = torch.randn(5, 9, 7), tuple(torch.randn(2, 1, 5, 5))
    assert torch.equal(ours(x, MASK, states), stock(x, MASK, states))


def test_an_unknown_parameter_is_an_error():
    """AllenNLP's own error, which names the key."""
    with pytest.raises(ConfigurationError, match="hiden_size"):
        encoders(hiden_size=3)
