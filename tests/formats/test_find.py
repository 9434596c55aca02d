"""Every place where a biLM can be named, with everything that a user may name there."""

import argparse
import functools
import json
import os
import shutil
import tarfile
import threading
from collections.abc import Callable, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import h5py
import numpy
import pytest
import torch
from huggingface_hub import constants, file_download

from elmo_plugin import Elmo, formats
from elmo_plugin.checks import InputError
from elmo_plugin.commands.arguments import add_model_arguments, load_elmo
from elmo_plugin.files import hdf5, local_path
from elmo_plugin.files.atomic_write import DiskFullError
from elmo_plugin.formats import archive
from elmo_plugin.formats.bilm_tf import texts
from elmo_plugin.formats.find import FORMATS, NAMES_OF_A_BILM, find_bilm
from elmo_plugin.formats.format import Format
from elmo_plugin.modules import BiLM
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.plugin.token_embedders.elmo_token_embedder import ElmoEmbedder
from elmo_plugin.pretrained import pretrained_files, pretrained_names
from experiments.grid.bilms import bilm_sizes, find_bilms
from tests.conftest import BLOCKS, ROOT, WORDS, allennlp, file_size_limit
from tests.formats.tasks import write_task
from tests.formats.tf_checkpoint.writer import variables_of, write_checkpoint

MISSING = (FileNotFoundError, r"expected an installed model .* found no such file")
INSTALLED = ", ".join(pretrained_names())
FORM = "expected an installed model .*, found"
PART = "#_text_field_embedder.token_embedder_"
"""Begins the name of an embedder of a task model."""

FORMS: dict[str, str | tuple[type[Exception], str]] = {
    "tiny": "tiny",
    "pretrained://tiny": "tiny",
    "gone": MISSING,
    "pretrained://gone": (InputError, f"pretrained: expected one of: {INSTALLED}; found 'gone'"),
    "{}/model.tar.gz": "mine",
    "{}/run": "mine",
    "{}/bilm-tf": "mine",
    "{}/bilm-tf.zip": "mine",
    "{}/checkpoint": "mine",
    "{}/checkpoint/model.ckpt-7": "mine",
    "{}/gone.tar.gz": MISSING,
    "{}/text.txt": (InputError, f"text.txt: {FORM} another kind of file; .*options_file and we"),
    "{}/bilm-tf/options.json": (InputError, f"options.json: {FORM} another kind of file"),
    "{}/empty": (InputError, f"empty: {FORM} a folder without config.json and options.json"),
    "{}/half": (InputError, "half: expected one options.json in it, found none"),
    "{}/links": "mine",
    "{}/several": "mine",
    "{}/inside": "mine",
    "{}/bilm-tf.tar.gz": "mine",
    "{}/inside.tar.gz": "mine",
    "{}/run.zip": "mine",
    "{}/task": "mine",
    "{}/task.tar.gz": "mine",
    "{}/task.tar.gz" + PART + "elmo": "mine",
    "{}/two.tar.gz" + PART + "a": "mine",
    "{url}/two.tar.gz" + PART + "a": "mine",
    "two.tar.gz" + PART + "a": "mine",
    "{}/two.tar.gz": (
        InputError,
        r"expected the name of one of its biLMs after #, \S+_a, \S+_b, found none",
    ),
    "{}/two.tar.gz#c": (
        InputError,
        r"expected the name of one of its biLMs after #, \S+_a, \S+_b, found c",
    ),
    "{}/model.tar.gz#a": (InputError, "expected no name after #, .* of type bilm, found a"),
    "{}/bilm-tf.zip#a": (InputError, "expected no name after #, which only .*, found a"),
    "{}/other.tar.gz": (InputError, "model of type bilm, or one .*, found 'elmo_test_task'$"),
    "{}/stock.tar.gz": (InputError, "type bilm, or .*, found 'elmo_test_task' with AllenNLP's own"),
    "{}/none.tar.gz": (InputError, rf"{FORM} an archive without config\.json and options\.json"),
    "hf://user/elmo": "mine",
    "hf://user/gone": (FileNotFoundError, r"hf://user/gone: expected .* found no such file \(.*\)"),
    "{url}/model.tar.gz": "mine",
    "{url}/bilm-tf.zip": "mine",
    "{url}/text.txt": (InputError, rf"http://\S*/text.txt: \S*: {FORM} another kind of file"),
    "{url}/gone.zip": (FileNotFoundError, r"http://\S*/gone.zip: .* found no such file \(.*\)"),
    "~/bilm-tf": "mine",
    "bilm-tf": "mine",
    "./bilm-tf.zip": "mine",
}
"""What a user names, and the model that it is or the error. `{}` is a folder, the working directory
is this folder, and so is the home folder."""

NAMES = {
    "bilm_tf": "HDF5 file",
    "tf_checkpoint": "TensorFlow checkpoint",
    "elmoformanylangs": "ELMoForManyLangs",
    "archive": "model.tar.gz",
}
"""What users call a format, by its module."""

FEW_FORMS = ["tiny", "pretrained://tiny", "gone", "pretrained://gone", "{}/run", "~/bilm-tf"]
FEW_FORMS += ["./bilm-tf.zip", "{}/two.tar.gz" + PART + "a", "{}/two.tar.gz#c", "{}/text.txt"]
FEW_FORMS += ["hf://user/elmo", "{url}/bilm-tf.zip", "{url}/gone.zip"]
"""Those in which a place could differ from another before the same function finds the biLM."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, bilm_archive: str) -> Path:
    """All forms of one biLM, which the archive contains, and files that are none."""
    folder = tmp_path_factory.mktemp("forms")
    shutil.copy(bilm_archive, folder)
    with tarfile.open(bilm_archive) as archive:
        archive.extractall(folder / "run")
    allennlp("bilm-export", bilm_archive, folder / "bilm-tf", "--softmax")
    shutil.make_archive(str(folder / "bilm-tf"), "zip", folder / "bilm-tf")
    (folder / "checkpoint").mkdir()
    shutil.copy(folder / "bilm-tf" / "options.json", folder / "checkpoint")
    shutil.copy(folder / "bilm-tf" / "vocabulary.txt", folder / "checkpoint")
    variables = variables_of(folder / "bilm-tf" / "weights.hdf5", BLOCKS["lstm"]["n_layers"])
    write_checkpoint(folder / "checkpoint" / "model.ckpt-7", variables)
    (folder / "text.txt").write_text("the dog\n")
    (folder / "empty").mkdir()
    (folder / "half").mkdir()
    shutil.copy(folder / "bilm-tf" / "weights.hdf5", folder / "half")
    (folder / "links").mkdir()
    for file in (folder / "bilm-tf").iterdir():
        (folder / "links" / file.name).symlink_to(file)
    shutil.copytree(folder / "bilm-tf", folder / "several")
    (folder / "several" / "a.h5").write_bytes(b"of another model")
    (folder / "inside").mkdir()
    (folder / "inside" / "README").write_text("of a model\n")
    shutil.copytree(folder / "bilm-tf", folder / "inside" / "of" / "it")
    for name in ("bilm-tf", "inside"):
        shutil.make_archive(str(folder / name), "gztar", folder / name)
    shutil.make_archive(str(folder / "run"), "zip", folder, "run")
    with tarfile.open(folder / "none.tar.gz", "w:gz") as archive:
        archive.add(folder / "text.txt", "text.txt")
    mine = {"archive_file": bilm_archive, "requires_grad": True}
    write_task(folder / "other")
    write_task(folder / "task", elmo=mine)
    write_task(folder / "two", a=mine, b={"pretrained": "tiny"})
    files = [str(folder / "bilm-tf" / name) for name in ("options.json", "weights.hdf5")]
    stock = dict(zip(("options_file", "weight_file"), files), type="elmo_token_embedder")
    write_task(folder / "stock", elmo=stock)
    return folder


@pytest.fixture(scope="module")
def url(folder: Path) -> Iterator[str]:
    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=folder)
    ) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


@pytest.fixture(scope="module", autouse=True)
def _hub(folder: Path) -> Iterator[None]:
    """A stand-in for the Hugging Face hub, with one repository."""
    commit = "1" * 40

    class Hub(SimpleHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path.startswith("/api/models/user/elmo/revision/"):
                names = os.listdir(folder / "bilm-tf")
                siblings = [{"rfilename": name} for name in names]
                self.answer(json.dumps({"id": "user/elmo", "sha": commit, "siblings": siblings}))
            elif self.path.startswith(
                (f"/user/elmo/resolve/{commit}/", "/user/elmo/resolve/main/")
            ):
                file = folder / "bilm-tf" / self.path.rpartition("/")[2]
                self.answer(file.read_bytes(), {"X-Repo-Commit": commit, "ETag": f'"{file.name}"'})
            else:
                self.answer("", {"X-Error-Code": "RepoNotFound"}, 404)

        do_HEAD = do_GET

        def answer(self, content: str | bytes, headers: Any = {}, status: int = 200) -> None:  # noqa: B006
            content = content.encode() if isinstance(content, str) else content
            self.send_response(status)
            for name, value in {"Content-Length": len(content), **headers}.items():
                self.send_header(name, str(value))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

    with (
        ThreadingHTTPServer(("127.0.0.1", 0), Hub) as served,
        pytest.MonkeyPatch.context() as patch,
    ):
        threading.Thread(target=served.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{served.server_port}"
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, address)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(file_download, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        patch.setattr(constants, "ENDPOINT", address)
        yield
        served.shutdown()


@pytest.fixture(autouse=True)
def _places(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setattr(local_path, "CACHE", tmp_path / "cache")


def characters(bilm: Any) -> numpy.ndarray:
    """The weights by which the tests tell one biLM from another."""
    return bilm.token_encoder.char_embedding.weight[1:].detach().numpy()


def in_file(file: str | os.PathLike) -> numpy.ndarray:
    with h5py.File(file) as opened:
        return opened["char_embed"][()]


def of_command(out: Path, *arguments: str) -> numpy.ndarray:
    parser = argparse.ArgumentParser()
    add_model_arguments(parser)
    return characters(load_elmo(parser.parse_args(arguments)).bilm)


def of_export(out: Path, name: str) -> numpy.ndarray:
    allennlp("bilm-export", name, out / "exported")
    return in_file(out / "exported" / "weights.hdf5")


def of_import(out: Path, options: str, weights: str) -> numpy.ndarray:
    archive = out / "imported.tar.gz"
    allennlp("bilm-import", options, weights, "bilm-tf/vocabulary.txt", archive)
    return characters(find_bilm(archive).bilm)


def of_language_model(out: Path, name: str) -> numpy.ndarray:
    """A language model of the sizes of the biLM, which it begins with."""
    sizes = find_bilm("tiny").options.to_dict() if "tiny" in name else BLOCKS
    vocabulary = BiLMVocabulary.from_words(WORDS)
    model = BiLMModel(vocabulary, **sizes, n_negative_samples=3, pretrained_file=name)
    return characters(model.bilm)


def of_grid(out: Path, **bilm: str) -> numpy.ndarray:
    assert bilm_sizes(bilm)["dim"] in (16, 64)
    return characters(Elmo.from_archive(find_bilms({"a": bilm}, out, out)["a"].path).bilm)


PLACES: dict[str, Callable[[Path, str], numpy.ndarray]] = {
    "find_bilm": lambda _, name: characters(find_bilm(name).bilm),
    "from_archive": lambda _, name: characters(Elmo.from_archive(name).bilm),
    "from_files": lambda _, name: characters(Elmo.from_files(name).bilm),
    "archive_file": lambda _, name: characters(ElmoEmbedder(archive_file=name)._elmo.bilm),
    "--archive-file": lambda out, name: of_command(out, "--archive-file", name),
    "bilm-export": of_export,
    "pretrained_file": of_language_model,
    "grid": lambda out, name: of_grid(out, archive_file=name),
}
"""Places for one name of any kind."""
FEW = PLACES.keys() - {"find_bilm", "archive_file"}
"""Places that are tried with a few forms."""


@pytest.mark.parametrize(
    "place, form",
    [(place, form) for place in PLACES for form in (FEW_FORMS if place in FEW else FORMS)],
)
def test_a_name(place: str, form: str, folder: Path, url: str, tmp_path: Path) -> None:
    """The expected weights are those in the model's HDF5 file, read by h5py. The errors are the
    same in all places, but that a config's errors begin with their key."""
    name, expected = form.format(folder, url=url), FORMS[form]
    if isinstance(expected, str):
        file = pretrained_files("tiny").weight_file
        expected_weights = in_file(file if expected == "tiny" else folder / "bilm-tf/weights.hdf5")
        assert numpy.array_equal(PLACES[place](tmp_path, name), expected_weights)
        return
    kind, message = expected
    if place in ("archive_file", "pretrained_file"):
        message = f'^(token embedder of type "elmo"|pretrained_file): .*{message}'
    with pytest.raises(kind, match=message):
        PLACES[place](tmp_path, name)


PACKAGE: dict[str, Callable[[str], Any]] = {
    "from_pretrained": lambda name: Elmo.from_pretrained(name).bilm,
    "pretrained": lambda name: ElmoEmbedder(pretrained=name)._elmo.bilm,
}
"""Places for the name of an installed model only."""


@pytest.mark.parametrize("form", FEW_FORMS)
@pytest.mark.parametrize("place", PACKAGE)
def test_a_name_in_the_package(place: str, form: str, folder: Path, url: str) -> None:
    """The expected weights are those in the model's HDF5 file. All other names are unknown."""
    if FORMS[form] == "tiny":
        expected = in_file(pretrained_files("tiny").weight_file)
        assert numpy.array_equal(characters(PACKAGE[place](form)), expected)
    else:
        with pytest.raises(InputError, match=f"pretrained: expected one of: {INSTALLED}; found '"):
            PACKAGE[place](form.format(folder, url=url))


PAIRS: dict[str, Callable[[Path, str, str], numpy.ndarray]] = {
    "find_bilm": lambda _, *files: characters(find_bilm(*files).bilm),
    "from_files": lambda _, *files: characters(Elmo.from_files(*files).bilm),
    "options_file": lambda _, options, weights: characters(
        ElmoEmbedder(options_file=options, weight_file=weights)._elmo.bilm
    ),
    "--options-file": lambda out, options, weights: of_command(
        out, "--options-file", options, "--weight-file", weights
    ),
    "bilm-import": of_import,
    "grid": lambda out, options, weights: of_grid(out, options_file=options, weight_file=weights),
}
"""Places for bilm-tf's two files."""

FILES: dict[tuple[str, str], str | None] = {
    ("{}/bilm-tf/options.json", "{}/bilm-tf/weights.hdf5"): None,
    ("{url}/bilm-tf/options.json", "{url}/bilm-tf/weights.hdf5"): None,
    ("~/bilm-tf/options.json", "~/bilm-tf/weights.hdf5"): None,
    ("hf://user/elmo/options.json", "hf://user/elmo/weights.hdf5"): None,
    ("bilm-tf/options.json", "./bilm-tf/weights.hdf5"): None,
    ("gone", "bilm-tf/weights.hdf5"): r"gone: expected bilm-tf's options\.json, found no such f",
    ("tiny", "bilm-tf/weights.hdf5"): r"tiny: expected bilm-tf's options\.json, found no such f",
    ("bilm-tf/options.json", "bilm-tf/gone"): r"gone: expected bilm-tf's weights in HDF5, found no",
    ("text.txt", "bilm-tf/weights.hdf5"): r"text\.txt: expected an options file in JSON, found Ex",
    ("bilm-tf/options.json", "text.txt"): r"text\.txt: expected a whole HDF5 file, found",
    ("bilm-tf", "bilm-tf/weights.hdf5"): r"bilm-tf: expected an options file in JSON, found a f",
    ("bilm-tf/weights.hdf5", "bilm-tf/options.json"): r"5: expected an options file .* HDF5 file",
    ("{url}/gone", "bilm-tf/weights.hdf5"): r"http://\S+/gone: expected bilm-tf's options\.json",
    ("{url}/text.txt", "bilm-tf/weights.hdf5"): r"http://\S+/text\.txt: /\S+: expected an options",
}
"""What a user names, and the message if it is not the model in the tests' folder."""


@pytest.mark.parametrize("files", FILES, ids=" ".join)
@pytest.mark.parametrize("place", PAIRS)
def test_two_files(
    place: str, files: tuple[str, str], folder: Path, url: str, tmp_path: Path
) -> None:
    """The expected weights are those in the HDF5 file, read by h5py."""
    named = [file.format(folder, url=url) for file in files]
    if FILES[files] is None:
        expected = in_file(folder / "bilm-tf" / "weights.hdf5")
        assert numpy.array_equal(PAIRS[place](tmp_path, *named), expected)
    else:
        with pytest.raises((InputError, FileNotFoundError), match=FILES[files]):
            PAIRS[place](tmp_path, *named)


def test_weights_alone(folder: Path) -> None:
    """A language model has options of its own, so that it can begin with a weight file alone. The
    expected weights are those in the file, read by h5py."""
    file = folder / "bilm-tf" / "weights.hdf5"
    assert numpy.array_equal(of_language_model(folder, str(file)), in_file(file))
    with pytest.raises(
        InputError, match=r"^pretrained_file: text\.txt: expected an installed model"
    ):
        of_language_model(folder, "text.txt")
    with pytest.raises(InputError, match=rf"^{file}: {FORM} another kind .* and weight_file$"):
        Elmo.from_archive(file)


@pytest.mark.parametrize(
    "form", ["model.tar.gz", "run", "bilm-tf", "bilm-tf.zip", "run.zip", "checkpoint"]
)
def test_the_softmax(form: str, folder: Path, bilm_archive: str) -> None:
    """All forms have the words and the softmax of the archive, for who asks. The expected tensors
    are those that PyTorch reads."""
    found = find_bilm(form, with_softmax=True)
    state = torch.load(folder / "run" / "weights.th", weights_only=True)
    assert found.words == WORDS
    for name, tensor in found.softmax.state_dict().items():
        assert torch.equal(tensor, state[f"softmax.{name}"]), name
    for name, tensor in found.bilm.state_dict().items():
        if name != "warm_state.count":
            assert torch.equal(tensor, state[f"bilm.{name}"]), name
    assert find_bilm(form).softmax is None


def test_a_name_of_a_model_and_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not decided which one is meant. The error has two names that say it."""
    shutil.copytree(Path(pretrained_files("tiny").options_file).parent, tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"tiny: expected pretrained://tiny or \./tiny, found the"):
        Elmo.from_archive("tiny")
    Elmo.from_archive("./tiny")
    Elmo.from_pretrained("tiny")


def test_a_file_in_a_zip_file_is_named(folder: Path, tmp_path: Path) -> None:
    """The error begins with the zip file, whose files are read in a temporary folder, and ends with
    the file in it."""
    shutil.copytree(folder / "bilm-tf", tmp_path / "other")
    with h5py.File(tmp_path / "other" / "weights.hdf5", "a") as file:
        del file["CNN_proj/b_proj"]
    path = shutil.make_archive(str(tmp_path / "other"), "zip", tmp_path / "other")
    with pytest.raises(InputError, match=rf"^{path}: \S+/weights\.hdf5: CNN_proj/b_proj: expected"):
        Elmo.from_archive(path)


@pytest.mark.parametrize("form", ["tiny", "model.tar.gz", "bilm-tf"])
def test_each_thing_is_done_once(form: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The options are parsed, the weights opened and the biLM built once. The random generator of a
    task is where it was."""
    calls: list[str] = []

    def counted(module: Any, name: str) -> None:
        function = getattr(module, name)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            calls.append(name)
            return function(*args, **kwargs)

        monkeypatch.setattr(module, name, call)

    counted(texts, "options_from_dict")
    counted(hdf5, "open_hdf5")
    counted(archive, "load_weights")
    counted(BiLM, "__init__")
    before = torch.get_rng_state()
    Elmo.from_archive(form)
    assert torch.equal(torch.get_rng_state(), before)
    once = ["load_weights"] if form == "model.tar.gz" else ["open_hdf5", "options_from_dict"]
    assert sorted(calls) == sorted(["__init__", *once])


def lacks(form: Format) -> list[str]:
    """What a format is not in, of all that has to name it."""
    module = form.read.__module__.split(".")[2]
    name = NAMES.get(module, module)
    tests = ROOT / "tests" / "formats"
    places = {
        "FORMATS": any(form is known for known in FORMATS),
        "NAMES_OF_A_BILM": name in NAMES_OF_A_BILM,
        "docs/weights.md": name in (ROOT / "docs" / "weights.md").read_text("utf-8"),
        "tests": (tests / f"test_{module}.py").exists() or any((tests / module).glob("test_*.py")),
    }
    return [place for place, is_there in places.items() if not is_there]


def test_each_format_is_complete() -> None:
    """By definition: every `Format` in the folder is in the list, and each of the list has its name
    in the text for users and on the page of formats, and tests of its own."""
    modules = [
        import_module(x.name) for x in walk_packages(formats.__path__, "elmo_plugin.formats.")
    ]
    found = {id(x): x for m in modules for x in vars(m).values() if isinstance(x, Format)}
    assert set(map(id, FORMATS)) <= set(found)
    assert {x.read.__module__: lacks(x) for x in found.values() if lacks(x)} == {}

    def read(*_: Any) -> Any: ...

    read.__module__ = "elmo_plugin.formats.added_by_half"
    half = Format(r"half\.bin", lambda _: False, read)
    assert lacks(half) == ["FORMATS", "NAMES_OF_A_BILM", "docs/weights.md", "tests"]


def test_a_disk_that_is_too_full_for_a_download(url: str) -> None:
    """The error is the operating system's own, of a file that is longer than it permits, and not
    that there is no such file."""
    with file_size_limit(1000), pytest.raises(DiskFullError, match=r"downloaded to .*cache: could"):
        Elmo.from_archive(f"{url}/bilm-tf.zip")


def test_several_names() -> None:
    """An ensemble has several biLMs, and a name is that of one."""
    with pytest.raises(
        InputError, match="expected one path; load each model of an ensemble by its"
    ):
        Elmo.from_archive(["a.tar.gz", "b.tar.gz"])  # type: ignore[arg-type]
