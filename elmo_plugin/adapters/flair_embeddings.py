"""ELMo as embeddings of flair."""

from __future__ import annotations

import os
from typing import Any

from elmo_plugin.adapters import load_model, missing
from elmo_plugin.elmo.elmo import Elmo, check_layer
from elmo_plugin.elmo.frozen import weights_digest
from elmo_plugin.modules import BiLM
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import one_token

try:
    import flair
    from flair.embeddings.base import TokenEmbeddings, register_embeddings
except ModuleNotFoundError:
    TokenEmbeddings, register_embeddings = missing("flair"), lambda kind: kind


@register_embeddings
class ElmoEmbeddings(TokenEmbeddings):  # type: ignore[misc]
    """
    flair's embeddings of words by a frozen biLM. A tagger's file contains the biLM; a program that
    loads it imports this module first.

    # Parameters

    model : `str | os.PathLike | BiLM`, optional (default = `"small"`)
        The name of an installed model, anything else that `Elmo.from_archive` accepts, or a
        biLM.
    layer : `str | int`, optional (default = `"average"`)
        See `Elmo.embed`. `"all"` concatenates the layers.
    device : `str | torch.device`, optional
        Where the biLM is. By default `flair.device`, to which flair's models move it in any case.
    precision, initial_state : `str`, optional
        See `ElmoVectors`.
    """

    def __init__(
        self,
        model: str | os.PathLike | BiLM = "small",
        layer: str | int = "average",
        *,
        device: Any = None,
        precision: str | None = None,
        initial_state: str | None = None,
    ) -> None:
        super().__init__()
        settings = {"precision": precision, "initial_state": initial_state}
        device = flair.device if device is None else device
        elmo = load_model(model, device=device, **settings)
        self.elmo = elmo.requires_grad_(False)  # the mix too
        self.layer = layer = check_layer(layer, elmo.n_layers)
        # flair computes what a sentence does not have under this name yet.
        digest = weights_digest(elmo)
        digest.update(f"{elmo.mix_settings} {elmo.bilm.permitted_precision}".encode())
        kind = "bilm" if isinstance(model, BiLM) else model
        self.name = f"elmo-{kind}-{layer}-{digest.hexdigest()[:8]}"
        self.static_embeddings = True

    @property
    def embedding_length(self) -> int:
        return self.elmo.output_dim * (self.elmo.n_layers if self.layer == "all" else 1)

    def _add_embeddings_internal(self, sentences: list[Any]) -> None:
        texts = [[one_token(token.text) for token in sentence] for sentence in sentences]
        for sentence, found in zip(sentences, self.elmo.embed(texts, self.layer, as_tensors=True)):
            if self.layer == "all":
                found = found.transpose(0, 1).flatten(1)
            for token, vector in zip(sentence, found):
                token.set_embedding(self.name, vector)

    def to_params(self) -> dict[str, Any]:
        """The state dictionary of a tagger has the weights."""
        options, mixes = self.elmo.bilm.options.to_dict(), self.elmo.mix_settings
        params = {"options": options, "mixes": mixes, "layer": self.layer, "name": self.name}
        return {**params, "precision": self.elmo.bilm.permitted_precision}

    @classmethod
    def from_params(cls, params: dict[str, Any]) -> ElmoEmbeddings:
        options = BiLMOptions.from_dict(params["options"], source=f"flair's {params['name']}")
        bilm = BiLM(options)
        embeddings = cls(bilm, params["layer"], precision=params["precision"])
        mixed = Elmo(bilm, **params["mixes"]).eval().requires_grad_(False)
        embeddings.elmo = mixed.to(flair.device)
        embeddings.name = params["name"]
        return embeddings
