"""Folders of all formats that are packed in one file."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest

from elmo_plugin import Elmo
from tests.conftest import write_bilm_archive, write_bilm_files
from tests.formats.test_elmoformanylangs import write_model
from tests.formats.tf_checkpoint.test_tf_checkpoint import make

FORMATS: dict[str, Callable[[Path], Any]] = {
    "bilm-tf": write_bilm_files,
    "archive": lambda folder: shutil.unpack_archive(write_bilm_archive(folder.parent), folder),
    "checkpoint": make,
    "ELMoForManyLangs": write_model,
}


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("kind", ["zip", "gztar"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_packed_folder(name: str, kind: str, inside: bool, tmp_path: Path) -> None:
    """It is packed with or without the folder's own name. The expected vectors are those of the
    folder."""
    folder = tmp_path / "model" / "de"
    folder.parent.mkdir()
    FORMATS[name](folder)
    (folder / "._options.json").write_text("of another system")
    (folder / "events.out").write_text("of a training")
    root = folder.parent if inside else folder
    path = shutil.make_archive(str(tmp_path / "packed"), kind, root)
    expected = Elmo.from_archive(folder).embed("the dog")
    assert numpy.array_equal(Elmo.from_archive(path).embed("the dog"), expected)
    assert numpy.array_equal(Elmo.from_archive(folder.parent).embed("the dog"), expected)
