"""The compiled kernel of the convolutions compared with their definition."""

from itertools import chain

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.ops import backend, char_conv
from elmo_plugin.ops.char_conv import convolution_tables, frozen_convolve, max_of_convolutions
from elmo_plugin.ops.char_conv.reference import reference_max_of_convolutions
from tests.compare import assert_close
from tests.conftest import needs_kernel, threads

pytestmark = needs_kernel


@pytest.fixture(autouse=True)
def only_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(char_conv.torch_ops, "_best_windows_of", None)


def random_case(random) -> tuple[Tensor, Tensor, list[tuple[Tensor, Tensor]]]:
    """Arguments of `max_of_convolutions`: usual widths and others, numbers of filters below and
    above a block, words with and without padding."""
    torch.manual_seed(random.randrange(1000))
    n_characters, dim, length = random.choice([2, 262]), random.choice([1, 16]), 12
    characters = torch.randint(n_characters, (random.choice([1, 3, 40]), length))
    for word in characters[::2]:
        word[random.randrange(length) :] = n_characters - 1
    sizes = [(random.choice([1, 2, 5, 7, 9, 12]), random.choice([1, 63, 64, 100])) for _ in "abc"]
    convolutions = [(torch.randn(n, dim, width), torch.randn(n)) for width, n in sizes]
    return characters, torch.randn(n_characters, dim), convolutions


def is_close_to_another(characters, embedding, convolutions) -> torch.Tensor:
    """Whether the maximum of a word and a filter is almost that of a different window."""
    x = F.embedding(characters, embedding.double()).transpose(1, 2)
    y = [F.conv1d(x, weight.double(), bias.double()) for weight, bias in convolutions]
    gaps = [one.amax(dim=2, keepdim=True) - one for one in y]
    return torch.cat([((gap > 1e-9) & (gap < 1e-4)).any(dim=2) for gap in gaps], dim=1)


def sizes_of_sums(characters, embedding, convolutions, d_maxima) -> list[torch.Tensor]:
    """The sum of the absolute terms of each maximum and of each gradient, by the same equation for
    absolute numbers at the windows of the maxima."""
    own = [x.double().abs().requires_grad_() for x in (embedding, *chain(*convolutions))]
    words = F.embedding(characters, embedding.double()).transpose(1, 2)
    sizes = F.embedding(characters, own[0], padding_idx=0).transpose(1, 2)
    maxima = []
    for (weight, bias), *pair in zip(convolutions, own[1::2], own[2::2]):
        at = F.conv1d(words, weight.double(), bias.double()).argmax(dim=2, keepdim=True)
        maxima.append(F.conv1d(sizes, *pair).gather(2, at)[:, :, 0])
    found = torch.cat(maxima, dim=1)
    return [found.detach(), *torch.autograd.grad(found, own, d_maxima.double().abs())]


def test_frozen_convolutions_choose_at_each_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without kernels PyTorch's operators compute, of which this file has removed one. A benchmark
    compares both ways with the same frozen convolutions."""
    embedding, convolutions = torch.nn.Embedding(262, 4), [torch.nn.Conv1d(4, 8, 2)]
    convolve = frozen_convolve(embedding, convolutions)
    characters = torch.ones(3, 12, dtype=torch.long)
    assert convolve(characters).shape == (3, 8)
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    with pytest.raises(TypeError, match="'NoneType' object is not callable"):
        convolve(characters)


def test_random_shapes(fuzz):
    """Expected: `Conv1d` over the embedded characters in double precision, and its gradients by
    autograd. Windows that share a maximum read the same characters, so that their gradients are the
    same; a maximum that rounding may give to another window has none. A number is the sum of up to
    50,000 terms, which may cancel: the error of fp32, 2^-24 for each addition, is a share of the
    sum of their absolute values. It was at most 5 x 2^-24 in thousands of cases, and may be 16."""
    for random in fuzz.cases(30):
        characters, embedding, convolutions = random_case(random)
        weights = [embedding, *(x for pair in convolutions for x in pair)]
        d_maxima = torch.randn(len(characters), sum(len(bias) for _, bias in convolutions))
        d_maxima[is_close_to_another(characters, embedding, convolutions)] = 0
        results = []
        for f, dtype in (
            (max_of_convolutions, torch.float32),
            (reference_max_of_convolutions, torch.float64),
        ):
            e, *rest = (w.to(dtype).requires_grad_() for w in weights)
            maxima = f(characters, e, list(zip(rest[::2], rest[1::2])))
            gradients = torch.autograd.grad(maxima, [e, *rest], d_maxima.to(dtype))
            results.append([maxima, *gradients])
        sizes = sizes_of_sums(characters, embedding, convolutions, d_maxima)
        for found, expected, size in zip(*results, sizes):
            assert ((found - expected).abs() <= 2**-20 * size).all()


def test_the_number_of_threads_does_not_matter(fuzz):
    """Maxima and gradients of the same tables by one thread and by three are the same bits. (A
    product of matrices, as the tables are, may round differently.)"""
    compiled = torch.ops.elmo_plugin
    for random in fuzz.cases(3):
        characters, embedding, convolutions = random_case(random)
        tables = convolution_tables([embedding, *(weight for weight, _ in convolutions)])
        results = []
        for n in (1, 3):
            with threads(n):
                maxima, at = compiled.best_windows(characters, tables, True)
                results.append([maxima, *compiled.table_gradients(maxima, characters, at, tables)])
        assert all(map(torch.equal, *results))


def test_not_a_number_stays():
    """A maximum over windows of which one is NaN is NaN, as that of PyTorch, in every position."""
    characters = torch.tensor([[1, 2, 3, 4, 5]])
    for bad in range(1, 6):
        embedding = torch.eye(7)
        embedding[bad] = torch.nan
        convolutions = [
            (torch.ones(2, 7, 1), torch.zeros(2)),
            (torch.ones(65, 7, 3), torch.ones(65)),
        ]
        assert max_of_convolutions(characters, embedding, convolutions).isnan().all()


@pytest.mark.parametrize("character", [-1, 7])
def test_characters_are_checked(character):
    """An id without a row is an error, as it is for `Embedding`, and never a read elsewhere."""
    characters = torch.tensor([[1, character, 3]])
    with pytest.raises(IndexError, match="expected ids from 0 to 6"):
        max_of_convolutions(characters, torch.eye(7), [(torch.ones(2, 7, 2), torch.zeros(2))])


def test_a_lexicon_costs_what_its_characters_in_a_batch_cost():
    """Expected: the numbers and gradients of the reference. What is saved for the gradient is less
    than a hundredth of the tables of all 6,000 characters."""
    torch.manual_seed(0)
    characters = torch.tensor([[5, 5999, 7, 0, 0], [5, 512, 5999, 7, 0]])
    weights = [torch.randn(6000, 4), torch.randn(64, 4, 2), torch.randn(64)]
    results, saved = [], []
    for f, dtype in (
        (max_of_convolutions, torch.float32),
        (reference_max_of_convolutions, torch.float64),
    ):
        e, *pair = (w.to(dtype).requires_grad_() for w in weights)
        saved.append(0)

        def count(x):
            saved[-1] += x.nbytes
            return x

        with torch.autograd.graph.saved_tensors_hooks(count, lambda x: x):
            maxima = f(characters, e, [tuple(pair)])
        results.append([maxima, *torch.autograd.grad(maxima.sum(), [e, *pair])])
    for found, expected in zip(*results):
        assert_close(found, expected.float(), atol=1e-5, what="maxima or gradients")
    assert 0 < saved[0] < 6000 * 64 * 2 * 4 / 100
    for character in (-1, 6000):
        with pytest.raises(IndexError):
            max_of_convolutions(characters * 0 + character, weights[0], [weights[1:]])


def test_longer_words_take_the_other_path():
    """Positions of windows fit a byte in words of 256 characters, and not in longer ones."""
    convolutions = [(torch.randn(4, 3, 2), torch.zeros(4))]
    for length, error in ((256, None), (257, TypeError)):
        arguments = torch.randint(9, (2, length)), torch.randn(9, 3), convolutions
        if error is None:
            expected = reference_max_of_convolutions(*arguments)
            assert_close(max_of_convolutions(*arguments), expected, atol=1e-5, what="maxima")
        else:
            with pytest.raises(error):  # `only_the_kernel` has taken it away
                max_of_convolutions(*arguments)
