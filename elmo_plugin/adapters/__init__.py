"""
ELMo for other libraries. Each module can be imported without its library, because
`--include-package` imports all of them.
"""

from typing import Any

from elmo_plugin.checks import fail


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


def check_has_one_vector(layer: Any) -> None:
    """Raise an `InputError` if `Elmo.embed` gives several vectors per token for this layer."""
    if layer == "all":
        fail("layer", "one that has a single vector per token, such as average", layer)
