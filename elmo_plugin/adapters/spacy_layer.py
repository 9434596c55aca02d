"""
ELMo as a layer of spaCy's own models, such as `tagger` and `ner`. `elmo_plugin_spacy` registers it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

from elmo_plugin.adapters import missing
from elmo_plugin.adapters.spacy_component import ElmoComponent

try:
    from thinc.api import Model, Shim
except ModuleNotFoundError:
    Model, Shim = missing("spacy"), missing("spacy")  # type: ignore[misc]


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


def _forward(
    layer: Any, docs: Sequence[Any], is_train: bool
) -> tuple[list[Any], Callable[[Any], list[Any]]]:
    (shim,) = layer.shims
    vectors = [layer.ops.asarray2f(x) for x in shim._model.vectors(docs)]
    return vectors, lambda gradients: []


def _init(layer: Any, X: Any = None, Y: Any = None) -> None:
    (shim,) = layer.shims
    layer.set_dim("nO", shim._model.elmo.output_dim)
