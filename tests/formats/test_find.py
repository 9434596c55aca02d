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
from elmo_plugin.files import local_path
from elmo_plugin.files.atomic_write import DiskFullError
from elmo_plugin.formats.find import FORMATS, NAMES_OF_A_BILM, find_bilm
from elmo_plugin.formats.format import Format
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.plugin.token_embedders.elmo_token_embedder import ElmoEmbedder
from elmo_plugin.pretrained import pretrained_files, pretrained_names
from tests.conftest import BLOCKS, ROOT, WORDS, allennlp, file_size_limit, untar
from tests.formats.same import assert_same
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
    "{}/text.txt": (InputError, f"text.txt: {FORM} another kind of file; .*options_file and we"),
    "{}/bilm-tf/weights.hdf5": (InputError, f"weights.hdf5: {FORM} another kind .*weight_file$"),
    "{}/empty": (InputError, f"empty: {FORM} a folder without config.json and options.json"),
    "{}/half": (InputError, "half: expected one options.json in it, found none"),
    "{}/broken.zip": (InputError, r"broken\.zip: /\S+/weights\.hdf5: expected a whole HDF5"),
    "{}/links": "mine",
    "{}/several": "mine",
    "{}/task.tar.gz": "mine",
    "{}/task.tar.gz" + PART + "elmo": "mine",
    "{}/two.tar.gz" + PART + "a": "mine",
    "{url}/two.tar.gz" + PART + "a": "mine",
    "{}/two.tar.gz": (InputError, r"one of its biLMs after #, \S+_a, \S+_b, found none"),
    "{}/two.tar.gz#c": (InputError, r"one of its biLMs after #, \S+_a, \S+_b, found c"),
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
    "s3://!/x": (FileNotFoundError, r"s3://!/x: .* found no such file \(Parameter validation"),
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
    untar(bilm_archive, folder / "run")
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
    shutil.copytree(folder / "bilm-tf", folder / "broken")
    (folder / "broken" / "weights.hdf5").write_bytes(b"")
    shutil.make_archive(str(folder / "broken"), "zip", folder / "broken")
    (folder / "links").mkdir()
    for file in (folder / "bilm-tf").iterdir():
        (folder / "links" / file.name).symlink_to(file)
    shutil.copytree(folder / "bilm-tf", folder / "several")
    (folder / "several" / "a.h5").write_bytes(b"of another model")
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


COMMIT = "1" * 40


class Server(SimpleHTTPRequestHandler):
    """Serves a folder, and stands in for the Hugging Face hub, with one repository."""

    def do_GET(self) -> None:
        files = Path(self.directory) / "bilm-tf"
        if self.path.startswith("/api/models/user/elmo/revision/"):
            siblings = [{"rfilename": name} for name in os.listdir(files)]
            facts = {"id": "user/elmo", "sha": COMMIT, "siblings": siblings}
            self.answer(json.dumps(facts).encode())
        elif self.path.startswith((f"/user/elmo/resolve/{COMMIT}/", "/user/elmo/resolve/main/")):
            file = files / self.path.rpartition("/")[2]
            self.answer(file.read_bytes(), {"X-Repo-Commit": COMMIT, "ETag": f'"{file.name}"'})
        elif self.path.startswith(("/api/", "/user/")):
            self.answer(b"", {"X-Error-Code": "RepoNotFound"}, 404)
        elif self.command == "HEAD":
            super().do_HEAD()
        else:
            super().do_GET()

    do_HEAD = do_GET

    def answer(self, content: bytes, headers: Any = None, status: int = 200) -> None:
        self.send_response(status)
        for name, value in {"Content-Length": len(content), **(headers or {})}.items():
            self.send_header(name, str(value))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture(scope="module", autouse=True)
def url(folder: Path) -> Iterator[str]:
    """The address of the folder, which is the hub's too."""
    handler = functools.partial(Server, directory=str(folder))
    with (
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as served,
        pytest.MonkeyPatch.context() as patch,
    ):
        threading.Thread(target=served.serve_forever, daemon=True).start()
        address = f"http://127.0.0.1:{served.server_port}"
        template = constants.HUGGINGFACE_CO_URL_TEMPLATE.replace(constants.ENDPOINT, address)
        patch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", template)
        patch.setattr(file_download, "HUGGINGFACE_CO_URL_TEMPLATE", template, raising=False)
        patch.setattr(constants, "ENDPOINT", address)
        yield address
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


PLACES: dict[str, Callable[[Path, str], numpy.ndarray]] = {
    "find_bilm": lambda _, name: characters(find_bilm(name).bilm),
    "from_archive": lambda _, name: characters(Elmo.from_archive(name).bilm),
    "from_files": lambda _, name: characters(Elmo.from_files(name).bilm),
    "archive_file": lambda _, name: characters(ElmoEmbedder(archive_file=name)._elmo.bilm),
    "--archive-file": lambda out, name: of_command(out, "--archive-file", name),
    "bilm-export": of_export,
    "pretrained_file": of_language_model,
}
"""Places for one name of any kind."""
FEW = PLACES.keys() - {"find_bilm", "archive_file"}
"""Places that are tried with a few forms."""


@pytest.mark.sampled(40)
@pytest.mark.parametrize(
    "place, form",
    [(place, form) for place in PLACES for form in (FEW_FORMS if place in FEW else FORMS)],
)
def test_a_name(place: str, form: str, folder: Path, url: str, tmp_path: Path) -> None:
    """The expected weights are those in the model's HDF5 file, read by h5py. The errors are the
    same in all places, but that a config's errors begin with their key. Loading draws no random
    number, unless a softmax is new."""
    name, expected = form.format(folder, url=url), FORMS[form]
    if isinstance(expected, str):
        file = pretrained_files("tiny").weight_file
        expected_weights = in_file(file if expected == "tiny" else folder / "bilm-tf/weights.hdf5")
        random = torch.get_rng_state()
        assert numpy.array_equal(PLACES[place](tmp_path, name), expected_weights)
        assert torch.equal(torch.get_rng_state(), random) or place == "pretrained_file"
        return
    kind, message = expected
    if place in ("archive_file", "pretrained_file"):
        message = f'^(token embedder of type "elmo"|pretrained_file): .*{message}'
    with pytest.raises(kind, match=message):
        PLACES[place](tmp_path, name)


@pytest.mark.parametrize("form", FEW_FORMS)
def test_a_name_in_the_package(form: str, folder: Path, url: str) -> None:
    """Two places are for the name of an installed model only. The expected weights are those in the
    model's HDF5 file. All other names are unknown."""
    for place in (Elmo.from_pretrained, lambda name: ElmoEmbedder(pretrained=name)._elmo):
        if FORMS[form] == "tiny":
            expected = in_file(pretrained_files("tiny").weight_file)
            assert numpy.array_equal(characters(place(form).bilm), expected)
        else:
            with pytest.raises(InputError, match=f"pretrained: expected one of: {INSTALLED}; fou"):
                place(form.format(folder, url=url))


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
}
"""Places for bilm-tf's two files."""

FILES: dict[tuple[str, str], str | None] = {
    ("{}/bilm-tf/options.json", "{}/bilm-tf/weights.hdf5"): None,
    ("{url}/bilm-tf/options.json", "{url}/bilm-tf/weights.hdf5"): None,
    ("~/bilm-tf/options.json", "~/bilm-tf/weights.hdf5"): None,
    ("hf://user/elmo/options.json", "hf://user/elmo/weights.hdf5"): None,
    ("tiny", "bilm-tf/weights.hdf5"): r"tiny: expected bilm-tf's options\.json, found no such f",
    ("bilm-tf/options.json", "bilm-tf/gone"): r"gone: expected bilm-tf's weights in HDF5, found no",
    ("text.txt", "bilm-tf/weights.hdf5"): r"text\.txt: expected an options file in JSON, found Ex",
    ("bilm-tf/options.json", "text.txt"): r"text\.txt: expected a whole HDF5 file, found",
    ("bilm-tf", "bilm-tf/weights.hdf5"): r"bilm-tf: expected an options file in JSON, found a f",
    ("{url}/text.txt", "bilm-tf/weights.hdf5"): r"http://\S+/text\.txt: /\S+: expected an options",
}
"""What a user names, and the message if it is not the model in the tests' folder."""


@pytest.mark.parametrize("files", FILES, ids=" ".join)
@pytest.mark.parametrize("place", PAIRS)
def test_two_files(place, files, folder, url, tmp_path):
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
    with pytest.raises(InputError, match=r"^pretrained_file: text\.txt: expected an installed mod"):
        of_language_model(folder, "text.txt")
    with pytest.raises(InputError, match=r"^options_file: expected a path, found null$"):
        Elmo.from_files(None, file)


@pytest.mark.parametrize("form", ["model.tar.gz", "run", "bilm-tf", "bilm-tf.zip", "checkpoint"])
def test_the_softmax(form: str, folder: Path, bilm_archive: str) -> None:
    """All forms have the words and the softmax of the archive, for who asks. The expected tensors
    are those that PyTorch reads."""
    found = find_bilm(form, with_softmax=True)
    expected = torch.load(folder / "run" / "weights.th", weights_only=True)
    assert found.words == WORDS
    state = torch.nn.ModuleDict({"bilm": found.bilm, "softmax": found.softmax}).state_dict()
    if form == "checkpoint":  # whose warm state is computed
        expected["bilm.warm_state.count"] = state["bilm.warm_state.count"]
    assert_same(state, expected)
    assert find_bilm(form).softmax is None


def test_a_name_of_a_model_and_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not decided which one is meant. The error has two names that say it."""
    shutil.copytree(Path(pretrained_files("tiny").options_file).parent, tmp_path / "tiny")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=r"tiny: expected pretrained://tiny or \./tiny, found the"):
        Elmo.from_archive("tiny")
    Elmo.from_archive("./tiny")
    Elmo.from_pretrained("tiny")


def test_each_format_is_complete() -> None:
    """By definition: every `Format` in the folder is in the list, and each of the list has its name
    in the text for users and on the page of formats, and tests of its own."""
    modules = [
        import_module(x.name) for x in walk_packages(formats.__path__, "elmo_plugin.formats.")
    ]
    found = {id(x): x for m in modules for x in vars(m).values() if isinstance(x, Format)}
    assert set(map(id, FORMATS)) == set(found)
    tests, page = ROOT / "tests" / "formats", (ROOT / "docs" / "models.md").read_text("utf-8")
    for form in FORMATS:
        module = form.read.__module__.split(".")[2]
        assert NAMES[module] in NAMES_OF_A_BILM and NAMES[module] in page
        assert (tests / f"test_{module}.py").exists() or any((tests / module).glob("test_*.py"))


def test_a_disk_that_is_too_full_for_a_download(url: str) -> None:
    """The error is the operating system's own, of a file that is longer than it permits, and not
    that there is no such file."""
    with file_size_limit(1000), pytest.raises(DiskFullError, match=r"downloaded to .*cache: could"):
        Elmo.from_archive(f"{url}/bilm-tf.zip")
