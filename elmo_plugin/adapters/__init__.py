"""
ELMo for other libraries. Each adapter can be imported even if its library is not installed, because
`--include-package` imports all of them.
"""

from typing import TYPE_CHECKING, Any

from elmo_plugin.checks import available_device, check_path, fail, is_whole
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.lazy import lazily
from elmo_plugin.modules import BiLM

if TYPE_CHECKING:
    from elmo_plugin.adapters.flair_embeddings import ElmoEmbeddings
    from elmo_plugin.adapters.sklearn_transformer import ElmoVectors
    from elmo_plugin.adapters.spacy_component import set_hooks

__all__ = ["ElmoEmbeddings", "ElmoVectors", "set_hooks"]
__getattr__ = lazily(
    __name__,
    {
        "ElmoEmbeddings": ".flair_embeddings",
        "ElmoVectors": ".sklearn_transformer",
        "set_hooks": ".spacy_component",
    },
)


def missing(package: str) -> Any:
    """A base class instead of those of a package that is not installed."""

    class Missing:
        def __new__(cls, *_: Any, **__: Any) -> Any:
            raise ImportError(
                f"{cls.__name__} needs {package}, which is not installed: pip install {package}"
            )

    return Missing


def load_model(model: Any, device: Any = "cpu", **settings: Any) -> Elmo:
    """
    The model that `Elmo.from_archive` loads, or that of a `BiLM`, frozen and on its device. Its
    vectors for a sentence do not depend on other sentences. `settings`: `precision`
    and `initial_state` of `Elmo`, by default those of the model, with `warm` instead of `carry`.

    Raises an `InputError` if there is no such device, or if another parameter has a wrong value.
    """
    device = available_device("device", device)
    options = {name: value for name, value in settings.items() if value is not None}
    if options.get("initial_state") == "carry":
        fail("initial_state", "zero or warm, as sentences are read in any order", "carry")
    if isinstance(model, BiLM):
        elmo = Elmo(model, requires_grad=False, **options)
    else:
        check_path("model", model)
        elmo = Elmo.from_archive(model, **options)
    if elmo.initial_state == "carry":
        elmo.initial_state = "warm"
    return elmo.eval().to(device)


def check_has_one_vector(layer: Any) -> None:
    """Raise an `InputError` if `Elmo.embed` gives several vectors per token for this layer."""
    if not (isinstance(layer, str) or is_whole(layer)) or layer == "all":
        fail("layer", "one that has a single vector per token, such as average", layer)
