"""Archives that are hostile, damaged or absurd give one clear error and leave nothing behind."""

import gzip
import io
import json
import math
import os
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
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from tests.conftest import Fuzz
from tests.damage import damage

Config = dict[str, Any]

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
    with tarfile.open(bilm_archive) as archive:
        archive.extractall(tmp_path / "run")
    (tmp_path / "run" / "weights.th").rename(tmp_path / "run" / "best.th")
    return tmp_path / "run"


def pack(folder: Path, archive_file: Path) -> Path:
    with tarfile.open(archive_file, "w:gz") as archive:
        for name in ("config.json", "best.th", "vocabulary"):
            archive.add(folder / name, arcname=name)
    return archive_file


def edit_config(folder: Path, edit: Callable[[Config], Any]) -> None:
    config = json.loads((folder / "config.json").read_text())
    edit(config)
    (folder / "config.json").write_text(json.dumps(config))


def check_same(found: FoundBiLM | BiLMModel, expected: FoundBiLM, message: str = "") -> None:
    """Compare weights, options and vocabulary."""
    assert found.bilm.options == expected.bilm.options, message
    words = found.words if isinstance(found, FoundBiLM) else vocabulary_words(found.vocab)
    assert words == expected.words, message
    for one, other in ((found.bilm, expected.bilm), (found.softmax, expected.softmax)):
        assert one.state_dict().keys() == other.state_dict().keys(), message
        for name, tensor in other.state_dict().items():
            assert torch.equal(one.state_dict()[name], tensor), (name, message)


@pytest.fixture(autouse=True)
def popen_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the class that a hostile config names with one that starts no process."""

    class Popen:
        def __init__(self, args: list[str]) -> None:
            Path(args[1]).touch()

    monkeypatch.setattr(subprocess, "Popen", Popen)


def popen(trap: Path) -> Config:
    return {"type": "subprocess.Popen", "args": ["touch", str(trap)]}


def popen_in(*keys: str) -> Callable[[Config, Path], None]:
    def put(config: Config, trap: Path) -> None:
        for key in keys[:-1]:
            config = config.setdefault(key, {})
        config[keys[-1]] = popen(trap)

    return put


@pytest.mark.parametrize(
    "keys",
    [
        ("dataset_reader",),
        ("validation_dataset_reader",),
        ("vocabulary",),
        ("trainer",),
        ("model", "regularizer"),
        ("model", "ddp_accelerator"),
        ("model", "dropout"),
        ("model", "vocab"),
        ("model", "serialization_dir"),
    ],
    ids=".".join,
)
@pytest.mark.parametrize("packed", [True, False])
def test_unneeded_parts_of_a_config_are_not_read(run, bilm_archive, tmp_path, keys, packed):
    """The archive loads as without the hostile part, and the command is not run."""
    trap = tmp_path / "trap"
    edit_config(run, lambda config: popen_in(*keys)(config, trap))
    archive = pack(run, tmp_path / "model.tar.gz") if packed else run
    check_same(load_language_model(archive), load_language_model(bilm_archive))
    assert not trap.exists()


HOSTILE: dict[str, Callable[[Config, Path], None]] = {
    "model": popen_in("model"),
    "lstm": popen_in("model", "lstm"),
    "lstm.dim": popen_in("model", "lstm", "dim"),
    "embedding": popen_in("model", "char_cnn", "embedding"),
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
    trap = tmp_path / "trap"
    edit_config(run, lambda config: HOSTILE[where](config, trap))
    archive = pack(run, tmp_path / "model.tar.gz")
    with pytest.raises(InputError, match=f"^{archive}: "):
        load_language_model(archive)
    assert not trap.exists()
    assert not list(unpacked.glob("tmp*"))


def test_a_config_is_json(run, tmp_path):
    """The config is not read as jsonnet, which reads other files."""
    secret = tmp_path / "secret.json"
    secret.write_text("{}")
    (run / "config.json").write_text(f"(import '{secret}') + {{model: {{type: 'bilm'}}}}")
    with pytest.raises(InputError, match=r"config\.json: expected a config in JSON"):
        load_language_model(run)


def test_weights_that_run_code_are_refused(run, tmp_path):
    """The pickled object would make a folder."""

    class Trap:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "trap"),)

    torch.save({"bilm": Trap()}, run / "best.th")
    with pytest.raises(InputError, match=r"best\.th: expected tensors and plain .*\.mkdir"):
        load_language_model(run)
    assert not (tmp_path / "trap").exists()


def member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


@pytest.mark.parametrize(
    "name, kind, link",
    [
        ("../../outside", tarfile.REGTYPE, ""),
        ("vocabulary/../../outside", tarfile.REGTYPE, ""),
        ("{tmp}/outside", tarfile.REGTYPE, ""),
        ("../outside", tarfile.DIRTYPE, ""),
        ("weights.th", tarfile.SYMTYPE, "{tmp}/outside"),
        ("vocabulary", tarfile.SYMTYPE, ".."),
        ("config.json", tarfile.LNKTYPE, "../../outside"),
        ("device", tarfile.CHRTYPE, ""),
        ("block", tarfile.BLKTYPE, ""),
        ("pipe", tarfile.FIFOTYPE, ""),
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_members_outside_the_folder_are_refused(run, tmp_path, unpacked, name, kind, link, first):
    """Such a member may be anywhere in the archive. The error begins with the archive, and nothing
    is written, neither there nor in the folder of temporary files."""
    hostile = member(name.format(tmp=tmp_path), kind, link.format(tmp=tmp_path))
    archive = tmp_path / "model.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        for info in [hostile, None] if first else [None, hostile]:
            if info is not None:
                tar.addfile(info, io.BytesIO())
            else:
                for own in ("config.json", "best.th", "vocabulary"):
                    tar.add(run / own, arcname=own)
    before = sorted(tmp_path.rglob("*"))
    for load in (load_language_model, Elmo.from_archive):
        message = f"^{archive}: expected (members inside|files and folders).* found"
        with pytest.raises(InputError, match=message):
            load(archive)
    assert sorted(tmp_path.rglob("*")) == before
    assert not list(unpacked.glob("tmp*"))


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


@pytest.mark.parametrize("name", ["config.json", "vocabulary/words.txt"])
def test_a_small_archive_of_a_huge_text_is_refused(run, tmp_path, name, monkeypatch):
    """Its size is noticed before it is read; a limit of a megabyte stands for the real ones. A
    sparse file has its size in a header and no content."""
    monkeypatch.setitem(json_and_text.MOST_BYTES, Path(name).suffix, 1 << 20)
    archive = tmp_path / "model.tar.gz"
    for is_sparse in (False, True):
        info = member(name, tarfile.REGTYPE, "")
        headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0", "GNU.sparse.name": name}
        info.pax_headers = {**headers, "GNU.sparse.realsize": str(1 << 21)} if is_sparse else {}
        text = b"1\n0\n1\n".ljust(512, b"\0") if is_sparse else bytes(1 << 21)
        info.size = len(text)
        with tarfile.open(archive, "w:gz", format=tarfile.PAX_FORMAT) as tar:
            tar.addfile(info, io.BytesIO(text))
        with pytest.raises(InputError, match=f"{name}: expected .* found 2,097,152"):
            load_language_model(archive)


@pytest.mark.parametrize("kind", ["tar.gz", "zip"])
def test_an_archive_of_too_many_files_is_refused(tmp_path, kind, unpacked):
    """Each file takes space on the disk, even if it is empty. By definition: 1000 are the most, and
    nothing stays behind."""
    archive = tmp_path / f"model.{kind}"
    names = [f"{k}/options.json" for k in range(1001)]
    if kind == "zip":
        with zipfile.ZipFile(archive, "w") as file:
            for name in names:
                file.writestr(name, b"")
    else:
        with tarfile.open(archive, "w:gz") as tar:
            for name in names:
                tar.addfile(member(name), io.BytesIO())
    with pytest.raises(InputError, match=f"^{archive}: expected at most 1000 files of a model"):
        Elmo.from_archive(archive)
    assert not list(unpacked.glob("tmp*"))


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("name", ["bilm.bilstm.layers.0.bias", "bilm.warm_state.output"])
def test_numbers_that_are_not_finite_are_refused(run, name, number):
    """They would give NaN as vectors."""
    state = torch.load(run / "best.th", weights_only=True)
    state[name].view(-1)[3] = number
    torch.save(state, run / "best.th")
    with pytest.raises(InputError, match=f"^{run}: {name}: expected finite numbers"):
        Elmo.from_archive(run)


def set_size(block: str, key: str, value: Any) -> Callable[[Config], None]:
    return lambda config: config["model"][block].update({key: value})


@pytest.mark.parametrize(
    "edit",
    [
        set_size("lstm", "n_layers", 20000),
        set_size("lstm", "n_layers", 3),
        set_size("lstm", "dim", 10**9),
        set_size("lstm", "dim", 10**18),
        set_size("lstm", "dim", 10**30),
        set_size("lstm", "projection_dim", 10**9),
        set_size("char_cnn", "embedding", {"dim": 10**9}),
        set_size("char_cnn", "filters", [[1, 10**9]]),
        set_size("char_cnn", "filters", [[1, 4]] * 100_000),
        set_size("char_cnn", "n_highway", 10**9),
    ],
)
def test_sizes_are_compared_before_memory_is_taken(run, edit, monkeypatch):
    """Modules are built only without memory, on PyTorch's device "meta"."""
    edit_config(run, edit)
    init = torch.nn.Module.__init__

    def only_meta(*args: Any, **kwargs: Any) -> None:
        assert isinstance(args[0], torch.nn.ModuleDict) or torch.empty(0).device.type == "meta"
        init(*args, **kwargs)

    monkeypatch.setattr(torch.nn.Module, "__init__", only_meta)
    with pytest.raises(InputError, match=f"^{run}: "):
        load_language_model(run)


@pytest.mark.parametrize("what", ["repeated", "complex", "half", "meta", "missing", "more", "list"])
def test_weights_of_another_kind_are_refused(run, what):
    """In the case "repeated", two tensors of a right shape consist of one stored number."""
    name = "bilm.bilstm.layers.0.bias"
    state = torch.load(run / "best.th", weights_only=True)
    if what == "repeated":
        edit_config(run, set_size("lstm", "dim", 10**7))
        state[name] = torch.zeros(1).expand(2, 4 * 10**7)
    elif what == "complex":
        state[name] = state[name].to(torch.complex64)
    elif what == "half":
        state[name] = state[name].half()
    elif what == "meta":
        state[name] = state[name].to("meta")
    elif what == "missing":
        del state[name]
    elif what == "more":
        state["more"] = torch.zeros(1)
    torch.save(list(state.values()) if what == "list" else dict(state), run / "best.th")
    with pytest.raises(InputError, match=f"^{run}[:/].*expected .*, found"):
        load_language_model(run)


def test_a_damaged_archive_is_noticed(bilm_archive, tmp_path, unpacked, fuzz: Fuzz):
    """Damage gives an error that names the archive, or the whole archive's own model, because gzip
    has fields that do not matter. Without gzip's first two bytes it is another kind of file.
    Nothing stays behind."""
    data = Path(bilm_archive).read_bytes()
    expected = load_language_model(bilm_archive)
    path = tmp_path / "damaged.tar.gz"
    for random in fuzz.cases(40):
        description, damaged = damage(data, random)
        path.write_bytes(damaged)
        try:
            model = load_language_model(path)
        except InputError as error:
            is_gzip = damaged[:2] == data[:2]
            what = "a whole .tar.gz file" if is_gzip else "an installed model"
            assert str(error).startswith(f"{path}: expected {what}"), description
        else:
            check_same(model, expected, description)
        assert not list(unpacked.glob("tmp*")), description


def test_damage_after_the_last_member_is_noticed(bilm_archive, tmp_path):
    """tarfile stops at the end of the last member, and the checksum of gzip comes after that."""
    content = bytearray(gzip.decompress(Path(bilm_archive).read_bytes()))
    path = tmp_path / "damaged.tar.gz"
    data = bytearray(gzip.compress(content))
    data[-5] ^= 1  # the checksum's last byte but the length's four
    path.write_bytes(data)
    load_archive(path)
    with pytest.raises(InputError, match=f"^{path}: .*CRC"):
        load_language_model(path)


def test_damaged_weights_of_a_run_are_noticed(run, fuzz: Fuzz):
    """Damage gives an error that names the file, or the run's own model. In
    tests/plugin/token_embedders/test_options_in_vocabulary.py AllenNLP reads damaged weights."""
    data = (run / "best.th").read_bytes()
    expected = load_language_model(run)
    for random in fuzz.cases(40):
        description, damaged = damage(data, random)
        (run / "best.th").write_bytes(damaged)
        try:
            model = load_language_model(run)
        except InputError as error:
            assert str(run / "best.th") in str(error), description
        else:
            check_same(model, expected, description)


def test_weights_without_checksums_are_refused(run):
    """PyTorch's format before 1.6 has no checksums."""
    state = torch.load(run / "best.th", weights_only=True)
    torch.save(state, run / "best.th", _use_new_zipfile_serialization=False)
    for load in (load_language_model, load_archive):
        with pytest.raises(DamagedFileError if load is load_archive else InputError):
            load(run)


@pytest.mark.parametrize("name", ["config.json", "best.th", "vocabulary/words.txt"])
def test_a_missing_file_is_named(run, tmp_path, name):
    """The error begins with the folder and names the file."""
    (run / name).unlink()
    (run / "vocabulary" / "other.txt").touch()
    with pytest.raises(InputError, match=f"^{run}[:/].*{Path(name).name}"):
        load_language_model(run)


def test_another_model_is_refused(run):
    """The error names both types."""
    edit_config(run, lambda config: config["model"].update(type="simple_tagger"))
    with pytest.raises(InputError, match="of type bilm, found 'simple_tagger'"):
        load_language_model(run)


def test_keys_that_the_model_does_not_have(run):
    """Only the blocks of the biLM are read, and their keys are checked."""
    edit_config(run, lambda config: config["model"].update(more=1))
    load_language_model(run)
    Elmo.from_archive(run)
    edit_config(run, set_size("lstm", "more", 1))
    with pytest.raises(InputError, match=rf"^{run}: config\.json: model: lstm: unknown key more"):
        Elmo.from_archive(run)


def test_a_regularizer_does_no_harm(run, bilm_archive):
    """An honest config has keys that only training needs. The oracle is AllenNLP's own loading."""
    edit_config(
        run,
        lambda config: config["model"].update(
            regularizer={"regexes": [[".*", {"type": "l2", "alpha": 0.1}]]},
            pretrained_file="gone.tar.gz",
        ),
    )
    check_same(load_archive(run).model, load_language_model(run))


def test_the_folder_is_only_read(run):
    """AllenNLP would leave a lock in the vocabulary."""
    (run / "vocabulary" / ".lock").unlink()
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    load_language_model(run)
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_another_default_type(bilm_archive, dtype):
    """The weights are those of the archive, in the type of new modules."""
    expected = Elmo.from_archive(bilm_archive).bilm.state_dict()
    torch.set_default_dtype(dtype)
    try:
        found = Elmo.from_archive(bilm_archive).bilm.state_dict()
    finally:
        torch.set_default_dtype(torch.float32)
    for name, tensor in expected.items():
        assert torch.equal(found[name], tensor.to(found[name].dtype)), name


def test_an_archive_without_compression(run, tmp_path):
    """Its end may look like that of a zip file, as which PyTorch stores weights. The vectors are
    those of the folder."""
    path = tmp_path / "model.tar.gz"
    with tarfile.open(path, "w:gz", compresslevel=0) as archive:
        for name in ("config.json", "vocabulary", "best.th"):
            archive.add(run / name, arcname=name)
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
    assert not list(unpacked.glob("tmp*"))
