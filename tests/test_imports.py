"""What AllenNLP's modules import instead of torchvision and downloads. Each test starts processes
of its own, because a module is imported once in a process."""

import json
import os
import sys
from pathlib import Path

import pytest

import elmo_plugin_imports
from tests.conftest import ROOT, python, without

IMPORT_TORCH = """
import json, sys
from importlib.util import find_spec
finders, found = list(sys.meta_path), find_spec("torchvision")
import torch
print(json.dumps([
    "elmo_plugin_imports" in sys.modules,
    [name for name in ("allennlp", "elmo_plugin", "torchvision") if name in sys.modules],
    [str(f) for f in sys.meta_path if "elmo_plugin_imports" in str(f) and f not in finders],
    find_spec("torchvision") == found,
]))
"""

IMPORT_ALLENNLP = f"""
import allennlp.nn.util
{without("torchvision")}
from allennlp.data import image_loader
from allennlp.modules.vision import grid_embedder, region_detector
sys.meta_path.remove(absent)
assert "torchvision" not in sys.modules
try:
    image_loader.torchvision.io.read_image("a.png")
except AttributeError as error:
    print(error)
"""

IMPORT_NARRATIVEQA = """
import torch, nltk
calls = []
nltk.download = download = lambda *arguments: calls.append(arguments)
from allennlp_models.rc.tools import narrativeqa
print(calls, nltk.download is download)
"""

# Stands for AllenNLP where a test looks only at the import.
IMAGE_LOADER = """
import torchvision
import torchvision.ops.boxes as boxes
from importlib.util import find_spec
assert find_spec("torchvision") is torchvision.__spec__
"""
REPORT = """
import json, sys
import elmo_plugin_imports
elmo_plugin_imports.install()
elmo_plugin_imports.install()
from allennlp.data import image_loader
print(json.dumps([
    image_loader.torchvision.__dict__.get("NAME"),
    image_loader.boxes.__name__,
    [name for name in sys.modules if name.startswith("torchvision")],
    sum("elmo_plugin_imports" in str(finder) for finder in sys.meta_path),
]))
"""


def last_line(script: str, folder: Path = ROOT) -> str:
    known = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    return python("-c", script, folder=folder, **known).stdout.splitlines()[-1]


def test_import_torch():
    """PyTorch has called the entry point, which adds one finder and imports nothing; whether there
    is a torchvision is as it was before."""
    called, imported, (finder,), same = json.loads(last_line(IMPORT_TORCH))
    assert called and same and not imported
    assert "_Finder" in finder


def test_allennlp_without_torchvision():
    """AllenNLP's three modules are imported, and only the use of an image is an error."""
    message = last_line(IMPORT_ALLENNLP)
    assert message.startswith(
        "torchvision.io is needed, and no torchvision is installed that loads"
    )


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.mark.parametrize(
    ("torchvision", "name", "left"),
    [
        ("NAME = 'a real one'", "a real one", ["", ".ops", ".ops.boxes"]),
        # that of a torchvision built for another PyTorch
        ("raise RuntimeError('operator torchvision::nms does not exist')", None, []),
        (None, None, []),
    ],
)
def test_a_torchvision_that_loads_wins(torchvision, name, left, tmp_path):
    """The modules on the path are written here: AllenNLP's with its two imports, and a torchvision
    that loads, one that fails half-way, and none."""
    init = {"allennlp/__init__.py": "", "allennlp/data/__init__.py": ""}
    _write(tmp_path, {**init, "allennlp/data/image_loader.py": IMAGE_LOADER})
    absent = "import sys; sys.modules['torchvision'] = None\n" if torchvision is None else ""
    files = {"__init__.py": f"import torchvision.ops.boxes\n{torchvision}", "ops/boxes.py": ""}
    _write(tmp_path / "torchvision", {**files, "ops/__init__.py": ""})
    found, boxes, modules, finders = json.loads(last_line(absent + REPORT, tmp_path))
    assert found == name and boxes == "torchvision.ops.boxes"
    assert sorted(modules) == [f"torchvision{part}" for part in left]
    assert finders == 1


def test_nothing_is_downloaded_at_import():
    """A module of allennlp-models, which every command imports, calls `nltk.download` twice. It has
    not been called after the import, and is NLTK's function again."""
    found = last_line(IMPORT_NARRATIVEQA)
    assert found == "[] True"


def test_import_torch_cannot_fail(monkeypatch):
    """A tuple has no `insert`, which stands for anything that can go wrong."""
    monkeypatch.setattr(sys, "meta_path", ())
    elmo_plugin_imports.install()
