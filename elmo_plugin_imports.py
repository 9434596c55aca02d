"""
Changes how four modules of AllenNLP 2.10.1 and allennlp-models 2.10.1 are imported, and lets
packages be imported that need a home folder:

- Three modules import torchvision, but only image models use it. Each torchvision works only with
  the PyTorch version that it was built for. If no working torchvision is installed, these modules
  get an empty one.
- NarrativeQA's evaluation script, which every command imports, downloads NLTK's `punkt` and
  `wordnet`. Offline, that prints errors and may wait for a timeout. Moreover, current versions of
  NLTK read `punkt_tab` instead of `punkt`. The script is imported without the download. Calling it
  without the data raises NLTK's error, which explains how to download them.
- NLTK, and `cached_path`, which AllenNLP imports, raise an error at import if the user has no home
  folder: no HOME, and no entry in the passwd file, as in many containers.

The command `allennlp` imports PyTorch, then AllenNLP, then plugins. Therefore PyTorch calls
`install` each time it is imported (entry point `torch.backends` in `setup.py`), and this module is
outside the package, whose import needs PyTorch. An editable installation has a copy of it
(`setup.py`), because PyTorch would not be importable without it; `make` renews the copy. Remove it
when the four modules import nothing that they do not need.
"""

import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

IMPORT_TORCHVISION = {
    "allennlp.data.image_loader",
    "allennlp.modules.vision.grid_embedder",
    "allennlp.modules.vision.region_detector",
}
DOWNLOADS = "allennlp_models.rc.tools.narrativeqa"
IMPORTED = "torchvision", "torchvision.ops", "torchvision.ops.boxes"


def install() -> None:
    """
    Add a finder for the four modules, and set HOME if there is no home folder. It never raises,
    because that would make `import torch` fail.
    """
    with suppress(Exception):
        if _Finder not in sys.meta_path:
            sys.meta_path.insert(0, _Finder)
        if os.path.expanduser("~") == "~":
            os.environ["HOME"] = _private_folder()


def _private_folder() -> str:
    """
    A temporary folder that only this user can read and write. Its name is always the same, so that
    caches last; if another user took that name, it is a new folder.
    """
    folder = os.path.join(tempfile.gettempdir(), f"elmo_plugin-home-{os.geteuid()}")
    with suppress(FileExistsError):
        os.mkdir(folder, 0o700)
    found = os.lstat(folder)
    is_private = stat.S_ISDIR(found.st_mode) and not stat.S_IMODE(found.st_mode) & 0o077
    return folder if is_private and found.st_uid == os.geteuid() else tempfile.mkdtemp()


class _Finder:
    """
    Finds the four modules as Python does, and executes them with a working or empty torchvision,
    or without downloads.
    """

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != DOWNLOADS and name not in IMPORT_TORCHVISION:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            context = _without_downloads if name == DOWNLOADS else _empty_unless_it_loads
            execute = _executed_in(context, spec.loader.exec_module)
            spec.loader.exec_module = execute  # type: ignore
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


def _executed_in(
    context: Callable[[], AbstractContextManager[object]], execute: Callable[[ModuleType], None]
) -> Callable[[ModuleType], None]:
    def exec_module(module: ModuleType) -> None:
        with context():
            execute(module)

    return exec_module


def _without_downloads() -> AbstractContextManager[object]:
    from unittest.mock import patch  # slow to import

    return patch("nltk.download")


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
