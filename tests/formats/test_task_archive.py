"""The biLM of a task model leaves the model's archive."""

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.data import Vocabulary

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.formats.bilm_tf.texts import read_options
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.formats.mixes import find_mixes
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from tests.compare import assert_close
from tests.conftest import BLOCKS, ROOT, WORDS, allennlp, write_bilm_files
from tests.formats.same import assert_same
from tests.formats.tasks import load, model_of, write_task
from tests.formats.test_elmoformanylangs import write_model as write_elmoformanylangs
from tests.formats.test_fill import rewrite, set_size
from tests.plugin.tagger import config

SENTENCE = "He threw the stick to the dog ."
EMBEDDER = "text_field_embedder.token_embedder_elmo"


def elmo_in(model: Any, name: str = "elmo") -> Elmo:
    return getattr(model._text_field_embedder, f"token_embedder_{name}")._elmo


def test_a_trained_task(bilm_archive: str, tmp_path: Path) -> None:
    """A tagger is trained with its biLM and two mixes. The expected vectors are those of its
    embedder, and its weights are not those of the biLM that it began with. Expected of `find_mixes`
    are s and gamma computed from the weights."""
    params = config(bilm_archive).as_dict()
    params["model"]["text_field_embedder"]["token_embedders"]["elmo"].update(
        requires_grad=True, do_layer_norm=True, initial_state="zero"
    )
    model = train_model(Params(params), str(tmp_path / "run"))
    trained = model.text_field_embedder.token_embedder_elmo._elmo.eval()
    characters = trained.characters([SENTENCE.split()])
    expected = trained(characters)["elmo_representations"]
    for name in ("run", "run/model.tar.gz", f"run/model.tar.gz#{EMBEDDER}"):
        elmo = Elmo.from_archive(f"{tmp_path}/{name}")
        for actual, tensor in zip(elmo(characters)["elmo_representations"], expected, strict=True):
            assert torch.equal(actual, tensor)
        assert_same(elmo.bilm, trained.bilm)
    for name, tensor in find_bilm(bilm_archive).bilm.named_parameters():
        assert not torch.equal(tensor, trained.bilm.get_parameter(name)), name
    allennlp("bilm-export", tmp_path / "run" / "model.tar.gz", tmp_path / "bilm-tf")
    files = sorted(os.listdir(tmp_path / "bilm-tf"))
    assert files == ["elmo_mixes.json", "options.json", "weights.hdf5"]
    exported = Elmo.from_archive(tmp_path / "bilm-tf")
    assert torch.equal(exported(characters)["elmo_representations"][0], expected[0])

    mixes = find_mixes(model.state_dict())
    assert list(mixes) == [f"{EMBEDDER}._elmo.scalar_mix_{k}" for k in (0, 1)]
    for name, mix in mixes.items():
        w = torch.stack([model.state_dict()[f"{name}.scalar_parameters.{j}"][0] for j in range(3)])
        s, gamma = w.softmax(dim=0).tolist(), float(model.state_dict()[f"{name}.gamma"])
        assert [*mix.weights, mix.gamma] == pytest.approx([*s, gamma])
        assert not all(s_j == pytest.approx(1 / 3) for s_j in mix.weights)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"num_output_representations": 3},
        {"do_layer_norm": True},
        {"use_top_only": True},
        {"scalar_mix_parameters": [0.5, -1.0, 2.0]},
        {"initial_state": "carry"},
    ],
    ids=str,
)
def test_the_mixes(bilm_archive: str, tmp_path: Path, settings: dict[str, Any]) -> None:
    """They are loaded with the settings that they were trained with. The expected vectors are those
    of the embedder."""
    model = write_task(tmp_path / "task", elmo={"archive_file": bilm_archive, **settings})
    found = Elmo.from_archive(tmp_path / "task.tar.gz")
    characters = found.characters([SENTENCE.split(), ["dog"]])
    expected = elmo_in(model)(characters)["elmo_representations"]
    for actual, tensor in zip(found(characters)["elmo_representations"], expected, strict=True):
        assert torch.equal(actual, tensor)


def test_other_mixes_are_asked_for(bilm_archive: str, tmp_path: Path, caplog: Any) -> None:
    """Then the trained ones are not loaded. The expected vectors are those of the language model's
    archive."""
    plain = Elmo.from_archive(bilm_archive).embed(SENTENCE)
    others: list[dict[str, Any]] = [{"do_layer_norm": True}, {"num_output_representations": 1}]
    for name, n_mixes, other in zip("ba", (1, 2), others):
        embedder = {"archive_file": bilm_archive, "num_output_representations": n_mixes}
        write_task(tmp_path / name, elmo=embedder)
        caplog.clear()
        found = Elmo.from_archive(tmp_path / name, **other).embed(SENTENCE)
        assert numpy.array_equal(found, Elmo.from_archive(bilm_archive, **other).embed(SENTENCE))
        assert f"have another {next(iter(other))}, and are not loaded" in caplog.text
    fixed = Elmo.from_archive(tmp_path / "a", scalar_mix_parameters=[0, 0, 0])
    assert_close(fixed.embed(SENTENCE), plain, what="vectors", atol=1e-6)


def test_two_biLMs_of_the_same_sizes(tmp_path: Path) -> None:
    """They differ in a clip, which no weight shows. The config says which options are whose, and a
    module with two names is one. A name may be the end of that of a module, or the key of its
    embedder. The expected options are those in the files."""
    for name, clip in (("a", 3.0), ("b", 0.01)):
        files = write_bilm_files(tmp_path / name, seed=len(name))
        rewrite(Path(files.weight_file), lambda _: None)  # without the options of its biLM
        set_size(Path(files.options_file), "cell_clip", clip)
    embedders = {name: {"archive_file": str(tmp_path / name)} for name in "ab"}
    model = write_task(tmp_path / "task", **embedders)
    for part in ("_text_field_embedder.token_embedder_a", "token_embedder_b", "a", "b"):
        name = part[-1]
        found = Elmo.from_archive(f"{tmp_path}/task.tar.gz#{part}")
        assert found.bilm.options == read_options(tmp_path / name / "options.json")
        assert numpy.array_equal(found.embed(SENTENCE), elmo_in(model, name).embed(SENTENCE))
    names = r"_text_field_embedder\.token_embedder_a, _text_field_embedder\.token_embedder_b"
    with pytest.raises(InputError, match=f"^{tmp_path}/task: expected .* {names}, found none$"):
        find_bilm(tmp_path / "task")
    # Without the config's help it is not clear which options are whose.
    config_file = tmp_path / "task" / "config.json"
    config_file.write_text(json.dumps({"model": {"type": "elmo_test_task"}}))
    with pytest.raises(InputError, match=r"elmo_options\.txt: expected .* one biLM .* found 2$"):
        find_bilm(f"{tmp_path}/task#_text_field_embedder.token_embedder_a")


def test_modules_with_another_name(bilm_archive: str, tmp_path: Path, caplog: Any) -> None:
    """A model may call its text field embedder otherwise than the parameter in the config. The mix
    of each embedder is found by its own key. Without a block of it, a warning says that the mix is
    not loaded. The expected vectors are those of the embedders."""
    norm = {"archive_file": bilm_archive, "do_layer_norm": True}
    model = write_task(tmp_path / "task", a={"archive_file": bilm_archive}, b=norm)
    config_file = tmp_path / "task" / "config.json"
    text = config_file.read_text()
    for key in ("text_field_embedder", "text"):
        config_file.write_text(text.replace("text_field_embedder", key))
        for name in "ab":
            part = f"{tmp_path}/task#_text_field_embedder.token_embedder_{name}"
            found = Elmo.from_archive(part).embed(SENTENCE)
            assert numpy.array_equal(found, elmo_in(model, name).embed(SENTENCE)), (key, name)
    assert "mixes are not loaded" not in caplog.text
    config_file.write_text('{"model": {"type": "elmo_test_task"}}')
    Elmo.from_archive(part)
    assert f"{part.partition('#')[2]}._elmo.scalar_mix_0: config.json does not show" in caplog.text


def test_a_vocabulary_with_options_of_other_runs(bilm_archive: str, tmp_path: Path) -> None:
    """A vocabulary that is used again has the options of each run. Those of the archive's own biLM
    are found by the config, or if this names another source, by the sizes of the weights. The only
    block of the type is the embedder's, whatever its key is."""
    vocabulary = Vocabulary()
    write_task(tmp_path / "one", vocabulary, elmo={"pretrained": "tiny"})
    model = write_task(tmp_path / "two", vocabulary, elmo={"archive_file": bilm_archive})
    config_file = tmp_path / "two" / "config.json"
    text = config_file.read_text()
    for old, new in (("", ""), (bilm_archive, "moved"), ("text_field_embedder", "reader")):
        config_file.write_text(text.replace(old, new))
        found = Elmo.from_archive(tmp_path / "two")
        assert numpy.array_equal(found.embed(SENTENCE), elmo_in(model).embed(SENTENCE))


def test_an_archive_of_a_language_model_is_needed(bilm_archive: str, tmp_path: Path) -> None:
    """A task has no softmax: `pretrained_file` loads the biLM and leaves the softmax as it is, and
    all that needs one says so."""
    write_task(tmp_path / "task", elmo={"archive_file": bilm_archive})
    task = str(tmp_path / "task.tar.gz")
    models = []
    for extra in ({}, {"pretrained_file": task}):
        torch.manual_seed(0)
        words = BiLMVocabulary.from_words(WORDS)
        models.append(BiLMModel(words, **BLOCKS, n_negative_samples=3, **extra))
    assert_same(models[1].bilm, find_bilm(bilm_archive).bilm)
    assert_same(models[1].softmax, models[0].softmax)
    with pytest.raises(InputError, match=f"^{task}: expected a softmax with its vocabulary"):
        allennlp("bilm-import", "--checkpoint", task, tmp_path / "model.tar.gz")
    with pytest.raises(InputError, match=f"^{task}: expected a softmax with its words, found none"):
        allennlp("bilm-export", task, tmp_path / "bilm-tf", "--softmax")
    assert not (tmp_path / "bilm-tf").exists()
    with pytest.raises(InputError, match=f"^{task}: expected no vocabulary file with this"):
        find_bilm(task, None, ROOT / "fixtures" / "text" / "train.txt")


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("word_dim", [0, 5])
def test_any_token_encoder(tmp_path: Path, word_dim: int, requires_grad: bool) -> None:
    """A biLM over code points, and a table of words, in a task's archive, in its export and in the
    files of `save`. They need no other file. The expected vectors are those of the source."""
    source, text = tmp_path / "source", "the dog 日本 unknown"
    write_elmoformanylangs(source, word_dim=word_dim)
    expected = Elmo.from_archive(source).embed(text, layer="all")
    embedder = {"archive_file": str(source), "requires_grad": requires_grad}
    model = write_task(tmp_path / "task", elmo=embedder)
    shutil.rmtree(source)
    allennlp("bilm-export", tmp_path / "task.tar.gz", tmp_path / "exported")
    elmo_in(model).save(tmp_path / "saved")
    loaded = load(model_of(elmo=embedder), tmp_path / "task")
    assert numpy.array_equal(elmo_in(loaded).embed(text, layer="all"), expected)
    for name in ("task.tar.gz", "exported", "saved"):
        found = Elmo.from_archive(tmp_path / name).embed(text, layer="all")
        assert numpy.array_equal(found, expected), name


def test_nothing_in_a_config_is_run(bilm_archive: str, tmp_path: Path, monkeypatch: Any) -> None:
    """The biLM loads as without the hostile parts, which name a class that would make a file."""
    model = write_task(tmp_path / "task", elmo={"archive_file": bilm_archive})
    monkeypatch.setattr(subprocess, "Popen", lambda *_, **__: pytest.fail("it was run"))
    hostile = {"type": "subprocess.Popen", "args": ["touch", "trap"]}
    config_file = tmp_path / "task" / "config.json"
    found = json.loads(config_file.read_text())
    found["model"] |= {**hostile, "encoder": hostile, "initializer": hostile}
    found["model"]["text_field_embedder"]["token_embedders"]["elmo"]["vocab"] = hostile
    config_file.write_text(json.dumps({**found, "vocabulary": hostile}))
    elmo = Elmo.from_archive(tmp_path / "task")
    assert numpy.array_equal(elmo.embed(SENTENCE), elmo_in(model).embed(SENTENCE))


def edit(file: str, change: Callable[[str], str]) -> Callable[[Path], Any]:
    return lambda folder: (folder / file).write_text(change((folder / file).read_text()))


def nan_in_the_mix(folder: Path) -> None:
    state = torch.load(folder / "best.th", weights_only=True)
    state["_text_field_embedder.token_embedder_elmo._elmo.scalar_mix_0.gamma"].fill_(torch.nan)
    torch.save(state, folder / "best.th")


OPTIONS = "vocabulary/elmo_options.txt"
DAMAGED: dict[str, tuple[Callable[[Path], Any], str]] = {
    "NaN in the mix": (nan_in_the_mix, r"_elmo\.scalar_mix_0\.gamma: expected finite numbers"),
    "a wrong setting": (
        edit("config.json", lambda text: text.replace('"dropout"', '"do_layer_norm"')),
        r"config\.json: the embedder elmo: do_layer_norm: expected true or false, found 0\.0",
    ),
    "no options": (
        lambda folder: (folder / OPTIONS).unlink(),
        f"found 'elmo_test_task' with a biLM whose options are not in {OPTIONS}",
    ),
    "an entry that is none": (edit(OPTIONS, lambda _: "{\n"), 'namespace "elmo_options"'),
    "no weights": (lambda folder: (folder / "best.th").unlink(), "expected weights"),
}


@pytest.mark.parametrize("damage", DAMAGED)
def test_damage_is_named(bilm_archive: str, tmp_path: Path, damage: str) -> None:
    """One error begins with the folder. `test_fill.py` damages the weights."""
    write_task(tmp_path / "task", elmo={"archive_file": bilm_archive})
    change, message = DAMAGED[damage]
    change(tmp_path / "task")
    with pytest.raises(InputError, match=rf"^{tmp_path}/task: .*{message}"):
        Elmo.from_archive(tmp_path / "task")
