"""The encoder `lstm` compared with AllenNLP's own class, which is the oracle throughout."""

import pytest
import torch
import torch.nn.utils.prune
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.confidence_checks.normalization_bias_verification import NormalizationBiasVerification
from allennlp.modules.seq2seq_encoders import LstmSeq2SeqEncoder, Seq2SeqEncoder
from torch import nn

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
    weights and inputs agree in fp32, with NaN at padding. Evaluation is AllenNLP's own."""
    parameters = {"num_layers": num_layers, "bidirectional": bidirectional, "bias": bias}
    stock, ours = encoders(**parameters)
    x = torch.randn(*MASK.shape, 7).masked_fill(~MASK.unsqueeze(-1), float("nan"))
    upstream = torch.randn(len(MASK), MASK.shape[1], 5 * (1 + bidirectional))
    found = []
    for encoder in (stock, ours):
        inputs = x.clone().requires_grad_()
        output = encoder(inputs, MASK)
        (output * upstream).sum().backward()
        gradients = {name: p.grad for name, p in encoder.named_parameters()}
        with torch.no_grad():
            encoder.eval()
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


@pytest.mark.parametrize(
    "change",
    [
        lambda lstm: nn.utils.parametrizations.weight_norm(lstm, "weight_hh_l0"),
        lambda lstm: nn.utils.spectral_norm(lstm, "weight_hh_l0"),
        lambda lstm: nn.utils.prune.l1_unstructured(lstm, "weight_hh_l0", 0.5),
        lambda lstm: lstm.register_forward_hook(
            lambda _, __, found: (found[0]._replace(data=2 * found[0].data), found[1])
        ),
        lambda lstm: lstm.register_parameter("weight_hh_l0", nn.Parameter(torch.ones(20, 5))),
    ],
)
def test_a_changed_module_trains_as_allennlps(change):
    """The losses of three steps, with other weights or outputs than those of `nn.LSTM`."""
    losses = []
    for encoder in encoders():
        torch.manual_seed(1)
        change(encoder._module)
        x = torch.randn(*MASK.shape, 7, requires_grad=True)
        optimizer = torch.optim.SGD([x, *encoder.parameters()], lr=0.1)
        found = []
        for _ in range(3):
            loss = encoder(x, MASK).square().sum()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            found.append(float(loss.detach()))
        losses.append(found)
    assert losses[1] == pytest.approx(losses[0], rel=1e-4) and losses[0][0] != losses[0][2]


def test_long_rows_are_padded_sooner():
    """The share of tokens is a third, at which packing is faster for a few steps of many cells, and
    slower for many steps of few cells."""
    for n_steps, hidden_size, is_padded in ((300, 5, True), (12, 300, False)):
        _, ours = encoders(hidden_size=hidden_size)
        mask = torch.arange(n_steps) < torch.tensor([[n_steps], [1], [1]])
        assert ours._reads_padded(torch.randn(*mask.shape, 7), mask) is is_padded


def test_confidence_checks_leave_the_lstm_without_a_hook():
    """With one, the first batches of a run, in which AllenNLP's trainer sets hooks, would be packed
    and the others padded."""
    _, ours = encoders()
    NormalizationBiasVerification(ours).register_hooks()
    assert not ours._module._forward_hooks


def test_a_gradient_checkpoint_has_one_dropout():
    """In training mode, the pass without a gradient and the one with it have the same dropout."""
    _, ours = encoders(num_layers=2, dropout=0.5)
    x = torch.randn(*MASK.shape, 7)
    outputs = []
    for has_gradient in (False, True):
        torch.manual_seed(3)
        with torch.set_grad_enabled(has_gradient):
            outputs.append(ours(x, MASK).detach())
    torch.testing.assert_close(*outputs)


def test_dropout_is_between_the_layers_only_in_training():
    """With a dropout of almost all numbers, the upper layer reads only zeros, so the output of a
    row does not depend on its input; in evaluation mode it does."""
    _, ours = encoders(num_layers=2, dropout=0.999999)
    x = torch.randn(1, 1, 7)
    mask = torch.ones(1, 1, dtype=torch.bool)
    assert torch.equal(ours(x, mask), ours(-x, mask))
    ours.eval()
    assert not torch.equal(ours(x, mask), ours(-x, mask))


X = torch.randn(5, 9, 7)
HOLES = torch.arange(9) != torch.tensor([[3], [5], [8], [2], [4]])
SPARSE = torch.tensor([[20], *[[1]] * 49])


def in_evaluation_mode(encoder):
    encoder._module.eval()
    return torch.cat([encoder(X, MASK), encoder(X, None)], dim=1)


def under_autocast(encoder):
    with torch.autocast("cpu", torch.bfloat16):
        return encoder(X, MASK)


def of_a_packed_batch(encoder):
    packed = nn.utils.rnn.pack_sequence([torch.randn(3, 7), torch.randn(2, 7)])
    return encoder(packed, None).data


@pytest.mark.parametrize(
    ("parameters", "output"),
    [
        ({}, lambda encoder: encoder(torch.randn(5, 8, 7), MASK)),
        ({}, lambda encoder: encoder(torch.randn(5, 10, 7), MASK)),
        ({}, lambda encoder: encoder(X, HOLES)),
        ({}, lambda encoder: encoder(X, MASK.float())),
        ({}, lambda encoder: encoder(torch.randn(50, 20, 7), torch.arange(20) < SPARSE)),
        ({}, lambda encoder: encoder(X, MASK, tuple(torch.randn(2, 1, 5, 5)))),
        ({"stateful": True}, lambda encoder: [encoder(X, MASK), encoder(-X, MASK)][1]),
        ({"num_layers": 2, "dropout": 0.5}, in_evaluation_mode),
        ({"bidirectional": True}, of_a_packed_batch),
        ({}, under_autocast),
    ],
)
def test_other_calls_are_computed_by_allennlp(parameters, output):
    """The same dtype and bits as AllenNLP's in training, for masks of another length, with holes,
    of floats or with few tokens, which pack better, and for given states."""
    found = []
    for encoder in encoders(**parameters):
        torch.manual_seed(1)
        found.append(output(encoder))
    assert found[0].dtype == found[1].dtype and torch.equal(*found)


def test_functional_call_uses_its_weights():
    """AllenNLP's output, with weights that the module does not have."""
    outputs = []
    for encoder in encoders():
        weights = {name: 2 * p.detach() for name, p in encoder.named_parameters()}
        outputs.append(torch.func.functional_call(encoder, weights, (X, MASK)))
    torch.testing.assert_close(*outputs)


def test_an_unknown_parameter_is_an_error():
    """AllenNLP's own error, which names the key."""
    with pytest.raises(ConfigurationError, match="hiden_size"):
        encoders(hiden_size=3)
