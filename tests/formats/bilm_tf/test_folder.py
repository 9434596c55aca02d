"""These tests read a model's two files from a folder or a zip file."""

import shutil
import tarfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy
import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.formats.bilm_tf.folder import model_files
from elmo_plugin.formats.find import NEEDED
from elmo_plugin.formats.unpack import unpacked
from tests.damage import damage

SENTENCE = "The dog ran ."


@pytest.fixture
def folder(bilm_files, tmp_path) -> Path:
    """Return a folder as repositories publish it, with weights of any name next to other files."""
    folder = tmp_path / "170"
    folder.mkdir()
    shutil.copy(bilm_files.options_file, folder / "options.json")
    shutil.copy(bilm_files.weight_file, folder / "model.hdf5")
    (folder / "vocab.txt").write_text("<S>\n")
    return folder


def zip_of(folder: Path, names: dict[str, str]) -> Path:
    """Write a zip file with the files of `folder` under other names, and with others."""
    path = folder.with_suffix(".zip")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, file in names.items():
            archive.write(folder / file, name)
    return path


PUBLISHED = {"options.json": "options.json", "model.hdf5": "model.hdf5", "vocab.txt": "vocab.txt"}
ONE = {"model.hdf5": "model.hdf5"}


@contextmanager
def files_of(path: Path) -> Iterator[tuple[Path, Path]]:
    """The options and the weights in a zip file that is unpacked."""
    with unpacked(path, NEEDED) as inside:
        if inside == path:
            raise InputError(f"{path}: another kind of file")
        yield model_files(inside)


def test_a_folder_or_a_zip_file_is_a_model(folder, bilm_files):
    """The vectors equal those of the two files when they are named by their paths."""
    expected = Elmo.from_files(*bilm_files).embed(SENTENCE)
    inside = {f"170/{name}": file for name, file in PUBLISHED.items()}
    hidden = {**PUBLISHED, "__MACOSX/._model.hdf5": "vocab.txt"}
    for path in (folder, *(zip_of(folder, names) for names in (PUBLISHED, inside, hidden))):
        assert numpy.array_equal(Elmo.from_files(path).embed(SENTENCE), expected)


def test_an_only_file_with_softmax_in_its_name(folder, bilm_files):
    """By definition: a folder with one HDF5 file has the biLM in it."""
    (folder / "model.hdf5").rename(folder / "elmo_with_softmax.hdf5")
    expected = Elmo.from_files(*bilm_files).embed(SENTENCE)
    assert numpy.array_equal(Elmo.from_archive(folder).embed(SENTENCE), expected)


@pytest.mark.parametrize(
    "other",
    ["model.hdf5", "old_softmax.hdf5", "model.ckpt-9.index", "encoder.pkl", "token_embedder.pkl"],
)
def test_a_model_is_not_written_beside_another(bilm_files, tmp_path, other):
    """By definition: a folder never has two models, of which the other would be read. Nothing in it
    changes, and without the other model it is written."""
    elmo = Elmo.from_files(*bilm_files)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / other).write_bytes(b"another")
    with pytest.raises(InputError, match=f"out: expected a folder without another .* {other}$"):
        elmo.save(tmp_path / "out")
    assert [file.name for file in (tmp_path / "out").iterdir()] == [other]
    (tmp_path / "out" / other).unlink()
    elmo.save(tmp_path / "out")
    found = Elmo.from_archive(tmp_path / "out").embed(SENTENCE)
    assert numpy.array_equal(found, elmo.embed(SENTENCE))


def test_published_names(folder, bilm_files):
    """The names of the original ELMo's files: they begin with the sizes of the model."""
    expected = Elmo.from_files(*bilm_files).embed(SENTENCE)
    (folder / "options.json").rename(folder / "elmo_2x4096_512_2048cnn_2xhighway_options.json")
    (folder / "model.hdf5").rename(folder / "elmo_2x4096_512_2048cnn_2xhighway_weights.hdf5")
    assert numpy.array_equal(Elmo.from_archive(folder).embed(SENTENCE), expected)


def test_the_config_of_another_program(folder, bilm_files):
    """Folders on hubs have one with the facts of the hub."""
    (folder / "config.json").write_text('{"model_type": "elmo"}')
    expected = Elmo.from_files(*bilm_files).embed(SENTENCE)
    assert numpy.array_equal(Elmo.from_archive(folder).embed(SENTENCE), expected)


def test_an_older_export_in_the_folder_of_a_run(folder, bilm_archive):
    """The weights are those of the run."""
    expected = Elmo.from_archive(bilm_archive).embed(SENTENCE)
    with tarfile.open(bilm_archive) as archive:
        archive.extractall(folder)
    (folder / "model.hdf5").write_bytes(b"of an older run")
    assert numpy.array_equal(Elmo.from_archive(folder).embed(SENTENCE), expected)


def test_a_small_zip_file_with_huge_options(folder):
    """The size is in the zip file's own list, and nothing is unpacked."""
    (folder / "options.json").write_bytes(b" " * ((1 << 24) + 1))
    path = zip_of(folder, PUBLISHED)
    with pytest.raises(InputError, match=r"options\.json: expected at most .* found 16,777,217"):
        Elmo.from_files(path)


def test_names_that_begin_with_the_current_folder(folder, bilm_files):
    """Some programs write them so. The weights are those of the folder."""
    path = folder.with_name("other.zip")
    with zipfile.ZipFile(path, "w") as archive:
        for name in ("options.json", "model.hdf5"):
            archive.writestr(f"./{name}", (folder / name).read_bytes())
    with files_of(path) as files:
        assert files[1].read_bytes() == Path(bilm_files.weight_file).read_bytes()
    assert not files[0].exists() and not files[1].exists()


@pytest.mark.parametrize("name", ["../../options.json", "a/../../options.json"])
def test_a_zip_file_with_files_outside_its_folder(folder, name):
    """It is refused, as a `.tar.gz` with such a file, and no file is written."""
    path = zip_of(folder, {name: "options.json", "model.hdf5": "model.hdf5"})
    before = sorted(path.parent.rglob("*"))
    with pytest.raises(InputError, match=f"^{path}: expected members inside"), files_of(path):
        pass
    assert sorted(path.parent.rglob("*")) == before


@pytest.mark.parametrize(
    "names, message",
    [
        ({"model.hdf5": "model.hdf5"}, "expected one options.json in it, found none"),
        ({"options.json": "options.json"}, "expected one HDF5 file .*in it, found none"),
        (
            {"options.json": "options.json", "a.h5": "model.hdf5", "b.h5": "model.hdf5"},
            r"expected one HDF5 file or model\.hdf5 in it, found a\.h5, b\.h5",
        ),
        (
            {**PUBLISHED, "weights.hdf5": "model.hdf5"},
            r"expected one HDF5 file .* in it, found model\.hdf5, weights\.hdf5",
        ),
        (
            {"a_options.json": "options.json", "b_options.json": "options.json", **ONE},
            r"expected one options\.json in it, found a_options\.json, b_options\.json",
        ),
    ],
)
def test_not_a_model(folder, names, message):
    """The message names the path, what was expected and what was found."""
    path = zip_of(folder, names)
    with pytest.raises(InputError, match=f"^{path}: {message}"), files_of(path):
        pass


def test_a_damaged_zip_file(folder, fuzz):
    """A damaged zip file gives an error that names it, or the bytes of the two files."""
    path = zip_of(folder, PUBLISHED)
    whole = path.read_bytes()
    expected = [(folder / name).read_bytes() for name in ("options.json", "model.hdf5")]
    for random in fuzz.cases(60):
        way, data = damage(whole, random)
        path.write_bytes(data)
        try:
            with files_of(path) as files:
                assert [file.read_bytes() for file in files] == expected, way
        except InputError as error:
            assert str(path) in str(error), way
