import pytest
import torch
from allennlp.modules import ScalarMix as StockScalarMix
from allennlp.nn import RegularizerApplicator
from allennlp.nn.regularizers import L2Regularizer

from elmo_plugin.modules import ScalarMix
from tests.compare import assert_close


@pytest.mark.parametrize("do_layer_norm", [False, True])
def test_mix_is_stock(do_layer_norm):
    """The oracle is AllenNLP's `ScalarMix` with the same numbers, whose parameters have the same
    names. Compared are values and gradients, for batches with padding."""
    torch.manual_seed(0)
    stock, ours = StockScalarMix(3, do_layer_norm), ScalarMix(3, do_layer_norm)
    for parameter in stock.parameters():
        torch.nn.init.normal_(parameter)
    ours.load_state_dict(stock.state_dict())
    layers = [torch.randn(2, 5, 4, requires_grad=True) for _ in range(3)]
    mask = torch.tensor([[True] * 5, [True] * 2 + [False] * 3])
    weight = torch.randn(2, 5, 4)
    results = []
    for mix in (ours, stock):
        mixed = mix(layers, mask if do_layer_norm else None)
        wanted = [*mix.parameters(), *layers]
        results.append([mixed, *torch.autograd.grad((mixed * weight).sum(), wanted)])
    names = ["values", *(name for name, _ in ours.named_parameters()), "h_0", "h_1", "h_2"]
    for name, found, expected in zip(names, *results, strict=True):
        assert_close(found, expected, atol=1e-5, what=name)


def test_layer_norm_by_sentence_is_that_of_batches_of_one():
    """The oracle is AllenNLP's `ScalarMix` for each sentence alone, and its gradient. An empty
    sentence in the batch changes nothing."""
    torch.manual_seed(0)
    stock, ours = StockScalarMix(3, True), ScalarMix(3, True)
    for parameter in stock.parameters():
        torch.nn.init.normal_(parameter)
    ours.load_state_dict(stock.state_dict())
    layers = [torch.randn(3, 5, 4, requires_grad=True) for _ in range(3)]
    mask = torch.tensor([[True] * 5, [True] * 2 + [False] * 3, [False] * 5])
    mixed = ours(layers, mask, by_sentence=True)
    expected = torch.cat([stock([h[b : b + 1] for h in layers], mask[b : b + 1]) for b in (0, 1)])
    assert_close(mixed[:2] * mask[:2, :, None], expected * mask[:2, :, None], what="mix", atol=1e-5)
    weight = torch.randn(2, 5, 4) * mask[:2, :, None]
    found = torch.autograd.grad((mixed[:2] * weight).sum(), layers)
    for k, gradient in enumerate(torch.autograd.grad((expected * weight).sum(), layers)):
        assert_close(found[k], gradient, what=f"gradient of h_{k}", atol=1e-5)


def test_layer_norm_is_over_all_real_numbers():
    """The numbers 1, 3 | 5, 7 have the mean 4 and the variance 5. The padding's 100 does not count,
    and the weight of the only layer is 1."""
    mix = ScalarMix(1, do_layer_norm=True)
    layer = torch.tensor([[[1.0, 3.0], [5.0, 7.0], [100.0, 100.0]]])
    mixed = mix([layer], torch.tensor([[True, True, False]]))
    expected = (torch.tensor([[1.0, 3.0], [5.0, 7.0]]) - 4) / 5**0.5
    assert_close(mixed[0, :2], expected, atol=1e-6, what="normalized")


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


def test_a_layer_without_variance_is_zeros():
    """That follows from the definition of the mean. Neither values nor gradient are NaN."""
    mix = ScalarMix(1, do_layer_norm=True)
    layer = torch.full((1, 2, 3), 7.0, requires_grad=True)
    mixed = mix([layer], torch.ones(1, 2, dtype=torch.bool))
    mixed.sum().backward()
    assert not mixed.any()
    assert layer.grad.isfinite().all()


def test_layer_norm_of_a_batch_without_tokens():
    """The layers at padding are zeros and stay so. The gradients are zeros too, not NaN, with which
    one such batch would end a training run."""
    mix = ScalarMix(2, do_layer_norm=True)
    mixed = mix([torch.zeros(2, 3, 4)] * 2, torch.zeros(2, 3, dtype=torch.bool))
    assert not mixed.any()
    for gradient in torch.autograd.grad(mixed.sum(), list(mix.parameters())):
        assert not gradient.any()


def test_mix_is_the_average_at_first():
    """The initial weights are equal, and gamma is 1."""
    mixed = ScalarMix(2)([torch.tensor([[[1.0]]]), torch.tensor([[[4.0]]])])
    assert mixed.item() == 2.5


@pytest.mark.parametrize("trainable", [False, True])
def test_weights_can_be_given_and_frozen(trainable):
    """With weights so far apart softmax selects the second layer, which is how a config chooses one
    layer. Frozen weights are not trained."""
    mix = ScalarMix(2, initial_scalar_parameters=[-9e10, 1.0], trainable=trainable)
    mixed = mix([torch.tensor([[[1.0]]]), torch.tensor([[[4.0]]])])
    assert mixed.item() == 4.0
    assert all(parameter.requires_grad == trainable for parameter in mix.parameters())


def test_l2_on_the_mix_weights_finds_them():
    """AllenNLP's regularizers match parameters by name. The expected penalty is 0.5 * (1 + 4 +
    9)."""
    mix = ScalarMix(3, initial_scalar_parameters=[1.0, 2.0, 3.0])
    applicator = RegularizerApplicator([("scalar_parameters", L2Regularizer(0.5))])
    assert applicator(mix).item() == 7.0


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
