"""The token embedder `character_encoding` compared with AllenNLP's own `forward`, its oracle."""

import pytest
import torch
from allennlp.common import Params
from allennlp.modules.seq2vec_encoders import CnnEncoder
from allennlp.modules.token_embedders import TokenEmbedder

from allennlp_today.character_cnn import allennlp_forward

CNN = {"type": "cnn", "embedding_dim": 3, "num_filters": 4, "ngram_filter_sizes": [2, 3]}
LSTM = {"type": "lstm", "input_size": 3, "hidden_size": 4, "num_layers": 2, "dropout": 0.5}
WORDS = torch.tensor([[5, 2, 7, 0, 0], [1, 0, 0, 0, 0], [4, 4, 2, 9, 3], [0, 0, 0, 0, 0]])


def embedder(encoder, dropout=0.0):
    torch.manual_seed(0)
    embedding = {"num_embeddings": 10, "embedding_dim": 3}
    parameters = {"embedding": embedding, "encoder": encoder, "dropout": dropout}
    return TokenEmbedder.from_params(Params({"type": "character_encoding", **parameters}))


@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_outputs_and_gradients_are_allennlps(dropout):
    """Words that occur several times, and padding: the same vectors, with the same numbers dropped
    from the same random state, and the same gradients except for rounding."""
    ours = embedder(dict(CNN), dropout)
    batch = WORDS[[0, 1, 0, 3, 3, 3, 2, 2, 0, 1, 2, 3]].view(2, 6, 5)
    upstream = torch.randn(2, 6, 8)
    found = []
    for forward in (allennlp_forward, type(ours).forward):
        ours.zero_grad()
        torch.manual_seed(1)
        output = forward(ours, batch)
        (output * upstream).sum().backward()
        found.append((output, [p.grad.clone() for p in ours.parameters()]))
    torch.testing.assert_close(found[1], found[0])


def test_each_distinct_word_is_computed_once():
    """The encoder sees four words of a batch of twelve."""
    ours = embedder(dict(CNN))
    seen = []
    ours._encoder.register_forward_hook(lambda _, inputs, output: seen.append(output.shape))
    ours(WORDS.repeat(3, 1).view(2, 6, 5))
    assert seen == [(1, 4, 8)]


def test_dropout_inside_the_encoder_differs_between_occurrences():
    """A word that occurs twice has two vectors in training mode, as with AllenNLP."""
    ours = embedder(dict(LSTM))
    first, second = ours(WORDS[[2, 2]].unsqueeze(0))[0]
    assert not torch.equal(first, second)


class NoisyCnn(CnnEncoder):
    def forward(self, tokens, mask):
        return torch.nn.functional.dropout(super().forward(tokens, mask))


def test_a_class_that_extends_the_encoder_sees_every_word():
    """It may have dropout of its own, so that two occurrences of a word have two vectors."""
    ours = embedder(dict(CNN))
    torch.manual_seed(0)
    ours._encoder._module.__class__ = NoisyCnn
    first, *others = ours(WORDS[[2] * 10].unsqueeze(0))[0]
    assert not all(torch.equal(first, other) for other in others)
