"""`--include-package` imports a package's own modules, and no file of the current folder."""

import json
import sys
from pathlib import Path

import pytest
from allennlp.common.util import import_module_and_submodules

import allennlp_today  # noqa: F401
from tests.conftest import ROOT, python

RAISES = "raise SystemExit('this is no module of the package')\n"


def test_a_package_with_the_names_of_other_files(tmp_path, monkeypatch):
    """By definition: all modules of the package and of its sub-packages, except private ones and
    tests, which AllenNLP leaves out."""
    for name in ("readers/__init__", "readers/csv", "models/__init__", "models/deep/__init__"):
        file = tmp_path / "mine" / f"{name}.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
    for name in ("mine/__init__", "mine/models/deep/tagger", "mine/training"):
        (tmp_path / f"{name}.py").touch()
    for name in ("mine/_private", "mine/test_mine", "readers", "models", "training"):
        (tmp_path / f"{name}.py").write_text(RAISES)
    monkeypatch.chdir(tmp_path)
    import_module_and_submodules("mine")
    found = {name for name in sys.modules if name.partition(".")[0] == "mine"}
    names = ("readers", "readers.csv", "models", "models.deep", "models.deep.tagger", "training")
    assert found == {"mine", *(f"mine.{name}" for name in names)}


FIRST_IMPORT = """
import json, sys
from allennlp.common.util import import_module_and_submodules
assert "allennlp_today" not in sys.modules
import_module_and_submodules("elmo_plugin")
names = {name for name in sys.modules if name.startswith("elmo_plugin.")}
print(json.dumps([len(names), [n for n in sys.modules if n.partition(".")[0] in ("text", "elmo")]]))
"""


@pytest.mark.long
def test_the_call_that_imports_the_patch(tmp_path: Path) -> None:
    """By definition. The current folder has a script whose name is that of a sub-package, and a
    clone in a folder whose name is that of another. With AllenNLP's own function the first ends the
    program, and the second imports modules that are not there."""
    (tmp_path / "text.py").write_text(RAISES)
    (tmp_path / "elmo").mkdir()
    (tmp_path / "elmo" / "elmo_plugin").symlink_to(ROOT / "elmo_plugin")
    found = json.loads(python("-c", FIRST_IMPORT, folder=tmp_path).stdout.splitlines()[-1])
    n_files = sum(1 for file in (ROOT / "elmo_plugin").rglob("*.py") if file.name != "__main__.py")
    assert found == [n_files - 1, []]  # without the package itself
