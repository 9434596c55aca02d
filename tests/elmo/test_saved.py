"""`Elmo.save` writes files that everything reads."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.options import BiLMOptions
from tests.conftest import BLOCKS, BiLMFiles, allennlp, untar

SENTENCE = "He threw the stick to the dog ."


def tuned(files: BiLMFiles, **settings: Any) -> Elmo:
    """A model after a step of training in plain PyTorch."""
    torch.manual_seed(0)
    elmo = Elmo.from_files(*files, requires_grad=True, **settings)
    optimizer = torch.optim.SGD(elmo.parameters(), lr=0.1)
    tokens = elmo.characters([SENTENCE.split()])
    sum(x.square().sum() for x in elmo(tokens)["elmo_representations"]).backward()
    optimizer.step()
    return elmo


def mixes(elmo: Elmo) -> list[torch.Tensor]:
    return elmo(elmo.characters([SENTENCE.split(), ["dog"]]))["elmo_representations"]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_output_representations": 2, "do_layer_norm": True},
        {"use_top_only": True, "initial_state": "zero"},
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["folder", "zip"])
def test_a_tuned_model(bilm_files, tmp_path, settings, form):
    """The expected vectors are those of the model that was saved, and differ from those that it
    began with. Other mixes leave its biLM and its initial state."""
    elmo = tuned(bilm_files, **settings)
    path = tmp_path / "saved"
    elmo.save(path)
    if form == "zip":
        path = Path(shutil.make_archive(str(path), "zip", path))
    for load in (Elmo.from_archive, Elmo.from_files):
        for actual, expected in zip(mixes(load(path)), mixes(elmo), strict=True):
            assert torch.equal(actual, expected.detach())
    start = Elmo.from_files(*bilm_files, **settings)
    assert not torch.equal(mixes(start)[0], mixes(elmo)[0])
    other = Elmo.from_archive(path, scalar_mix_parameters=[0.0] * elmo.n_layers)
    assert numpy.array_equal(other.embed(SENTENCE, "top"), elmo.embed(SENTENCE, "top"))


def test_files_of_another_model_are_replaced(bilm_files: BiLMFiles, tmp_path: Path) -> None:
    """An export to the same folder has no mixes, so that the mixes of the saved model are not
    applied to it. The expected vectors are those of the exported model."""
    tuned(bilm_files).save(tmp_path)
    other = Elmo.from_pretrained("tiny")
    write_model_files(tmp_path, other.bilm)
    assert sorted(x.name for x in tmp_path.iterdir()) == ["options.json", "weights.hdf5"]
    assert numpy.array_equal(Elmo.from_archive(tmp_path).embed(SENTENCE), other.embed(SENTENCE))


def test_words_and_a_softmax_are_not_lost(bilm_archive: str, tmp_path: Path) -> None:
    """A folder with words or a softmax, which the files of `save` would not replace, or the folder
    of a run, whose own weights would be read instead, is refused and unchanged."""
    elmo, folder, run = Elmo.from_archive(bilm_archive), tmp_path / "model", tmp_path / "run"
    allennlp("bilm-export", bilm_archive, folder, "--softmax")
    untar(bilm_archive, run)
    for path, lost, removed in (
        (run, r"config\.json", None),
        (folder, r"vocabulary\.txt, the softmax in weights\.hdf5", "vocabulary.txt"),
        (folder, r"the softmax in weights\.hdf5", "weights.hdf5"),
    ):
        before = {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        with pytest.raises(InputError, match=rf"{path}: .*without another model, found {lost}"):
            elmo.save(path)
        assert before == {file: file.read_bytes() for file in path.rglob("*") if file.is_file()}
        if removed:
            (path / removed).unlink()
    elmo.save(folder)
    elmo.save(folder)
    with pytest.raises(InputError, match="softmax"):
        LanguageModel.from_archive(folder)


def test_paths_in_the_home_folder(bilm_files, tmp_path, monkeypatch):
    """`~` is the home folder where a model is saved, read and cached, as a shell would have it."""
    home = tmp_path / "home"
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.chdir(tmp_path)
    elmo = tuned(bilm_files)
    elmo.save("~/saved")
    for found in (Elmo.from_archive("~/saved"), Elmo.from_files("~/saved", cache_dir="~/cache")):
        assert numpy.array_equal(found.embed(SENTENCE, "all"), elmo.embed(SENTENCE, "all"))
    assert [x.name for x in tmp_path.iterdir()] == ["home"]
    assert {x.name for x in home.iterdir()} == {"saved", "cache"}


def test_what_is_no_path(bilm_files: BiLMFiles) -> None:
    """An unset environment variable gives `None`, and an ensemble has several biLMs."""
    calls: dict[str, Callable[[], Any]] = {
        "folder: expected a path, found null": lambda: Elmo.from_files(*bilm_files).save(None),
        "the name of a biLM: .*, found null": lambda: Elmo.from_archive(None),
        "expected one path; load each model of an ensemble": lambda: Elmo.from_archive(["a", "b"]),
        "weight_file: .*, found 3": lambda: Elmo.from_files(bilm_files.options_file, 3),
    }
    for message, call in calls.items():
        with pytest.raises(InputError, match=message):
            call()


def test_what_cannot_be_saved(bilm_files: BiLMFiles, tmp_path: Path) -> None:
    """One error says why, and there are no files."""
    empty = Elmo.from_options(BiLMOptions.from_dict(BLOCKS, source="test"))
    with pytest.raises(RuntimeError, match="weights were never loaded"):
        empty.save(tmp_path)
    for name in ("scalar_mix_0.gamma", "bilm.token_encoder.char_embedding.weight"):
        elmo = Elmo.from_files(*bilm_files)
        with torch.no_grad():
            elmo.get_parameter(name)[-1:] = torch.nan
        with pytest.raises(InputError, match=rf"^{tmp_path}/\S+: .*expected .*finite number"):
            elmo.save(tmp_path)
    assert not list(tmp_path.iterdir())
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"^folder: .*file: expected a folder to write to"):
        Elmo.from_files(*bilm_files).save(tmp_path / "file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("{", "expected mixes in JSON, found"),
        ("[]", r"an object, found \[\]"),
        ({"mixes": {"scalar_mix_0.gamma": "1"}}, r"scalar_mix_0\.gamma: .*finite number"),
        ({"mixes": {"scalar_mix_0.gamma": 1e39}}, r"scalar_mix_0\.gamma: .*finite number"),
        ({"mixes": {"scalar_mix_0.gamma": 1}}, "the mixes of its settings, scalar_mix_0"),
        ({"do_layer_norm": 1}, "do_layer_norm: .*found 1"),
        ({"initial_state": "none"}, "initial_state: expected one of 'carry', "),
    ],
)
def test_a_damaged_file(bilm_files: BiLMFiles, tmp_path: Path, change: Any, message: str) -> None:
    """The error says what is wrong. Other readers of the biLM do not read the mixes."""
    elmo = Elmo.from_files(*bilm_files)
    elmo.save(tmp_path)
    file = tmp_path / "elmo_mixes.json"
    if not isinstance(change, str):
        change = json.dumps({**json.loads(file.read_text()), **change})
    file.write_text(change)
    with pytest.raises(InputError, match=rf"elmo_mixes\.json: .*{message}"):
        Elmo.from_archive(tmp_path)
    paths = [tmp_path / name for name in ("options.json", "weights.hdf5")]
    assert numpy.array_equal(Elmo.from_files(*paths).embed(SENTENCE), elmo.embed(SENTENCE))
