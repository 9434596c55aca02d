"""Words in, vectors out: what `Elmo.embed` does, for people who live in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from elmo_plugin.elmo.batching import batches_by_length

if TYPE_CHECKING:
    from elmo_plugin.elmo.elmo import Elmo


@torch.no_grad()
def embed(elmo: Elmo, sentences: Any, layer: str | int, as_tensors: bool) -> Any:
    """See `Elmo.embed`."""
    batch, one = _token_lists(sentences)
    _check_layer(layer, elmo.options.lstm.n_layers + 1)
    found = _embed(elmo, batch, layer)
    vectors = found if as_tensors else [x.cpu().numpy() for x in found]
    return vectors[0] if one else vectors


def _embed(elmo: Elmo, sentences: list[list[str]], layer: str | int) -> list[Tensor]:
    lengths = [len(sentence) for sentence in sentences]
    if elmo.initial_state == "carry":  # all at once: what came before matters
        batches = [list(range(len(sentences)))] if sentences else []
    else:
        batches = list(batches_by_length(lengths))
    found: list[Tensor] = [torch.empty(0)] * len(sentences)
    for places in batches:
        layers, mask = elmo.layers(elmo.characters([sentences[b] for b in places]))
        chosen = _choose(elmo, layers, mask, layer)  # (.., B, T + 2, 2P)
        for row, b in enumerate(places):
            found[b] = chosen[..., row, 1 : lengths[b] + 1, :].float().clone()
    return found


def _choose(elmo: Elmo, layers: list[Tensor], mask: Tensor, layer: str | int) -> Tensor:
    if layer == "mix":
        return elmo.mixes[0](layers, mask)
    if layer == "all":
        return torch.stack(layers)
    if layer == "average":
        return torch.stack(layers).mean(dim=0)
    if layer == "top":
        return layers[-1]
    assert isinstance(layer, int)
    return layers[layer]


def _check_layer(layer: Any, n_layers: int) -> None:
    """Before the sentences are read, since under `carry` reading them moves the state."""
    is_number = isinstance(layer, int) and not isinstance(layer, bool) and 0 <= layer < n_layers
    if not is_number and layer not in ("mix", "all", "average", "top"):
        raise ValueError(
            f"layer: expected mix, all, average, top or a number below {n_layers}, found {layer!r}"
        )


def _token_lists(sentences: Any) -> tuple[list[list[str]], bool]:
    """What `Elmo.embed` takes, as lists of tokens, and whether it is one sentence alone."""
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
