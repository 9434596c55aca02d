"""
Makes the component `elmo` known to spaCy, which imports this module (entry point `spacy_factories`
in `setup.py`) whenever it makes a pipeline. It is outside the package, so that only pipelines with
this component import PyTorch and, if the process uses AllenNLP, register the plugin. An editable
installation has a copy of it (`setup.py`), as of `elmo_plugin_torchvision.py`.
"""

from typing import Any

from spacy.language import Language


@Language.factory(
    "elmo",
    default_config={"model": "small", "layer": "average"},
    assigns=["doc.tensor", "doc.vector", "token.vector"],
)
def make_elmo(nlp: Language, name: str, model: str, layer: str | int) -> Any:
    from elmo_plugin.adapters.spacy_component import ElmoComponent

    return ElmoComponent(model, layer)
