"""Archives that are hostile or absurd give one clear error, run nothing and leave nothing behind.
`test_fill.py` damages archives and their weights."""

import gzip
import io
import json
import shutil
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from allennlp.models.archival import load_archive

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import DiskFullError
from elmo_plugin.files.torch_file import DamagedFileError
from elmo_plugin.formats import json_and_text
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.formats.format import FoundBiLM
from elmo_plugin.plugin.data.vocabulary import vocabulary_words
from tests.conftest import untar
from tests.formats.same import assert_same_model

Config = dict[str, Any]
FILES = ("config.json", "vocabulary", "best.th")

load_language_model = partial(find_bilm, with_softmax=True)


@pytest.fixture(autouse=True)
def unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder in which archives are unpacked."""
    folder = tmp_path / "unpacked"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@pytest.fixture
def run(bilm_archive: str, tmp_path: Path) -> Path:
    """Return the archive as the folder of a training run."""
    untar(bilm_archive, tmp_path / "run")
    (tmp_path / "run" / "weights.th").rename(tmp_path / "run" / "best.th")
    return tmp_path / "run"


def pack(folder: Path, archive_file: Path, level: int = 9) -> Path:
    with tarfile.open(archive_file, "w:gz", compresslevel=level) as archive:
        for name in FILES:
            archive.add(folder / name, arcname=name)
    return archive_file


def edit_config(folder: Path, edit: Callable[[Config], Any]) -> None:
    config = json.loads((folder / "config.json").read_text())
    edit(config)
    (folder / "config.json").write_text(json.dumps(config))


@pytest.fixture(autouse=True)
def no_popen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The class that a hostile config names, without a process."""
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("it was run"))


def put_popen(config: Config, trap: Path, *keys: str) -> None:
    for key in keys[:-1]:
        config = config.setdefault(key, {})
    config[keys[-1]] = {"type": "subprocess.Popen", "args": ["touch", str(trap)]}


def test_unneeded_parts_of_a_config_are_not_read(run, bilm_archive, tmp_path):
    """The archive loads as without the hostile parts, and the command is not run."""
    for key in ("dataset_reader", "validation_dataset_reader", "vocabulary", "trainer"):
        edit_config(run, lambda config, key=key: put_popen(config, tmp_path / "trap", key))
    for key in ("regularizer", "ddp_accelerator", "dropout", "vocab", "serialization_dir"):
        edit_config(run, lambda config, key=key: put_popen(config, tmp_path / "trap", "model", key))
    expected = load_language_model(bilm_archive)
    for named in (run, pack(run, tmp_path / "model.tar.gz")):
        assert_same_model(load_language_model(named), expected)
    assert not (tmp_path / "trap").exists()


HOSTILE: dict[str, Callable[[Config, Path], Any]] = {
    "model": lambda config, trap: put_popen(config, trap, "model"),
    "lstm": lambda config, trap: put_popen(config, trap, "model", "lstm"),
    "lstm.dim": lambda config, trap: put_popen(config, trap, "model", "lstm", "dim"),
    "pretrained": lambda config, trap: config["model"]["lstm"].update(
        _pretrained={"archive_file": str(trap), "module_path": "bilm"}
    ),
    "from_archive": lambda config, trap: config["model"].update(
        type="from_archive", archive_file=str(trap)
    ),
    "dotted": lambda config, trap: config["model"].update(type="os.mkdir", path=str(trap)),
}


@pytest.mark.parametrize("where", HOSTILE)
def test_a_hostile_config_is_refused(run, tmp_path, unpacked, where):
    """There is one error that begins with the archive. Nothing is run and nothing stays behind."""
    edit_config(run, lambda config: HOSTILE[where](config, tmp_path / "trap"))
    archive = pack(run, tmp_path / "model.tar.gz")
    with pytest.raises(InputError, match=f"^{archive}: "):
        load_language_model(archive)
    assert not (tmp_path / "trap").exists()
    assert not list(unpacked.iterdir())


def test_a_config_is_json(run, tmp_path):
    """The config is not read as jsonnet, which reads other files."""
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (run / "config.json").write_text(f"(import '{secret}') + {{model: {{type: 'bilm'}}}}")
    with pytest.raises(InputError, match=r"config\.json: expected a config in JSON"):
        load_language_model(run)


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


def write_archive(path: Path, members: list[tarfile.TarInfo], content: bytes = b"") -> Path:
    """Write a zip file or a `.tar.gz` with these members of the same content."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for info in members:
                file.writestr(info.name, content)
        return path
    with tarfile.open(path, "w:gz", format=tarfile.PAX_FORMAT) as tar:
        for info in members:
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
    return path


@pytest.mark.parametrize(
    "name, kind, link",
    [
        ("../../outside", tarfile.REGTYPE, ""),
        ("vocabulary/../../outside", tarfile.REGTYPE, ""),
        ("{tmp}/outside", tarfile.REGTYPE, ""),
        ("weights.th", tarfile.SYMTYPE, "{tmp}/outside"),
        ("vocabulary", tarfile.SYMTYPE, ".."),
        ("config.json", tarfile.LNKTYPE, "../../outside"),
        ("device", tarfile.CHRTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
        ("../../options.json", "zip", ""),
        ("a/../../options.json", "zip", ""),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_members_outside_the_folder_are_refused(tmp_path, name, kind, link, first):
    """Such a member may be anywhere in the archive. The error begins with the archive, and nothing
    is written, neither there nor in the folder of temporary files."""
    hostile = member(name.format(tmp=tmp_path), kind, link.format(tmp=tmp_path))
    own = [member("config.json"), member("best.th")]
    path = tmp_path / ("model.zip" if kind == "zip" else "model.tar.gz")
    archive = write_archive(path, [hostile, *own] if first else [*own, hostile])
    before = sorted(tmp_path.rglob("*"))
    message = f"^{archive}: expected (members inside|files and folders).* found"
    with pytest.raises(InputError, match=message):
        load_language_model(archive)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("n_bytes, n_headers", [((1 << 24) + 1, 1), (200, 2000)])
def test_names_that_fill_the_memory_or_the_stack_are_refused(tmp_path, n_bytes, n_headers):
    """GNU's long names come before a member as members of their own."""
    archive = tmp_path / "model.tar.gz"
    header = member("././@LongLink", tarfile.GNUTYPE_LONGNAME)
    header.size = n_bytes
    with tarfile.open(archive, "w:gz", format=tarfile.GNU_FORMAT, compresslevel=1) as tar:
        for _ in range(n_headers):
            tar.addfile(header, io.BytesIO(b"x" * n_bytes))
        tar.addfile(member("config.json"), io.BytesIO())
    with pytest.raises(InputError, match=r"expected a whole \.tar\.gz file, found damage"):
        Elmo.from_archive(archive)


@pytest.mark.parametrize(
    "names", [["config.json", "config.json/a.h5"], [f"{'a' * 300}.h5"]], ids=["twice", "long"]
)
def test_names_that_no_folder_has(tmp_path, names):
    """By hand: a file cannot also be a folder, and a name cannot have 300 letters."""
    path = write_archive(tmp_path / "model.tar.gz", list(map(member, names)))
    with pytest.raises(InputError, match=rf"^{path}: expected a whole \.tar\.gz file, found"):
        find_bilm(path)


SPARSE = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.realsize": str(1 << 21)}


@pytest.mark.parametrize("kind", ["tar.gz", "zip", "sparse.tar.gz"])
@pytest.mark.parametrize("name", ["config.json", "vocabulary/words.txt", "weights.th"])
def test_a_small_archive_of_a_huge_file_is_refused(tmp_path, kind, name, monkeypatch):
    """Its size is noticed before it is unpacked; limits of a megabyte stand for the real ones. A
    sparse file has its size in a header and no content."""
    for suffix in (".json", ".txt"):
        monkeypatch.setitem(json_and_text.MOST_BYTES, suffix, 1 << 20)
    monkeypatch.setattr(json_and_text, "FREE_BYTES", 0)
    info, content = member(name), bytes(1 << 21)
    if kind.startswith("sparse"):
        info.pax_headers = {**SPARSE, "GNU.sparse.name": name}
        content = b"1\n0\n1\n".ljust(512, b"\0")
    path = write_archive(tmp_path / f"model.{kind}", [info], content)
    with pytest.raises(InputError, match=f"^{path}: {name}: expected .* found 2,097,152"):
        load_language_model(path)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_an_archive_of_too_many_files_is_refused(tmp_path, kind, unpacked):
    """Each file takes space on the disk, even if it is empty. By definition: 1000 are the most, and
    nothing stays behind."""
    names = [f"{k}/options.json" for k in range(1001)]
    archive = write_archive(tmp_path / f"model.{kind}", list(map(member, names)))
    with pytest.raises(InputError, match=f"^{archive}: expected at most 1000 files of a model"):
        Elmo.from_archive(archive)
    assert not list(unpacked.iterdir())


def test_damage_after_the_last_member_is_noticed(bilm_archive, tmp_path):
    """tarfile stops at the end of the last member, and the checksum of gzip comes after that."""
    path = tmp_path / "damaged.tar.gz"
    data = bytearray(gzip.compress(gzip.decompress(Path(bilm_archive).read_bytes())))
    data[-5] ^= 1  # the checksum's last byte but the length's four
    path.write_bytes(data)
    load_archive(path)
    with pytest.raises(InputError, match=f"^{path}: .*CRC"):
        load_language_model(path)


def test_weights_without_checksums_are_refused(run):
    """PyTorch's format before 1.6 has no checksums."""
    state = torch.load(run / "best.th", weights_only=True)
    torch.save(state, run / "best.th", _use_new_zipfile_serialization=False)
    with pytest.raises(InputError):
        load_language_model(run)
    with pytest.raises(DamagedFileError):
        load_archive(run)


@pytest.mark.parametrize("name", ["config.json", "best.th", "vocabulary/words.txt"])
def test_a_missing_file_is_named(run, name):
    """The error begins with the folder and names the file."""
    (run / name).unlink()
    (run / "vocabulary" / "other.txt").touch()
    with pytest.raises(InputError, match=f"^{run}[:/].*{Path(name).name}"):
        load_language_model(run)


def test_keys_that_the_model_does_not_have(run):
    """Only the blocks of the biLM are read, and their keys are checked. Another model is not."""
    edit_config(run, lambda config: config["model"].update(more=1))
    load_language_model(run)
    edit_config(run, lambda config: config["model"]["lstm"].update(more=1))
    with pytest.raises(InputError, match=rf"^{run}: config\.json: model: lstm: unknown key more"):
        Elmo.from_archive(run)
    edit_config(run, lambda config: config["model"].update(type="simple_tagger"))
    with pytest.raises(InputError, match="of type bilm, found 'simple_tagger'"):
        load_language_model(run)


def test_the_folder_is_only_read(run):
    """An honest config has keys that only training needs. The oracle is AllenNLP's own loading,
    which would leave a lock in the vocabulary."""
    regularizer = {"regexes": [[".*", {"type": "l2", "alpha": 0.1}]]}
    needless = {"regularizer": regularizer, "pretrained_file": "gone.tar.gz"}
    edit_config(run, lambda config: config["model"].update(needless))
    (run / "vocabulary" / ".lock").unlink()
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    found = load_language_model(run)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    expected = load_archive(run).model
    words = vocabulary_words(expected.vocab)
    assert_same_model(found, FoundBiLM(expected.bilm, expected.softmax, words))


def test_an_archive_without_compression(run, tmp_path):
    """Its end may look like that of a zip file, as which PyTorch stores weights. The vectors are
    those of the folder."""
    path = pack(run, tmp_path / "model.tar.gz", level=0)
    assert zipfile.is_zipfile(path)
    found = Elmo.from_archive(path).embed("the dog")
    assert numpy.array_equal(found, Elmo.from_archive(run).embed("the dog"))


def test_a_full_disk_is_named(bilm_archive, unpacked, monkeypatch):
    """The error is the operating system's own, as writing raises it."""

    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(shutil, "copyfileobj", full)
    with pytest.raises(DiskFullError, match=f"^{bilm_archive}, unpacked in {unpacked}: .*No space"):
        load_language_model(bilm_archive)
    assert not list(unpacked.iterdir())
