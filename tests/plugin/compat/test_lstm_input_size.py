import pytest
import torch
from allennlp.common import Params
from allennlp.modules import Seq2SeqEncoder, Seq2VecEncoder

from elmo_plugin.checks import InputError


@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("size", [6, 700])
@pytest.mark.parametrize("kind", [Seq2SeqEncoder, Seq2VecEncoder])
def test_inputs_of_another_size_are_an_error(kind, size, is_training):
    """If all rows are equally long, AllenNLP's own encoders give numbers, from other memory."""
    encoder = kind.from_params(Params({"type": "lstm", "input_size": 7, "hidden_size": 5}))
    encoder.train(is_training)
    mask = torch.ones(5, 9, dtype=torch.bool)
    with pytest.raises(InputError, match=f"lstm: input_size: expected {size}, .* found 7"):
        encoder(torch.randn(5, 9, size), mask)
    assert len(encoder(torch.randn(5, 9, 7), mask)) == 5
