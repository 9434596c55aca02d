"""Public names that a package imports when they are used, because they need more than the rest."""

from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(package: str, modules: dict[str, str]) -> Callable[[str], Any]:
    """
    A package's `__getattr__` for public names. `modules`: the module of each name, relative to the
    package.
    """

    def get(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(modules[name], package), name)

    return get
