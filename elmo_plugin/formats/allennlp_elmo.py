"""
The parameters of AllenNLP's own `Elmo`, by its names, which appear only here. It is the same model
as ours: the highway layers have both parts in one matrix, with the opposite gate, and the LSTM has
the gates in another order, with the 1 of the forget gate added to its bias. ELMoForManyLangs has
this layout too, under names that begin otherwise. At the end is what AllenNLP's own code can read.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.checks import MOST, InputError
from elmo_plugin.formats.fill import Layout, Tensors, fill, meta_modules
from elmo_plugin.modules import BiLM, CharCNN
from elmo_plugin.modules.char_cnn import Highway
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import DEFAULT_MAX_CHARACTERS

CHARACTERS = "_elmo_lstm._token_embedder._char_embedding_weights"
CACHED_WORDS = "_elmo_lstm._word_embedding.weight"


def take_allennlp_weights(elmo: Any, state: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """
    Pre-hook of `load_state_dict` of a module with a `bilm`, which accepts the weights of AllenNLP's
    own `Elmo`: replaces the biLM in a state dictionary by one under our names. The mixes and the
    embedder's projection have the same names in AllenNLP. Raises an `InputError` as `fill`, or if
    words have vectors that were trained apart from their characters.
    """
    if prefix + CHARACTERS not in state:
        return
    if prefix + CACHED_WORDS in state and next(elmo.bilm.parameters()).requires_grad:
        raise InputError(
            f"{prefix}{CACHED_WORDS}: expected word vectors that are computed from characters, "
            "found those that AllenNLP trains apart from them with requires_grad and vocab_to_cache"
        )
    state.pop(prefix + CACHED_WORDS, None)
    bilm, _softmax = meta_modules(elmo.bilm.options, None, MOST)
    names = [name for name in _layout(bilm) if prefix + name in state]
    weights = {name: state.pop(prefix + name).float() for name in names}
    fill([bilm], partial(_layout, bilm), Tensors(weights, "the options of the biLM", prefix))
    as_our_equations(bilm)
    bilm.warm_state = elmo.bilm.warm_state  # AllenNLP has none
    state.update({f"{prefix}bilm.{name}": x for name, x in bilm.state_dict().items()})
    elmo.needs_warm_state = True


def compute_warm_state(elmo: Any, _: object) -> None:
    """Post-hook of `load_state_dict`, for weights that `take_allennlp_weights` has taken."""
    if elmo.needs_warm_state:
        elmo.bilm.warm_up()
    elmo.needs_warm_state = False


def _layout(bilm: BiLM) -> Layout:
    layout = common_layout(
        bilm,
        convolution="_elmo_lstm._token_embedder.char_conv_",
        highway="_elmo_lstm._token_embedder._highways._layers.",
        projection="_elmo_lstm._token_embedder._projection",
        lstm="_elmo_lstm._elmo_lstm.",
    )
    if isinstance(bilm.token_encoder, CharCNN):
        layout[CHARACTERS] = [bilm.token_encoder.char_embedding.weight]
    return layout


def common_layout(
    bilm: BiLM, *, convolution: str, highway: str, projection: str, lstm: str
) -> Layout:
    """
    The layout that AllenNLP and ELMoForManyLangs share, of all but the characters and the words.
    The arguments are what the names of a convolution, and so on, begin with.
    """
    linears: dict[str, list[Any]] = {}
    for module in bilm.token_encoder.modules():
        if isinstance(module, CharCNN):
            linears |= {f"{convolution}{k}": [x] for k, x in enumerate(module.convolutions)}
            for k, layer in enumerate(module.highways):
                linears[f"{highway}{k}"] = [layer.transform, layer.carry]
    if bilm.token_encoder.projection is not None:
        linears[projection] = [bilm.token_encoder.projection]
    kinds = ("weight", "bias")
    layout = {
        f"{name}.{kind}": [getattr(module, kind).detach() for module in modules]
        for name, modules in linears.items()
        for kind in kinds
    }
    for k, layer in enumerate(bilm.bilstm.layers):
        for d, direction in enumerate(("forward", "backward")):
            start = f"{lstm}{direction}_layer_{k}"
            layout[f"{start}.input_linearity.weight"] = _gates(layer.input_weight[d])
            layout[f"{start}.state_linearity.weight"] = _gates(layer.recurrent_weight[d])
            layout[f"{start}.state_linearity.bias"] = _gates(layer.bias[d])
            if layer.projection_weight is not None:
                layout[f"{start}.state_projection.weight"] = [layer.projection_weight[d].t()]
    return layout


def _gates(x: Tensor) -> list[Tensor]:
    """The parts of `x`, whose last dimension is i, j, f, o, in the order i, f, j, o."""
    i, j, f, o = x.chunk(4, dim=-1)
    return [part.t() for part in (i, f, j, o)]


@torch.no_grad()
def as_our_equations(bilm: BiLM) -> None:
    """Convert weights in this layout in which the equations differ. Modified in place."""
    for layer in bilm.bilstm.layers:
        layer.bias.unflatten(1, (4, -1))[:, 2] -= 1  # our equation adds it to the forget gate
    for module in bilm.token_encoder.modules():
        if isinstance(module, Highway):  # their gate is the share of the input
            module.carry.weight.neg_()
            module.carry.bias.neg_()


def who_reads(options: BiLMOptions) -> str:
    """
    One sentence on whether AllenNLP's own ELMo, which most programs copied, can read the files.
    """
    reasons = refused_by_allennlp(options)
    if not reasons:
        return "AllenNLP's own ELMo reads them, as elmo_plugin does"
    return f"elmo_plugin reads them; AllenNLP's own ELMo does not: it needs {', '.join(reasons)}"


def refused_by_allennlp(options: BiLMOptions) -> list[str]:
    """
    The properties that AllenNLP's own ELMo needs and this biLM lacks; empty if AllenNLP can read
    it.
    """
    reasons = []
    if not options.lstm.use_skip_connections:
        reasons.append("lstm.use_skip_connections")
    if options.lstm.projection_dim == options.lstm.dim:
        reasons.append("an lstm.projection_dim other than lstm.dim")
    if options.char_cnn is None or options.reads_code_points:
        return [*reasons, "a char_cnn over bytes"]
    if options.lstm.projection_dim == options.char_cnn.n_filters:
        reasons.append("an lstm.projection_dim other than the number of filters")
    if options.char_cnn.max_characters_per_token != DEFAULT_MAX_CHARACTERS:
        reasons.append(f"a char_cnn.max_characters_per_token of {DEFAULT_MAX_CHARACTERS}")
    return reasons
