"""What AllenNLP's modules import instead of torchvision and downloads, in processes of their own,
because a module is imported once in a process; and the home folder of users who have none."""

import json
import os
import pwd
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import elmo_plugin_imports
from tests.conftest import ROOT, python, without, write_file

IMPORT_TORCH = """
import json, os, sys
from importlib.util import find_spec
finders, found = list(sys.meta_path), find_spec("torchvision")
import torch
print(json.dumps([
    "elmo_plugin_imports" in sys.modules,
    [name for name in ("allennlp", "elmo_plugin", "torchvision") if name in sys.modules],
    [str(f) for f in sys.meta_path if "elmo_plugin_imports" in str(f) and f not in finders],
    find_spec("torchvision") == found,
    os.environ["HOME"],
]))
"""

IMPORT_ALLENNLP = f"""
import json, os, pwd, sys
def getpwuid(user):
    raise KeyError(user)
pwd.getpwuid = getpwuid
del os.environ["HOME"]
import torch, nltk, allennlp.nn.util
{without("torchvision")}
from allennlp.data import image_loader
from allennlp.modules.vision import grid_embedder, region_detector
sys.meta_path.remove(absent)
found = ["torchvision" in sys.modules]
try:
    image_loader.torchvision.io.read_image("a.png")
except AttributeError as error:
    found.append(str(error))
calls = []
nltk.download = download = lambda *arguments: calls.append(arguments)
from allennlp_models.rc.tools import narrativeqa
found += [calls, nltk.download is download]
import allennlp.commands
from allennlp.models import Model
from elmo_plugin import Elmo
Model.by_name("bilm")
vectors = Elmo.from_pretrained("tiny").embed("He ran. It rained.", raw=True)
print(json.dumps([*found, len(vectors), os.environ["HOME"]]))
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


def last_line(script: str, folder: Path = ROOT, **environment: str) -> Any:
    known = {"PYTHONPATH": f"{folder}{os.pathsep}{ROOT}"}
    done = python("-c", script, folder=folder, **known, **environment)
    return json.loads(done.stdout.splitlines()[-1])


def test_import_torch():
    """PyTorch has called the entry point, which adds one finder and imports nothing; whether there
    is a torchvision is as it was before. HOME is what the user set, also if there is no such
    folder."""
    called, imported, (finder,), same, home = last_line(IMPORT_TORCH, HOME="/nonexistent")
    assert called and same and not imported
    assert "_Finder" in finder
    assert home == "/nonexistent"


def test_import_allennlp(tmp_path, home_folder):
    """AllenNLP's three modules are imported without torchvision, and only the use of an image is an
    error. A module of allennlp-models, which every command imports, calls `nltk.download` twice:
    it has not been called after the import, and is NLTK's function again. Without a home folder,
    AllenNLP's commands are imported and raw text is split; there is one that only this user can
    read, the same in the next process. The plugin is registered if it is imported after
    AllenNLP."""
    found = last_line(IMPORT_ALLENNLP, TMPDIR=str(tmp_path))
    has_torchvision, message, calls, is_nltks, n_tokens, home = found
    assert message.startswith("torchvision.io is needed, and no torchvision is installed")
    assert not has_torchvision and calls == [] and is_nltks and n_tokens == 6
    assert home_folder() == Path(home)
    assert Path(home).parent == tmp_path and is_private(Path(home))


@pytest.fixture
def home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], Path]:
    """Returns the home folder of a user who has none: HOME is not set, and the passwd file does not
    have the user's number."""
    monkeypatch.setattr(pwd, "getpwuid", {}.__getitem__)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("HOME", "restored at the end")

    def install() -> Path:
        del os.environ["HOME"]
        elmo_plugin_imports.install()
        return Path(os.environ["HOME"])

    return install


def is_private(folder: Path) -> bool:
    found = folder.stat()
    return found.st_mode & 0o777 == 0o700 and found.st_uid == os.geteuid()


@pytest.mark.parametrize("kind", ["of another user", "writable", "link", "file"])
def test_a_folder_that_others_made(kind, tmp_path, home_folder):
    """By definition: the home folder is a new one instead of what others may write to."""
    taken, others = tmp_path / f"elmo_plugin-home-{os.geteuid()}", tmp_path / "others"
    others.mkdir(mode=0o700)
    if kind == "link":
        taken.symlink_to(others)
    elif kind == "file":
        taken.touch(mode=0o600)
    else:
        taken.mkdir(mode=0o700)
    if kind == "writable":
        taken.chmod(0o777)
    elif kind == "of another user":
        if os.geteuid() != 0:
            pytest.skip("only root can give a folder away")
        os.chown(taken, 54321, 54321)
    home = home_folder()
    assert home.parent == tmp_path and home not in (taken, others) and is_private(home)


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
    files = {"allennlp/__init__.py": "", "allennlp/data/__init__.py": ""}
    files["allennlp/data/image_loader.py"] = IMAGE_LOADER
    files["torchvision/__init__.py"] = f"import torchvision.ops.boxes\n{torchvision}"
    files |= {"torchvision/ops/__init__.py": "", "torchvision/ops/boxes.py": ""}
    for file, text in files.items():
        write_file(tmp_path / file, text)
    absent = "import sys; sys.modules['torchvision'] = None\n" if torchvision is None else ""
    found, boxes, modules, finders = last_line(absent + REPORT, tmp_path)
    assert found == name and boxes == "torchvision.ops.boxes"
    assert sorted(modules) == [f"torchvision{part}" for part in left]
    assert finders == 1


def test_import_torch_cannot_fail(monkeypatch):
    """A tuple has no `insert`, which stands for anything that can go wrong."""
    monkeypatch.setattr(sys, "meta_path", ())
    elmo_plugin_imports.install()
