import pytest
import torch
from allennlp.modules import ScalarMix as StockScalarMix

from elmo_plugin.modules import ScalarMix
from tests.compare import assert_close


def mixes(do_layer_norm):
    """AllenNLP's mix and ours with the same random numbers."""
    torch.manual_seed(0)
    stock, ours = StockScalarMix(3, do_layer_norm), ScalarMix(3, do_layer_norm)
    for parameter in stock.parameters():
        torch.nn.init.normal_(parameter)
    ours.load_state_dict(stock.state_dict())
    return stock, ours


@pytest.mark.parametrize("do_layer_norm", [False, True])
def test_mix_is_stock(do_layer_norm):
    """The oracle is AllenNLP's `ScalarMix` with the same numbers, whose parameters have the same
    names, by which regularizers find them. Compared are values and gradients, for batches with
    padding."""
    stock, ours = mixes(do_layer_norm)
    layers = [torch.randn(2, 5, 4, requires_grad=True) for _ in range(3)]
    mask = torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    weight = torch.randn(2, 5, 4)
    results = []
    for mix in (ours, stock):
        mixed = mix(layers, mask if do_layer_norm else None)
        wanted = [*mix.parameters(), *layers]
        results.append([mixed, *torch.autograd.grad((mixed * weight).sum(), wanted)])
    for found, expected in zip(*results, strict=True):
        assert_close(found, expected, atol=1e-5, what="values or gradient")


def test_layer_norm_by_sentence_is_that_of_batches_of_one():
    """The oracle is AllenNLP's `ScalarMix` for each sentence alone, and its gradient. An empty
    sentence in the batch changes nothing."""
    stock, ours = mixes(do_layer_norm=True)
    layers = [torch.randn(3, 5, 4, requires_grad=True) for _ in range(3)]
    mask = torch.tensor([[True] * 5, [True] * 2 + [False] * 3, [False] * 5])
    found = ours(layers, mask, by_sentence=True)[:2]
    expected = torch.cat([stock([h[b : b + 1] for h in layers], mask[b : b + 1]) for b in (0, 1)])
    real, weight = mask[:2, :, None], torch.randn(2, 5, 4)
    results = [
        [x * real, *torch.autograd.grad((x * real * weight).sum(), layers)]
        for x in (found, expected)
    ]
    for x, y in zip(*results):
        assert_close(x, y, what="values or gradient", atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_layer_norm_in_half_precision(dtype):
    """The expected values are those of the same numbers in fp32. Their count exceeds the largest
    number in float16, 65,504."""
    torch.manual_seed(0)
    layer = (3 * torch.randn(4, 200, 100) + 1).to(dtype)
    mask = torch.ones(4, 200, dtype=torch.bool)
    expected = ScalarMix(1, do_layer_norm=True)([layer.float()], mask)
    found = ScalarMix(1, do_layer_norm=True).to(dtype)([layer], mask)
    assert found.dtype == dtype
    assert_close(found.float(), expected.to(dtype).float(), atol=0, what="normalized")


@pytest.mark.parametrize("number, has_tokens", [(7.0, True), (0.0, False)])
def test_a_layer_without_variance_is_zeros(number, has_tokens):
    """That follows from the definition of the mean. Neither values nor gradients are NaN, with
    which a batch without tokens, whose layers are zeros, would end a training run."""
    mix = ScalarMix(2, do_layer_norm=True)
    layers = [torch.full((1, 2, 3), number, requires_grad=True) for _ in "ab"]
    mixed = mix(layers, torch.full((1, 2), has_tokens))
    assert not mixed.any()
    for gradient in torch.autograd.grad(mixed.sum(), [*layers, *mix.parameters()]):
        assert gradient.isfinite().all()


@pytest.mark.parametrize("trainable", [False, True])
def test_weights_can_be_given_and_frozen(trainable):
    """With weights so far apart softmax selects the second layer, which is how a config chooses one
    layer. Frozen weights are not trained. Without any, the weights are equal, and gamma is 1."""
    layers = [torch.tensor([[[1.0]]]), torch.tensor([[[4.0]]])]
    mix = ScalarMix(2, initial_scalar_parameters=[-9e10, 1.0], trainable=trainable)
    assert mix(layers).item() == 4.0
    assert all(parameter.requires_grad == trainable for parameter in mix.parameters())
    assert ScalarMix(2)(layers).item() == 2.5


def test_bad_arguments_are_refused():
    """Each message has what was expected and what was found."""
    with pytest.raises(ValueError, match=r"expected 3 numbers, .*, found 2"):
        ScalarMix(3, initial_scalar_parameters=[0.0, 0.0])
    with pytest.raises(ValueError, match="layers: expected 3 tensors, found 1"):
        ScalarMix(3)([torch.zeros(1, 1, 1)])
    with pytest.raises(ValueError, match="mask: expected one with do_layer_norm"):
        ScalarMix(1, do_layer_norm=True)([torch.zeros(1, 1, 1)])


@pytest.mark.parametrize("do_layer_norm", [False, True])
def test_top_only(do_layer_norm):
    """Expected: AllenNLP's mix with all weight on the top layer; and only gamma is learned, which
    scales the vectors."""
    torch.manual_seed(0)
    layers = [torch.randn(2, 5, 4) for _ in range(3)]
    mask = torch.ones(2, 5, dtype=torch.bool)
    stock = StockScalarMix(3, do_layer_norm, initial_scalar_parameters=[-1e9, -1e9, 0.0])
    mix = ScalarMix(3, do_layer_norm, use_top_only=True)
    assert_close(mix(layers, mask), stock(layers, mask), atol=1e-5, what="top")
    assert [name for name, _ in mix.named_parameters()] == ["gamma"]
    mix.gamma.data.fill_(2.0)
    assert_close(mix(layers, mask), 2 * stock(layers, mask), atol=1e-5, what="gamma")
    with pytest.raises(ValueError, match="expected 3 tensors, found 2"):
        mix(layers[:2], mask)
