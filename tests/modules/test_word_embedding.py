import torch

from elmo_plugin.modules import WordEmbedding


def test_a_word_is_its_row():
    """By definition, for any integer type; id 0 is "no word", zeros that learn nothing."""
    torch.manual_seed(0)
    embedding = WordEmbedding(n_words=5, projection_dim=3)
    words = torch.tensor([4, 0, 1], dtype=torch.int32)
    vectors = embedding(words)
    assert torch.equal(vectors, embedding.embedding.weight[[4, 0, 1]])
    assert not vectors[1].any()
    vectors.sum().backward()
    assert embedding.embedding.weight.grad.sum(dim=1).tolist() == [0, 3, 0, 0, 3]


def test_initial_values_are_bilm_tfs():
    """Expected: U(-1, 1), whose variance is 1 / 3."""
    torch.manual_seed(0)
    weight = WordEmbedding(n_words=1001, projection_dim=16).embedding.weight[1:]
    assert 0.999 < weight.abs().max() <= 1
    assert abs(weight.var() - 1 / 3) < 0.01
