"""
ELMo for other libraries. Each module can be imported without its library, because
`--include-package` imports all of them.
"""

from typing import Any

from elmo_plugin.checks import available_device, check_choice, check_path, fail
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.modules.bilm import INITIAL_STATES


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


def load_model(
    model: Any,
    layer: Any,
    *,
    device: Any = "cpu",
    precision: str | None = None,
    initial_state: str | None = None,
) -> Elmo:
    """
    The model that `Elmo.from_archive` loads, or that of a `BiLM`, frozen and on its device. It has
    the same vectors for a sentence whatever is read before it or with it. `initial_state`: `"warm"`
    or `"zero"`; by default the saved one, but `"warm"` instead of `"carry"`. `precision`: see
    `Elmo`.

    Raises an `InputError` if there is no such device, if another parameter has a wrong value, or if
    `layer` is a mix with layer norm, whose statistics are those of a whole batch.
    """
    device = available_device("device", device)
    options: dict[str, Any] = {"precision": precision}
    if initial_state is not None:
        states = [state for state in INITIAL_STATES if state != "carry"]
        check_choice("initial_state", initial_state, states)
        options["initial_state"] = initial_state
    if isinstance(model, BiLM):
        elmo = Elmo(model, requires_grad=False, **options)
    else:
        check_path("model", model)
        elmo = Elmo.from_archive(model, **options)
    if elmo.initial_state == "carry":
        elmo.initial_state = "warm"
    if layer == "mix" and elmo.mixes[0].do_layer_norm:
        fail("layer", "another than the mix of this model, whose layer norm is of a batch", layer)
    return elmo.eval().to(device)


def check_has_one_vector(layer: Any) -> None:
    """Raise an `InputError` if `Elmo.embed` gives several vectors per token for this layer."""
    if layer == "all":
        fail("layer", "one that has a single vector per token, such as average", layer)
