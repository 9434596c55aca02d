import torch

from elmo_plugin.modules import WordEmbedding


def test_a_word_is_its_row():
    """By definition, a word's vector is its row, for any integer type. Id 0 is "no word", which has
    zeros and no gradient."""
    torch.manual_seed(0)
    embedding = WordEmbedding(n_words=5, projection_dim=3)
    words = torch.tensor([4, 0, 1], dtype=torch.int32)
    vectors = embedding(words)
    assert torch.equal(vectors, embedding.embedding.weight[[4, 0, 1]])
    assert not vectors[1].any()
    vectors.sum().backward()
    assert embedding.embedding.weight.grad.sum(dim=1).tolist() == [0, 3, 0, 0, 3]


def test_initial_values_are_bilm_tfs():
    """The expected distribution is TensorFlow's default for `tf.get_variable` without an
    initialiser, as in bilm-tf: Glorot uniform over the table of V = 1000 words and P = 16."""
    torch.manual_seed(0)
    weight = WordEmbedding(n_words=1001, projection_dim=16).embedding.weight
    bound = (6 / (1000 + 16)) ** 0.5
    assert 0.999 * bound < weight.abs().max() <= bound
    assert abs(weight[1:].var() / (bound**2 / 3) - 1) < 0.02
    assert not weight[0].any()
