"""These tests read a model's two files from a folder or a zip file. `test_fill.py` damages them."""

import shutil
import zipfile
from pathlib import Path

import numpy
import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from tests.conftest import BiLMFiles, untar, write_file

SENTENCE = "The dog ran ."


@pytest.fixture
def folder(bilm_files: BiLMFiles, tmp_path: Path) -> Path:
    """Return a folder as repositories publish it, with weights of any name next to other files."""
    folder = tmp_path / "170"
    folder.mkdir()
    shutil.copy(bilm_files.options_file, folder / "options.json")
    shutil.copy(bilm_files.weight_file, folder / "model.hdf5")
    (folder / "vocab.txt").write_text("<S>\n")
    (folder / "config.json").write_text('{"model_type": "elmo"}')  # of a hub
    return folder


@pytest.fixture
def expected(bilm_files: BiLMFiles) -> numpy.ndarray:
    """The vectors of the two files when they are named by their paths."""
    return Elmo.from_files(*bilm_files).embed(SENTENCE)


def zip_of(folder: Path, names: dict[str, str]) -> Path:
    """Write a zip file with the files of `folder` under other names."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in names.items():
            archive.writestr(name, (folder / file).read_bytes())
    return path


PUBLISHED = {"options.json": "options.json", "model.hdf5": "model.hdf5", "vocab.txt": "vocab.txt"}


@pytest.mark.parametrize(
    "names",
    [
        PUBLISHED,
        {f"170/{name}": file for name, file in PUBLISHED.items()},
        {f"./{name}": file for name, file in PUBLISHED.items()},
        {**PUBLISHED, "__MACOSX/._model.hdf5": "vocab.txt"},
    ],
)
def test_a_zip_file_is_a_model(folder: Path, expected: numpy.ndarray, names: dict) -> None:
    """The vectors are those of the files."""
    found = Elmo.from_files(zip_of(folder, names)).embed(SENTENCE)
    assert numpy.array_equal(found, expected)


OFFICIAL = "elmo_2x4096_512_2048cnn_2xhighway"


@pytest.mark.parametrize(
    "names",
    [
        {},
        {"model.hdf5": "elmo_with_softmax.hdf5"},  # one HDF5 file has the biLM in it
        {x: f"{OFFICIAL}_{x}" for x in ("options.json", "model.hdf5")},
    ],
)
def test_a_folder_is_a_model(folder: Path, expected: numpy.ndarray, names: dict[str, str]) -> None:
    """The vectors are those of the files, whatever they are called and whatever lies next to them:
    the names of the original ELMo begin with its sizes."""
    for name, other in names.items():
        (folder / name).rename(folder / other)
    assert numpy.array_equal(Elmo.from_archive(folder).embed(SENTENCE), expected)


def test_an_older_export_in_the_folder_of_a_run(folder: Path, bilm_archive: str) -> None:
    """The weights are those of the run."""
    expected = Elmo.from_archive(bilm_archive).embed(SENTENCE)
    untar(bilm_archive, folder)
    (folder / "model.hdf5").write_bytes(b"of an older run")
    assert numpy.array_equal(Elmo.from_archive(folder).embed(SENTENCE), expected)


@pytest.mark.parametrize(
    "other",
    ["model.hdf5", "old_softmax.hdf5", "model.ckpt-9.index", "encoder.pkl", "token_embedder.pkl"],
)
def test_a_model_is_not_written_beside_another(bilm_files, tmp_path: Path, other: str) -> None:
    """By definition: a folder never has two models, of which the other would be read. Nothing in it
    changes, and without the other model it is written."""
    elmo = Elmo.from_files(*bilm_files)
    write_file(tmp_path / "out" / other, b"another")
    with pytest.raises(InputError, match=f"out: expected a folder without another .* {other}$"):
        elmo.save(tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == [other]
    (tmp_path / "out" / other).unlink()
    elmo.save(tmp_path / "out")
    found = Elmo.from_archive(tmp_path / "out").embed(SENTENCE)
    assert numpy.array_equal(found, elmo.embed(SENTENCE))


TWO = {"options.json": "options.json", "a.h5": "model.hdf5", "b.h5": "model.hdf5"}


@pytest.mark.parametrize(
    "names, message",
    [
        ({"model.hdf5": "model.hdf5"}, "options.json in it, found none"),
        ({"options.json": "options.json"}, "HDF5 file .*in it, found none"),
        (TWO, r"HDF5 file or model\.hdf5 in it, found a\.h5, b\.h5"),
        ({**PUBLISHED, "weights.hdf5": "model.hdf5"}, r"HDF5 .*found model\.hdf5, weights\.hdf5"),
        (
            {"a_options.json": "options.json", "b_options.json": "options.json"},
            r"options\.json in it, found a_options\.json, b_options\.json",
        ),
    ],
)
def test_not_a_model(folder: Path, names: dict[str, str], message: str) -> None:
    """The message names the path, what was expected and what was found."""
    path = zip_of(folder, names)
    with pytest.raises(InputError, match=f"^{path}: expected one {message}"):
        Elmo.from_archive(path)
