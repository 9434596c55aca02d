"""A run's config and its vocabulary appear whole or not at all."""

import json
import os
import signal
from collections.abc import Iterator
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.data import vocabulary as allennlp_vocabulary
from allennlp.training import util

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.pretrained import FOLDER
from tests.conftest import ROOT, untar
from tests.plugin.training.toy_training import Killed

PARAMS = {"model": {"type": "bilm"}}


def _killed_while_it_writes(file: Path) -> None:
    def dump(*_, **__) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    json.dump = dump
    Params(PARAMS).to_file(str(file))


@pytest.mark.parametrize("recover", [False, True])
def test_a_kill_while_the_config_is_written(tmp_path: Path, recover: bool) -> None:
    """By definition: a new run is none, so that the same command starts it, and a run that is
    recovered keeps its config, so that it can be recovered again, and a file of an editor. Nothing
    else is left."""
    file = tmp_path / "config.json"
    if recover:
        Params(PARAMS).to_file(str(file))
        (tmp_path / ".config.json.swp").touch()
    before = sorted(tmp_path.iterdir())
    run = get_context("fork").Process(target=_killed_while_it_writes, args=(file,))
    run.start()
    run.join()
    assert run.exitcode == -signal.SIGKILL
    util.create_serialization_dir(Params(PARAMS), str(tmp_path), recover=recover, force=False)
    assert sorted(tmp_path.iterdir()) == before


def saved(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.glob("*")}


@pytest.mark.parametrize("n_lines", [0, 2, 4])
def test_a_kill_leaves_no_part_of_a_vocabulary(tmp_path, monkeypatch, n_lines):
    """By hand: a process that is killed after some of the five lines leaves no new folder, and an
    old one as it was. Then the vocabulary is saved, and AllenNLP reads the words that it has."""
    folder = tmp_path / "run" / "vocabulary"
    for words in (["a", "b"], ["c", "d"]):
        vocab = Vocabulary(tokens_to_add={"tokens": words})
        before = saved(folder)
        left = iter(range(n_lines))

        def kill(line: str, file: Any, left: Iterator[int] = left) -> None:
            if next(left, None) is None:
                raise Killed
            print(line, file=file)

        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(allennlp_vocabulary, "print", kill, raising=False)
            vocab.save_to_files(str(folder))
        assert saved(folder) == before and folder.exists() == bool(before)
        vocab.save_to_files(str(folder))
        found = Vocabulary.from_files(str(folder))
        assert found.get_token_to_index_vocabulary() == vocab.get_token_to_index_vocabulary()
        assert [path.name for path in folder.parent.iterdir()] == ["vocabulary"]


@pytest.mark.parametrize(
    "vocabulary",
    [
        lambda words: BiLMVocabulary.from_words(["<S>", "</S>", "<UNK>", *words]),
        lambda words: Vocabulary(tokens_to_add={"tokens": list(words)}),
    ],
)
def test_the_words_of_a_run_are_not_replaced(tmp_path, vocabulary):
    """Its rows of weights belong to its words. Without a checkpoint there are no weights yet. Other
    namespaces may come, as those of an embedder's options. The error names a section of the page on
    training."""
    folder, page = tmp_path / "vocabulary", ROOT / "docs" / "training.md"
    one, other = vocabulary("ab"), vocabulary("ba")
    one.save_to_files(str(folder))
    other.save_to_files(str(folder))
    (tmp_path / "model_state_e0_b7.th").touch()
    other.add_token_to_namespace("x", "more")
    other.save_to_files(str(folder))
    before = saved(folder)
    assert "more.txt" in before
    section = "More text later, with new words"
    assert f"## {section}\n" in page.read_text("utf-8")
    for wrong, found in ((one, "its words in another order"), (vocabulary("bc"), "other words")):
        message = f"expected that of the run in {tmp_path}, found {found}.* see {section} in docs/"
        with pytest.raises(InputError, match=message):
            wrong.save_to_files(str(folder))
        assert saved(folder) == before


def test_the_vocabulary_of_a_model(bilm_archive: str, tmp_path: Path) -> None:
    """The expected words are those that AllenNLP reads from the archive. Either is a vocabulary in
    a config, as in bilm_finetune.jsonnet, and so is an installed model. Errors name the others."""

    def words(directory: str | Path) -> dict[str, int]:
        vocab = Vocabulary.from_params(Params({"type": "from_files", "directory": str(directory)}))
        return vocab.get_token_to_index_vocabulary("words")

    untar(bilm_archive, tmp_path / "run")
    assert len(expected := words(bilm_archive)) > 3
    assert words(tmp_path / "run") == words(tmp_path / "run" / "vocabulary") == expected
    assert words("tiny") == words("pretrained://tiny")
    for wrong in ("typo", tmp_path, FOLDER / "tiny"):
        with pytest.raises((OSError, InputError), match=f"^vocab.*: directory: {wrong}: .*://NAME"):
            words(wrong)
