import pytest
import torch
from allennlp.common import Params
from allennlp.modules.seq2seq_encoders import PassThroughEncoder, Seq2SeqEncoder
from torch import nn

from elmo_plugin.checks import InputError
from elmo_plugin.plugin import elmo_output
from elmo_plugin.plugin.elmo_output import ElmoOutputEncoder, PassElmo

MASK = torch.tensor([[True, True, True], [True, False, False]])


@pytest.mark.parametrize("start", [0, 2, 5])
def test_columns(start):
    """The expected output has the output of the wrapped encoder and then the columns of the second
    mix, wherever they were in the input, with zeros at padding."""
    rest, elmo = torch.randn(2, 3, 5), torch.randn(2, 3, 4)
    encoder = ElmoOutputEncoder(PassThroughEncoder(5), elmo_dim=4, start=start)
    embedded = torch.cat([rest[..., :start], elmo, rest[..., start:]], dim=-1)
    expected = torch.cat([rest, elmo], dim=-1) * MASK.unsqueeze(-1)
    assert torch.equal(encoder(embedded, MASK), expected)
    assert torch.equal(encoder(embedded), torch.cat([rest, elmo], dim=-1))


def test_sizes_are_those_of_the_wrapped_encoder():
    """The expected sizes are those of the wrapped LSTM and 4 more on both sides, and it is
    bidirectional too. Each half of its output is followed by that half of the second mix."""
    params = {"type": "lstm", "input_size": 5, "hidden_size": 3, "bidirectional": True}
    encoder = Seq2SeqEncoder.from_params(
        Params({"type": "elmo_output", "encoder": dict(params), "elmo_dim": 4, "start": 5})
    )
    assert (encoder.get_input_dim(), encoder.get_output_dim()) == (9, 10)
    assert encoder.is_bidirectional()
    inputs = torch.randn(2, 3, 9)
    output = encoder(inputs, MASK)
    assert output.shape == (2, 3, 10)
    wrapped = Seq2SeqEncoder.from_params(Params(params))
    state = {name.removeprefix("_encoder."): x for name, x in encoder.state_dict().items()}
    wrapped.load_state_dict(state)
    encoded, elmo = wrapped(inputs[..., :5], MASK), inputs[..., 5:] * MASK.unsqueeze(-1)
    forward = [encoded[..., :3], elmo[..., :2]]
    backward = [encoded[..., 3:], elmo[..., 2:]]
    torch.testing.assert_close(output, torch.cat(forward + backward, dim=-1))


def test_a_stateful_encoder_is_reset():
    """AllenNLP resets a stateful encoder through the outermost one. After that the first output
    comes again."""
    params = {"type": "lstm", "input_size": 5, "hidden_size": 3, "stateful": True}
    encoder = ElmoOutputEncoder(Seq2SeqEncoder.from_params(Params(params)), elmo_dim=4, start=5)
    inputs = torch.randn(2, 3, 9)
    first, carried = encoder(inputs, MASK), encoder(inputs, MASK)
    assert encoder.stateful
    encoder.reset_states()
    assert torch.equal(encoder(inputs, MASK), first)
    assert not torch.equal(carried, first)


def test_sizes_that_do_not_fit():
    """The message has the numbers that do not fit."""
    with pytest.raises(InputError, match=r"start: expected .*, found 6"):
        ElmoOutputEncoder(PassThroughEncoder(5), elmo_dim=4, start=6)
    lstm = {"type": "lstm", "input_size": 5, "hidden_size": 3, "bidirectional": True}
    with pytest.raises(InputError, match=r"elmo_dim: expected an even number.*found 3"):
        ElmoOutputEncoder(Seq2SeqEncoder.from_params(Params(lstm)), elmo_dim=3, start=5)
    encoder = ElmoOutputEncoder(PassThroughEncoder(5), elmo_dim=4, start=5)
    with pytest.raises(InputError, match=r"expected 9 columns.*found 5"):
        encoder(torch.zeros(2, 3, 5), MASK)


class Negate(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return -inputs[..., :2]


def test_columns_that_pass_a_layer():
    """By hand: the module reads columns 0, 3 and 6; the others follow its output in the order in
    which they were named. Then two columns of the module, and the four of ELMo, pass a second
    layer."""
    layer = PassElmo(Negate(), [[4, 6], [1, 3]])
    assert layer(torch.arange(7.0)).tolist() == [-0.0, -3.0, 4.0, 5.0, 1.0, 2.0]
    layers = nn.Sequential(layer, PassElmo(Negate(), [[2, 6]]))
    assert layers(torch.arange(7.0)).tolist() == [0.0, 3.0, 4.0, 5.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "columns", [[], None, [[4]], [[4, 6], [5, 7]], [[4, 8]], [["4", "6"]], [[4.7, 6]], [[6, 4]]]
)
def test_columns_that_are_refused(columns):
    """Of seven columns, pairs of whole numbers that do not overlap are right."""
    elmo_output._check_columns([[4, 6], [1, 3]], 7)
    with pytest.raises(InputError, match="elmo_columns: expected pairs of a first column"):
        elmo_output._check_columns(columns, 7)
