"""
AllenNLP 2.10.1 imports torchvision in three modules and uses nothing of it before a model of images
is built. A torchvision loads only next to the PyTorch that it was built for, and none of them loads
next to every PyTorch. Where there is none that loads, this gives these three modules an empty one.

The command `allennlp` imports AllenNLP before it imports a plugin, and PyTorch before both. So
PyTorch calls `install` each time it is imported (entry point `torch.backends` in `setup.py`), and
this is a module outside the package, whose import would need PyTorch. It can go when AllenNLP
imports without torchvision.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

IMPORT_TORCHVISION = {
    "allennlp.data.image_loader",
    "allennlp.modules.vision.grid_embedder",
    "allennlp.modules.vision.region_detector",
}
IMPORTED = "torchvision", "torchvision.ops", "torchvision.ops.boxes"


def install() -> None:
    """Adds a finder of the three modules. It never raises, as `import torch` would fail with it."""
    try:
        if _Finder not in sys.meta_path:
            sys.meta_path.insert(0, _Finder)
    except Exception:
        pass


class _Finder:
    """Finds AllenNLP's three modules as Python does, and executes them with some torchvision."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name not in IMPORT_TORCHVISION:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module
            spec.loader.exec_module = _with_torchvision(execute)  # type: ignore
        return spec


class _Empty(ModuleType):
    """A module without content, whose use is an error that says what is missing."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.__spec__ = ModuleSpec(name, None, is_package=True)
        self.__path__: list[str] = []

    def __getattr__(self, name: str) -> object:
        # Python looks in `sys.modules` for `import torchvision.ops.boxes as ...` after this.
        raise AttributeError(
            f"{self.__name__}.{name} is needed, and no torchvision is installed that loads next to "
            "this PyTorch: https://pytorch.org tells which one does"
        )


def _with_torchvision(execute: Callable[[ModuleType], None]) -> Callable[[ModuleType], None]:
    def exec_module(module: ModuleType) -> None:
        with _empty_unless_it_loads():
            execute(module)

    return exec_module


@contextmanager
def _empty_unless_it_loads() -> Iterator[None]:
    """While in this context, torchvision can be imported. The empty modules are removed at its end,
    so that other packages still find that there is none."""
    if _loads():
        yield
        return
    absent = [name for name in IMPORTED if name not in sys.modules]
    sys.modules.update((name, _Empty(name)) for name in absent)
    try:
        yield
    finally:
        _remove(absent)


@cache
def _loads() -> bool:
    try:
        import_module("torchvision.ops.boxes")
        return True
    except Exception:  # absent, or built for another PyTorch
        _remove([name for name in sys.modules if name.partition(".")[0] == "torchvision"])
        return False


def _remove(names: Iterable[str]) -> None:
    for name in names:
        sys.modules.pop(name, None)
