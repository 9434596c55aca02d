import numpy as np
import pytest
import torch

from elmo_plugin.modules import CharCNN
from elmo_plugin.modules.char_cnn import Highway
from elmo_plugin.text.characters import words_to_characters
from tests.compare import assert_close
from tests.oracle import sigmoid
from tests.random_bilm import randomize


def char_cnn(activation: str = "relu") -> CharCNN:
    torch.manual_seed(0)
    cnn = CharCNN(
        n_characters=262,
        embedding_dim=4,
        filters=[[1, 5], [2, 6], [3, 7]],
        n_highway=1,
        projection_dim=5,
        activation=activation,
    )
    randomize(cnn)
    return cnn


@pytest.mark.parametrize("character", [-1, 262])
@pytest.mark.usefixtures("lstm_path")
def test_characters_are_checked(character):
    """An id without a row is an error, as it is for `Embedding`, whose message it is on a GPU."""
    with pytest.raises(IndexError, match=r"expected ids from 0 to 261|out of range"):
        char_cnn().convolve(torch.tensor([[1, 2, character, 3]]))


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_order_neighbors_and_integer_type_do_not_matter(activation):
    """A word's vector is the same alone, in any batch, and from int16 ids."""
    cnn = char_cnn(activation)
    words = [*("x" * n for n in range(15)), "naïve", "🙂", "the"]
    characters = torch.from_numpy(words_to_characters(words, 12))
    assert characters.dtype == torch.int16
    together = cnn(characters)
    assert torch.equal(together, cnn(characters.long()))
    assert_close(cnn(characters.flip(0)).flip(0), together, atol=1e-5, what="reversed")
    for row, word in enumerate(words):
        assert_close(cnn(characters[row : row + 1])[0], together[row], atol=1e-5, what=word)


@pytest.mark.parametrize("has_hook", [False, True])
@pytest.mark.usefixtures("lstm_path")
def test_no_word_learns_nothing(has_hook):
    """The row of zeros gets no gradient, as with PyTorch's `padding_idx`, and others do. With
    hooks, PyTorch's own modules compute it, and all of their hooks are called."""
    cnn, seen = char_cnn(), []
    parts = [cnn.char_embedding, *cnn.convolutions]
    for part in parts if has_hook else []:
        part.register_full_backward_hook(lambda module, *_: seen.append(module))
    cnn(torch.tensor([[0, 5, 0, 0, 7, 9]])).sum().backward()
    gradient = cnn.char_embedding.weight.grad
    assert not gradient[0].any() and gradient[[5, 7, 9]].any()
    assert set(seen) == set(parts if has_hook else [])


def test_initial_values_are_bilm_tfs():
    """The expected distributions are bilm-tf's, compared by bounds and variances: U(-1, 1) for
    characters, U(-0.05, 0.05) for convolutions with relu and N(0, 1 / (w c)) with tanh, N(0, 1 / F)
    for the projection and for both matrices of a highway, and 0 for biases, except -2 for a
    highway's gate, so that most of the input passes at first."""
    torch.manual_seed(0)
    sizes = {"n_characters": 262, "embedding_dim": 16, "n_highway": 1, "projection_dim": 64}
    relu = CharCNN(filters=[[3, 400]], activation="relu", **sizes)
    tanh = CharCNN(filters=[[3, 400]], activation="tanh", **sizes)
    assert 0.99 < relu.char_embedding.weight.abs().max() <= 1
    assert not relu.char_embedding.weight[0].any()
    (conv,), (of_tanh,), (highway,) = relu.convolutions, tanh.convolutions, relu.highways
    assert 0.0499 < conv.weight.abs().max() <= 0.05
    for part, deviation, bias in (
        (of_tanh, (3 * 16) ** -0.5, 0.0),
        (relu.projection, 400**-0.5, 0.0),
        (highway.transform, 400**-0.5, 0.0),
        (highway.carry, 400**-0.5, -2.0),
    ):
        assert_close(part.weight.std(), deviation, atol=0, rtol=0.03, what=f"{part}")
        assert (part.bias == bias).all()
    assert not conv.bias.any()


def test_unknown_activation_is_named():
    """The message names the parameter, what was expected and what was found."""
    with pytest.raises(ValueError, match=r"^activation: .*'relu', 'tanh', found 'gelu'$"):
        char_cnn("gelu")


def test_highway_is_its_equation():
    """The expected values are those of bilm-tf's equation in NumPy, y = s relu(x Wt + bt) + (1 - s)
    x, in which the gate `carry` belongs to the transformed part."""
    torch.manual_seed(0)
    highway = Highway(dim=6).double()
    randomize(highway, std=1)
    x = torch.randn(3, 4, 6).double()
    given, w_t, b_t, w_c, b_c = (
        tensor.detach().numpy()
        for tensor in (x, *highway.transform.parameters(), *highway.carry.parameters())
    )
    s = sigmoid(given @ w_c.T + b_c)
    expected = s * np.maximum(given @ w_t.T + b_t, 0) + (1 - s) * given
    assert_close(highway(x), expected, atol=1e-5, what="highway")
