"""Whatever changes in a biLM after its `Elmo` has filled its caches, the next vectors equal those
of a deep copy, whose caches are empty."""

import copy
import weakref
from functools import partial
from random import Random

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrize, prune

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.modules import BiLM
from tests.compare import assert_close

pytestmark = pytest.mark.usefixtures("native_bf16")

SENTENCES = [["The", "dog"], ["He", "threw", "the", "stick", "."], ["A"]]


def vectors(elmo: Elmo) -> np.ndarray:
    return np.concatenate(elmo.embed(SENTENCES, layer="all"), axis=1)


def is_of_inference(elmo: Elmo) -> bool:
    return any(x.is_inference() for x in elmo.bilm.parameters())


def expected(elmo: Elmo) -> np.ndarray:
    # In int8, a copy of inference tensors has to be one too, and to have the gradients, which
    # `deepcopy` leaves out: a biLM that has any of these is not quantized.
    with torch.inference_mode(is_of_inference(elmo) and elmo.bilm.precision == "int8"):
        fresh = copy.deepcopy(elmo)
    for x, copied in zip(elmo.bilm.parameters(), fresh.bilm.parameters(), strict=True):
        copied.grad = x.grad
    fresh.layer_cache = None
    return vectors(fresh)


class Scaled(nn.Module):
    """A parametrization whose factor is a number in Python, as the scale of a LoRA may be."""

    scale = 1.3

    def forward(self, weight: torch.Tensor) -> torch.Tensor:
        return self.scale * weight


def more(_module, _inputs, output):
    """A forward hook of any module, whose output is a tensor or a tuple."""
    if isinstance(output, tuple):
        return (output[0] * 1.2, *output[1:])
    return output * 1.2


def numbers(bilm: BiLM, random) -> list[torch.Tensor]:
    """Some parameters of floating point that a change may replace or edit."""
    return random.sample(list(bilm.parameters()), k=3)


def parameter(x: torch.Tensor) -> nn.Parameter:
    return nn.Parameter(x, requires_grad=False)


def other(x: torch.Tensor, random) -> torch.Tensor:
    generator = torch.Generator().manual_seed(random.randrange(2**30))
    return x.detach() + 0.3 * torch.randn(x.shape, generator=generator, dtype=x.dtype)


# Each change takes an `Elmo` and a `random.Random`, and may be made again and again.


@torch.no_grad()
def in_place(elmo, random):
    for x in numbers(elmo.bilm, random):
        x.copy_(other(x, random))


def transposed_data(elmo, random):
    """The same memory, read in another order."""
    for x in elmo.bilm.parameters():
        if x.dim() == 2 and x.size(0) == x.size(1):
            x.data = x.data.t()


def swapped(elmo, random):
    for x in numbers(elmo.bilm, random):
        torch.utils.swap_tensors(x, parameter(other(x, random)))


def new_data(elmo, random):
    """Twice without a vector between, so that the first memory is free for the second."""
    for x in numbers(elmo.bilm, random):
        for _ in range(2):
            x.data = other(x, random)


def loaded(elmo, random, assign=False):
    for _ in range(2):
        state = elmo.bilm.state_dict()
        new = {k: other(x, random) if x.is_floating_point() else x for k, x in state.items()}
        elmo.bilm.load_state_dict(new, assign=assign)
        elmo.bilm.requires_grad_(False)


def clipped(elmo, random):
    for layer in elmo.bilm.bilstm.layers:
        layer.cell_clip = random.choice([0.01, 0.1, None])
        layer.proj_clip = random.choice([0.01, 0.1, None])


def another_bilm(elmo, random):
    elmo.bilm = copy.deepcopy(elmo.bilm)
    in_place(elmo, random)


class WritesData(torch.optim.SGD):
    """An optimizer that changes the weights through `.data`, as some do."""

    @torch.no_grad()
    def step(self, closure=None):
        for parameter in self.param_groups[0]["params"]:
            if parameter.grad is not None:
                parameter.data -= 0.1 * parameter.grad


def trained(elmo, random):
    """Fused optimizers do not raise the version of what they change."""
    biases = [x for name, x in elmo.bilm.named_parameters() if name.endswith("bias")]
    chosen = biases if random.random() < 0.5 else list(elmo.bilm.parameters())
    for parameter in chosen:
        parameter.requires_grad_(True)
    kinds = [torch.optim.SGD, torch.optim.Adam, WritesData]
    optimizer = random.choice(kinds)(chosen, lr=0.1, fused=random.random() < 0.5)
    [found] = elmo(elmo.characters(SENTENCES))["elmo_representations"]
    found.square().mean().backward()
    assert all(x.grad is not None for x in chosen)
    optimizer.step()
    if random.random() < 0.5:
        optimizer.zero_grad()
    elmo.bilm.requires_grad_(False)


def hooked(part: str, elmo, random, register="register_forward_hook"):
    """Set a hook that changes the input or the output, or remove it."""
    module = elmo.bilm.get_submodule(part)
    hooks = module._forward_hooks, module._forward_pre_hooks
    if any(hooks):
        for own in hooks:
            own.clear()
    else:
        getattr(module, register)(less if "pre" in register else more)


def less(_module, inputs):
    return inputs[0] * 0.5, *inputs[1:]


def own_forward(elmo, random):
    layer = elmo.bilm.bilstm.layers[0]
    if "forward" in layer.__dict__:
        del layer.forward
    else:
        layer.forward = partial(doubled, type(layer).forward, layer)


def doubled(forward, layer, inputs, *rest):
    return forward(layer, inputs * 2, *rest)


def scaled(part: str, name: str, elmo, random):
    """Set a parametrization, change its number, or remove it."""
    module = elmo.bilm.get_submodule(part)
    if not parametrize.is_parametrized(module, name):
        if name in module._parameters:  # else it is pruned
            parametrize.register_parametrization(module, name, Scaled())
    elif random.random() < 0.5:
        module.parametrizations[name][0].scale *= 1.2
    else:
        parametrize.remove_parametrizations(module, name)
        elmo.bilm.requires_grad_(False)


def pruned(part: str, name: str, elmo, random):
    """Prune, prune again, edit the mask in two ways, or make the pruning permanent."""
    module = elmo.bilm.get_submodule(part)
    # Removing all hooks leaves a mask that is no longer applied.
    is_pruned = prune.is_pruned(module)
    if parametrize.is_parametrized(module) or not (is_pruned or name in module._parameters):
        return
    shape = getattr(module, name).shape
    if not is_pruned or random.random() < 0.3:
        prune.custom_from_mask(module, name, other(torch.zeros(shape), random) > 0)
    elif random.random() < 0.3:
        getattr(module, f"{name}_mask").random_(0, 2)
    elif random.random() < 0.5:
        setattr(module, f"{name}_mask", torch.ones(shape))
    else:
        prune.remove(module, name)
    elmo.bilm.requires_grad_(False)


def in_inference_mode(elmo, random):
    """Tensors that are made in inference mode have no versions; they are edited there twice."""
    with torch.inference_mode():
        if not is_of_inference(elmo):
            elmo.bilm = copy.deepcopy(elmo.bilm)
        for x in elmo.bilm.parameters():
            if x.is_inference():
                x.mul_(1.1)


def convolution(elmo, random):
    """Another torch module instead of a convolution."""
    parts = elmo.bilm.token_encoder.convolutions
    old = parts[2]
    if isinstance(old, nn.Conv1d):
        other_kind = random.choice([{"dilation": 2}, {"stride": 2}, {"padding": 1}])
        new = nn.Conv1d(old.in_channels, old.out_channels, old.kernel_size, **other_kind)
        new.load_state_dict(old.state_dict())
        parts[2] = (new if random.random() < 0.5 else nn.Sequential(new, nn.Tanh())).eval()
        elmo.bilm.requires_grad_(False)


def a_part_twice(elmo, random):
    """Another highway, which is the first one again, or only that one."""
    highways = elmo.bilm.token_encoder.highways
    if len(highways) == 1:
        highways.append(highways[0])
    else:
        del highways[1]


def layers(elmo, random):
    """The other order of the LSTM layers, or one of them twice."""
    parts = elmo.bilm.bilstm.layers
    a, b = parts[0], parts[1]
    if random.random() < 0.5:
        parts[0], parts[1] = b, a
    else:
        parts[1] = a


def converted(elmo, random):
    (elmo if random.random() < 0.5 else elmo.bilm).double()
    (elmo if random.random() < 0.5 else elmo.bilm).float()


CHANGES = {
    "in place": in_place,
    ".data": new_data,
    "transposed .data": transposed_data,
    "load_state_dict": loaded,
    "assigned": partial(loaded, assign=True),
    "swap_tensors": swapped,
    "another biLM": another_bilm,
    "clips": clipped,
    "residual": lambda elmo, random: setattr(
        elmo.bilm.bilstm, "use_skip_connections", random.random() < 0.5
    ),
    "precision": lambda x, random: x.bilm.set_precision(random.choice(["fp32", "bf16", "int8"])),
    "initial_state": lambda x, random: setattr(x, "initial_state", random.choice(["zero", "warm"])),
    "warm state": lambda elmo, _: elmo.bilm.warm_state.memory.add_(0.3),
    "mode": lambda elmo, random: elmo.bilm.train(random.random() < 0.5),
    "training": trained,
    "hook, LSTM": partial(hooked, "bilstm.layers.0"),
    "hook, highway": partial(hooked, "token_encoder.highways.0"),
    "hook, convolution": partial(hooked, "token_encoder.convolutions.1"),
    "hook, characters": partial(hooked, "token_encoder.char_embedding"),
    "pre-hook": partial(hooked, "bilstm.layers.1", register="register_forward_pre_hook"),
    "own forward": own_forward,
    "scale, LSTM": partial(scaled, "bilstm.layers.1", "recurrent_weight"),
    "scale, highway": partial(scaled, "token_encoder.highways.0.transform", "weight"),
    "pruning": partial(pruned, "bilstm.layers.0", "recurrent_weight"),
    "inference mode": in_inference_mode,
    "another convolution": convolution,
    "a highway twice": a_part_twice,
    "LSTM layers": layers,
    "converted": converted,
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change(bilm_files, change, fuzz, tmp_path):
    """Once, and twice without a vector between, in every other case with a cache on disk, in which
    the unchanged biLM finds only its own layers."""
    clean = vectors(Elmo.from_files(*bilm_files))
    for number, random in enumerate(fuzz.cases(2)):
        elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path if number % 2 else None)
        vectors(elmo)
        for times in (1, 2):
            for _ in range(times):
                CHANGES[change](elmo, random)
            assert_close(vectors(elmo), expected(elmo), atol=1e-5, what=f"{change} {times}")
        found = vectors(Elmo.from_files(*bilm_files, cache_dir=tmp_path))
        assert_close(found, clean, atol=1e-6, what="unchanged")


def test_changes_in_any_order(bilm_files, tmp_path, fuzz):
    """With a cache on disk, which all sequences share, half of the time."""
    for number, random in enumerate(fuzz.cases(20)):
        elmo = Elmo.from_files(*bilm_files, cache_dir=random.choice([tmp_path, None]))
        vectors(elmo)
        names = random.choices(list(CHANGES), k=6)
        for k, name in enumerate(names):
            # Inference tensors can be changed only in inference mode, and not be trained.
            if is_of_inference(elmo) and name == "training":
                continue
            with torch.inference_mode(is_of_inference(elmo)):
                CHANGES[name](elmo, random)
            if random.random() < 0.7:
                what = f"case {number}: {names[: k + 1]}"
                assert_close(vectors(elmo), expected(elmo), atol=2e-5, what=what)


def test_loading_in_inference_mode(bilm_files):
    """As by PyTorch's modules, weights that are not of inference mode stay so, and are cached. The
    expected digest is that of an `Elmo` that has loaded them outside."""
    elmos = [Elmo.from_files(*bilm_files), Elmo.from_files(*bilm_files)]
    for elmo in elmos:
        with torch.inference_mode(elmo is elmos[0]):
            elmo.load_state_dict({k: x * 1.1 for k, x in elmo.state_dict().items()})
            elmo.warm_up(SENTENCES)
    assert elmos[0].fingerprint() == elmos[1].fingerprint()


def test_temporary_weights(fuzz):
    """`functional_call` with other weights, whose memory is free for the next ones. The expected
    vectors are those of a biLM that has loaded them."""
    elmo, loaded = Elmo.from_pretrained("tiny"), Elmo.from_pretrained("tiny")
    characters = elmo.characters(SENTENCES)

    def weights(seed):
        return {k: other(x, Random(seed)) for k, x in elmo.named_parameters()}

    seeds = [random.random() for random in fuzz.cases(5)]
    found = [torch.func.functional_call(elmo, weights(seed), (characters,)) for seed in seeds]
    states = [*map(weights, seeds), dict(elmo.named_parameters())]
    for state, result in zip(states, [*found, elmo(characters)], strict=True):
        loaded.load_state_dict(state, strict=False)
        loaded.clear_caches()
        [x], [y] = result["elmo_representations"], loaded(characters)["elmo_representations"]
        assert_close(x, y, atol=1e-5, what="mix")


def test_global_hooks(bilm_files):
    """The expected vectors are those of an equal hook on each of the modules that it changes."""
    elmo, hooked = Elmo.from_files(*bilm_files), Elmo.from_files(*bilm_files)
    kinds = nn.Embedding | nn.Conv1d | nn.Linear
    before = vectors(elmo)
    for module in hooked.bilm.modules():
        if isinstance(module, kinds):
            module.register_forward_hook(more)
    with register_module_forward_hook(lambda x, *y: more(x, *y) if isinstance(x, kinds) else None):
        found = vectors(elmo)
    assert_close(found, vectors(hooked), atol=1e-5, what="with the hook")
    assert not np.allclose(found, before, atol=1e-2)
    assert_close(vectors(elmo), before, atol=1e-6, what="without it")


def test_a_hook_of_the_biLM(bilm_files):
    """What it returns is used: a top layer of zeros."""
    elmo = Elmo.from_files(*bilm_files)
    vectors(elmo)
    handle = elmo.bilm.register_forward_hook(
        lambda *given: ([*given[2][0][:-1], torch.zeros_like(given[2][0][-1])], given[2][1])
    )
    assert not np.concatenate(elmo.embed(SENTENCES, layer="top")).any()
    handle.remove()
    assert np.concatenate(elmo.embed(SENTENCES, layer="top")).any()


def test_weights_that_change_while_they_are_read_are_not_stored(bilm_files, tmp_path):
    """Another thread edits a weight between the digest and the computation: here, a hook on the
    cache does. The next run reads what the unchanged weights give."""
    clean = vectors(Elmo.from_files(*bilm_files))
    elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path)
    get = elmo.layer_cache.get

    @torch.no_grad()
    def edit_then_get(*arguments):
        elmo.bilm.bilstm.layers[0].bias.add_(1.0)
        return get(*arguments)

    elmo.layer_cache.get = edit_then_get
    vectors(elmo)
    found = vectors(Elmo.from_files(*bilm_files, cache_dir=tmp_path))
    assert_close(found, clean, atol=1e-6, what="the next run")


def test_the_digest(bilm_files):
    """By definition: the mode changes none, because a frozen biLM is computed as in evaluation,
    also while another module that shares it is trained; and what is not known has none."""
    elmo = Elmo.from_files(*bilm_files)
    before, snapshot = elmo.fingerprint(), elmo._frozen
    elmo.bilm.train()
    assert elmo.fingerprint() == before and elmo._frozen is snapshot
    elmo.bilm.register_forward_hook(more)
    with pytest.raises(ValueError, match="without hooks"):
        elmo.fingerprint()


def test_fewer_layers_with_a_cache_on_disk(bilm_files, tmp_path):
    """The top layer is then the one that was below it."""
    elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path)
    below = elmo.embed(SENTENCES[1], layer=1)
    del elmo.bilm.bilstm.layers[1]
    for _ in range(2):
        assert_close(elmo.embed(SENTENCES[1], layer="top"), below, atol=1e-6, what="top")


def test_carry_set_after_building_is_not_cached_on_disk(bilm_files, tmp_path):
    """The expected vectors are those without a cache, of the same batches."""
    cached, right = Elmo.from_files(*bilm_files, cache_dir=tmp_path), Elmo.from_files(*bilm_files)
    cached.initial_state = right.initial_state = "carry"
    for _ in range(3):
        assert_close(vectors(cached), vectors(right), atol=1e-6, what="carry")
    right.initial_state = "wram"
    with pytest.raises(InputError, match=r"^initial_state: expected one of .*'wram'$"):
        vectors(right)


def test_old_weights_are_freed(bilm_files):
    """No cache keeps a weight that was replaced, once the next vectors are computed."""
    elmo = Elmo.from_files(*bilm_files)
    weight = elmo.bilm.bilstm.layers[0].recurrent_weight
    for is_trained in (False, True):
        vectors(elmo)
        elmo.fingerprint()
        old = weakref.ref(weight.data.untyped_storage())
        weight.data = weight.data.clone()
        elmo.bilm.requires_grad_(is_trained)
        vectors(elmo)
        assert old() is None
