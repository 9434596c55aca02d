"""
Makes the component `elmo` and the layer `elmo_plugin.ElmoTok2Vec.v1` known to spaCy, which imports
this module (entry points in `setup.py`) whenever it makes a pipeline or such a layer. It is outside
the package, so that only pipelines with one of these import PyTorch and, if the process uses
AllenNLP, register the plugin. An editable installation has a copy of it (`setup.py`), as of
`elmo_plugin_imports.py`.
"""

from typing import Any

from spacy import registry
from spacy.language import Language

DEFAULTS = {
    "model": "small",
    "layer": "average",
    "device": "cpu",
    "precision": None,
    "initial_state": None,
}


@Language.factory(
    "elmo", default_config=DEFAULTS, assigns=["doc.tensor", "doc.vector", "token.vector"]
)
def make_elmo(
    nlp: Language,
    name: str,
    model: str,
    layer: str | int,
    device: str,
    precision: str | None,
    initial_state: str | None,
) -> Any:
    return _component(model, layer, device=device, precision=precision, initial_state=initial_state)


@registry.architectures("elmo_plugin.ElmoTok2Vec.v1")
def make_tok2vec(
    model: str = "small",
    layer: str | int = "average",
    device: str = "cpu",
    precision: str | None = None,
    initial_state: str | None = None,
) -> Any:
    from elmo_plugin.adapters.spacy_component import tok2vec_layer

    return tok2vec_layer(
        _component(model, layer, device=device, precision=precision, initial_state=initial_state)
    )


def _component(model: str, layer: str | int, **settings: Any) -> Any:
    from elmo_plugin.adapters.spacy_component import ElmoComponent

    return ElmoComponent(model, layer, **settings)
