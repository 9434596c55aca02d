"""
ELMo for other libraries. Each module can be imported without its library, because
`--include-package` imports all of them.
"""

from typing import Any

from elmo_plugin.checks import check_path, fail
from elmo_plugin.elmo.elmo import Elmo


def missing(package: str) -> Any:
    """A base class in place of those of a package that is not installed."""

    class Missing:
        def __new__(cls, *_: Any, **__: Any) -> Any:
            raise ImportError(
                f"{cls.__name__} needs {package}, which is not installed: pip install {package}"
            )

    return Missing


def one_token(text: str) -> str:
    """A token of another library as one of a biLM, which is not empty and has no white space."""
    return "_".join(text.split()) or "_"


def load_model(model: Any, layer: Any) -> Elmo:
    """
    The model that `Elmo.from_archive` loads, with the same vectors for a sentence whatever is read
    before it or with it: `warm` replaces a saved `carry`. Raises an `InputError` if `layer` is a
    mix with layer norm, whose statistics are those of a whole batch.
    """
    check_path("model", model)
    elmo = Elmo.from_archive(model).eval()
    if elmo.initial_state == "carry":
        elmo.initial_state = "warm"
    if layer == "mix" and elmo.mixes[0].do_layer_norm:
        fail("layer", "another than the mix of this model, whose layer norm is of a batch", layer)
    return elmo


def check_has_one_vector(layer: Any) -> None:
    """Raise an `InputError` if `Elmo.embed` gives several vectors per token for this layer."""
    if layer == "all":
        fail("layer", "one that has a single vector per token, such as average", layer)
