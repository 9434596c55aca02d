"""Sentences as Python lists in, vectors out: the work of `Elmo.embed`."""

from collections.abc import Iterable, Mapping, Set
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.checks import WHOLE
from elmo_plugin.elmo.batching import batches_by_length
from elmo_plugin.elmo.layers import BiLMLayers
from elmo_plugin.modules import ScalarMix


@torch.no_grad()
def embed(
    reader: BiLMLayers, mix: ScalarMix, sentences: Any, layer: str | int, as_tensors: bool
) -> Any:
    """See `Elmo.embed`; `mix` computes the layer `"mix"`."""
    batch, is_single = _token_lists(sentences)
    _check_layer(layer, reader.n_layers)
    found = _embed(reader, mix, batch, layer)
    vectors = found if as_tensors else [x.cpu().numpy() for x in found]
    return vectors[0] if is_single else vectors


def _embed(
    reader: BiLMLayers, mix: ScalarMix, sentences: list[list[str]], layer: str | int
) -> list[Tensor]:
    lengths = [len(sentence) for sentence in sentences]
    if reader.initial_state == "carry":  # one batch, because vectors depend on the batch before
        batches = [list(range(len(sentences)))] if sentences else []
    else:
        batches = list(batches_by_length(lengths))
    # Only the statistics of layer norm include the boundaries.
    first = 1 if layer == "mix" and mix.do_layer_norm else 0
    found: list[Tensor] = [torch.empty(0)] * len(sentences)
    for places in batches:
        tokens = reader.characters([sentences[b] for b in places])
        layers, mask = reader.layers(tokens, boundaries=first > 0)
        chosen = mix(layers, mask) if layer == "mix" else _choose(layers, layer)
        for row, b in enumerate(places):  # of (.., B, T, 2P)
            found[b] = chosen[..., row, first : first + lengths[b], :].float().clone()
    return found


def _choose(layers: list[Tensor], layer: str | int) -> Tensor:
    if layer == "all":
        return torch.stack(layers)
    if layer == "average":
        return torch.stack(layers).mean(dim=0)
    if layer == "top":
        return layers[-1]
    return layers[int(layer)]


def _check_layer(layer: Any, n_layers: int) -> None:
    """Called before the sentences are read, because under `carry` reading changes the state."""
    is_number = isinstance(layer, WHOLE) and not isinstance(layer, bool) and 0 <= layer < n_layers
    if not is_number and layer not in ("mix", "all", "average", "top"):
        raise ValueError(
            f"layer: expected mix, all, average, top or a number below {n_layers}, found {layer!r}"
        )


def _token_lists(sentences: Any) -> tuple[list[list[str]], bool]:
    """The input of `Elmo.embed` as lists of tokens, and whether it is a single sentence."""
    if isinstance(sentences, str):
        return [sentences.split()], True
    items = _items(sentences, "expected a sentence, its tokens in a list, or a list of such lists")
    n_strings = sum(isinstance(item, str) for item in items)
    if 0 < n_strings < len(items):
        other = next(item for item in items if not isinstance(item, str))
        raise ValueError(
            "expected a list of tokens or a list of lists of them, "
            f"found a string and {other!r} in one"
        )
    if n_strings:
        for token in items:
            if token.split() != [token]:
                raise ValueError(
                    f"expected one sentence's tokens, found {token!r} among them; several "
                    "sentences are a list of lists: [s.split() for s in sentences]"
                )
        return [items], True
    batch = []
    for number, item in enumerate(items):
        tokens = _items(item, f"sentence {number}: expected a list of tokens")
        for token in tokens:
            if not isinstance(token, str):
                raise ValueError(
                    f"sentence {number}: expected tokens that are strings, found {token!r}"
                )
        batch.append(tokens)
    return batch, False


def _items(found: Any, expected: str) -> list[Any]:
    if not isinstance(found, Iterable) or isinstance(found, (Mapping, Set)):
        raise ValueError(f"{expected}, found {found!r}")
    return list(found)
