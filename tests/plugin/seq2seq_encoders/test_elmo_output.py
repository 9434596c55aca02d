import pytest
import torch
from allennlp.common import Params
from allennlp.modules.seq2seq_encoders import PassThroughEncoder, Seq2SeqEncoder

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.seq2seq_encoders.elmo_output import ElmoOutputEncoder

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
