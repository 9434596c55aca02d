"""
Replaces torchvision for AllenNLP 2.10.1, which imports it in three modules but uses it only in
image models. Each torchvision works only with the PyTorch version that it was built for. If no
working torchvision is installed, these three modules get an empty one.

The command `allennlp` imports PyTorch, then AllenNLP, then plugins. Therefore PyTorch calls
`install` each time it is imported (entry point `torch.backends` in `setup.py`), and this module is
outside the package, whose import needs PyTorch. An editable installation has a copy of it
(`setup.py`), because PyTorch would not be importable without it; `make` renews the copy. Remove it
when AllenNLP no longer imports torchvision.
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
    """
    Add a finder for the three modules. It never raises, because that would make `import torch`
    fail.
    """
    try:
        if _Finder not in sys.meta_path:
            sys.meta_path.insert(0, _Finder)
    except Exception:
        pass


class _Finder:
    """
    Finds AllenNLP's three modules as Python does, and executes them with a working or empty
    torchvision.
    """

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
    """An empty module. Using it raises an error that explains what is missing."""

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
    """
    Make torchvision importable in this context. The empty modules are removed at its end, so that
    other packages do not find them.
    """
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
