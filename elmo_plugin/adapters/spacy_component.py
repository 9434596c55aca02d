"""
ELMo as a component of a spaCy pipeline, and as a layer of spaCy's own components, such as `ner`.
`elmo_plugin_spacy` makes both known to spaCy.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import numpy as np

from elmo_plugin.adapters import check_has_one_vector, load_model, missing
from elmo_plugin.checks import fail
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.text.characters import one_token
from elmo_plugin.text.sentence import groups

try:
    from thinc.api import Model, Shim
except ModuleNotFoundError:
    Model, Shim = missing("spacy"), missing("spacy")  # type: ignore[misc]

MOST_DOCS = 64
"""Documents whose vectors are computed together, which bounds the memory."""


class ElmoComponent:
    """
    Sets `doc.tensor`, which has one row per spaCy token, and makes it the vectors of tokens, spans
    and the document; see `set_hooks`. A token of whitespace has zeros and does not count in means,
    because the biLM does not read it; whitespace within a token is read as `_`. The biLM reads
    each sentence by itself, or the whole document if it has no sentence boundaries.

    # Parameters

    model : `str`
        See `Elmo.from_archive`. It is loaded when it is needed. A pipeline on disk has the model in
        its folder.
    layer : `str | int`
        See `Elmo.embed`; a layer for which it gives one vector per token.
    settings
        The `device`, `precision` and `initial_state` of `load_model`.
    """

    def __init__(self, model: str, layer: str | int, **settings: Any) -> None:
        check_has_one_vector(layer)
        self.model, self.layer, self.settings = model, layer, settings

    @cached_property
    def elmo(self) -> Elmo:
        return load_model(self.model, **self.settings)

    def __call__(self, doc: Any) -> Any:
        return next(self.pipe([doc]))

    def pipe(self, stream: Iterable[Any], *, batch_size: int = MOST_DOCS) -> Iterator[Any]:
        for docs in groups(stream, min(batch_size, MOST_DOCS)):
            for doc, vectors in zip(docs, self.vectors(docs)):
                doc.tensor = vectors
                set_hooks(doc)
            yield from docs

    def vectors(self, docs: Sequence[Any]) -> list[np.ndarray]:
        """The vectors of the tokens of each of several documents, shape `(n, 2P)`."""
        parts = [
            (number, [token for token in part if not token.is_space])
            for number, doc in enumerate(docs)
            for part in (doc.sents if doc.has_annotation("SENT_START") else [doc])
        ]
        texts = [[one_token(token.text) for token in part] for _, part in parts]
        of_docs = [np.zeros((len(doc), self.elmo.output_dim), np.float32) for doc in docs]
        for (number, part), vectors in zip(parts, self.elmo.embed(texts, self.layer)):
            of_docs[number][[token.i for token in part]] = vectors
        return of_docs

    def to_disk(self, path: str | os.PathLike, *, exclude: Sequence[str] = ()) -> None:
        self.elmo.save(path)

    def from_disk(self, path: str | os.PathLike, *, exclude: Sequence[str] = ()) -> ElmoComponent:
        self.elmo = load_model(path, **self.settings)
        return self


class ElmoShim(Shim):  # type: ignore[misc]
    """An `ElmoComponent` as a part of a layer that is saved with it, but not trained."""

    def to_bytes(self) -> bytes:
        """The files of `Elmo.save` as a zip file."""
        data = io.BytesIO()
        with TemporaryDirectory() as folder, ZipFile(data, "w") as archive:
            self._model.to_disk(folder)
            for file in sorted(Path(folder).iterdir()):
                archive.write(file, file.name)
        return data.getvalue()

    def from_bytes(self, data: bytes) -> ElmoShim:
        with TemporaryDirectory() as folder:
            file = Path(folder) / "elmo.zip"
            file.write_bytes(data)
            self._model.from_disk(file)
        return self

    def finish_update(self, optimizer: Any) -> None:
        """Nothing is trained."""

    def to_device(self, device_type: str, device_id: int) -> None:
        """The device is the one in the config."""


def tok2vec_layer(component: ElmoComponent) -> Any:
    """
    The layer, a `thinc.api.Model` from documents to the vectors of their tokens, each of shape
    `(n, 2P)`. The biLM gets no gradient.
    """
    return Model("elmo", _forward, init=_init, dims={"nO": None}, shims=[ElmoShim(component)])


def _forward(layer: Any, docs: Sequence[Any], is_train: bool) -> tuple[list[Any], Any]:
    vectors = layer.shims[0]._model.vectors(docs)
    return [layer.ops.asarray2f(x) for x in vectors], lambda gradients: []


def _init(layer: Any, X: Any = None, Y: Any = None) -> None:
    layer.set_dim("nO", layer.shims[0]._model.elmo.output_dim)


def set_hooks(doc: Any) -> None:
    """
    Make `doc.tensor` what `vector` and `similarity` are computed from: a token has its row, a span
    or the document the mean over its tokens, which `has_vector` unless all are whitespace, and
    similarity is the cosine of two vectors, or 0 if one has only zeros or none. spaCy stores
    documents without this, so a stored one needs it again. Raises an `InputError` if `doc.tensor`
    lacks rows.
    """
    if len(doc.tensor) < len(doc):  # more are left by spaCy's `retokenizer.split`
        fail("doc.tensor", f"a row for each of {len(doc)} tokens", len(doc.tensor))
    doc.user_token_hooks.update(vector=_row, has_vector=_is_read, similarity=_cosine)
    for hooks in (doc.user_span_hooks, doc.user_hooks):
        hooks.update(vector=_mean, has_vector=_is_read, similarity=_cosine)


def _row(token: Any) -> np.ndarray:
    return token.doc.tensor[token.i]


def _mean(tokens: Any) -> np.ndarray:
    """The mean vector of the tokens of a span or a document that are not whitespace."""
    n_words = sum(not token.is_space for token in tokens)
    return tokens.doc.tensor[[token.i for token in tokens]].sum(axis=0) / max(n_words, 1)


def _is_read(part: Any) -> bool:
    """Whether there is more than whitespace. spaCy asks its table of static vectors."""
    return bool(part.vector.any())


def _cosine(first: Any, second: Any) -> float:
    """spaCy's own similarity of two tokens is 1 if their words are equal, whatever the context."""
    x, y = first.vector, second.vector
    norms = np.linalg.norm(x) * np.linalg.norm(y)
    return float(x @ y / norms) if norms else 0.0
