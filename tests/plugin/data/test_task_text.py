"""The text of a task. Expected sentences are written by hand, or are those of AllenNLP's reader."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from allennlp.common import util
from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.fields import ListField, MetadataField, TextField
from allennlp_models.structured_prediction import SrlReader

from elmo_plugin.checks import InputError
from elmo_plugin.text.corpus_cache import open_corpus
from elmo_plugin.text.lines import read_sentences
from tests.conftest import ROOT

CONFIGS = ROOT / "training_configs"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are cached in the test's own folder, and the paths of fixtures begin at the root."""
    monkeypatch.setenv("CACHED_PATH_CACHE_ROOT", str(tmp_path / "texts"))
    monkeypatch.setattr("allennlp.common.file_utils.CACHE_DIRECTORY", str(tmp_path / "texts"))
    monkeypatch.chdir(ROOT)


@DatasetReader.register("instances_for_test")
class InstancesReader(DatasetReader):
    """Reads the class's instances for any path."""

    instances: list[Instance]

    def _read(self, file_path: str) -> Iterator[Instance]:
        yield from self.instances

    def apply_token_indexers(self, instance: Instance) -> None:
        pass


def text(*words: str | Token) -> TextField:
    return TextField([Token(word) if isinstance(word, str) else word for word in words])


def task(folder: Path, data: str = "data", **config: Any) -> str:
    file = folder / "task.json"
    config = {"dataset_reader": {"type": "instances_for_test"}, "train_data_path": data, **config}
    file.write_text(json.dumps(config))
    return f"task://{file}#train_data_path"


def lines(path: str) -> list[str]:
    return [" ".join(sentence) for sentence in read_sentences(path)]


def test_text_fields_in_reading_order(tmp_path: Path) -> None:
    """By hand: a passage that recurs and a repeated text count once, also within a list of lists;
    what is no text is left out, as are empty fields and the symbols that readers add."""
    passage = text("a", "passage", ".")
    InstancesReader.instances = [
        Instance({"passage": passage, "question": text("who", "?"), "id": MetadataField("x")}),
        Instance({"passage": passage, "question": text("what", "?")}),
        Instance(
            {
                "options": ListField(
                    [ListField([text("one"), text("who", "?")]), ListField([text()])]
                ),
                "target": text("@start@", "a", "target", "@end@"),
            }
        ),
    ]
    assert lines(task(tmp_path)) == ["a passage .", "who ?", "what ?", "one", "a target"]


def test_white_space_in_tokens(tmp_path: Path) -> None:
    """By hand: such tokens are written as they are indexed; lone surrogates are left out."""
    InstancesReader.instances = [Instance({"text": text("New York", "a\u00a0b", " ", "c\ud800")})]
    assert lines(task(tmp_path)) == ["New_York a_b _ c"]


@pytest.mark.parametrize(
    ("piece", "message"),
    [
        (Token("##ing", text_id=7), r"expected words, .*tokenizer.*, found the word pieces go ##i"),
        (Token(None), "Unexpected null text for token"),
    ],
)
def test_word_pieces_are_refused(tmp_path: Path, piece: Token, message: str) -> None:
    InstancesReader.instances = [Instance({"source": text("go", piece)})]
    with pytest.raises(InputError, match=rf"^task://.*: {message}"):
        lines(task(tmp_path))


def test_fixtures_of_stock_readers() -> None:
    """By hand: of SNLI, premises and hypotheses; by the reader: of SRL, each sentence once."""
    snli = lines("task://training_configs/esim.jsonnet#validation_data_path")
    assert snli[:3] == [
        "A man throws a stick to a dog .",
        "A man plays with an animal .",
        "A woman waits for her brother .",
    ]
    instances = SrlReader().read("fixtures/srl/train")
    expected = dict.fromkeys(" ".join(t.text for t in i["tokens"].tokens) for i in instances)
    assert lines("task://training_configs/srl.jsonnet#train_data_path") == list(expected)


def test_a_config_whose_model_cannot_be_evaluated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model of `srl_elmo.jsonnet` needs a variable; its text is that of `srl.jsonnet`."""
    monkeypatch.delenv("ELMO_ARCHIVE", raising=False)
    base, elmo = (
        lines(f"task://{CONFIGS}/{n}.jsonnet#train_data_path") for n in ("srl", "srl_elmo")
    )
    assert base == elmo


def test_squad(tmp_path: Path) -> None:
    """By hand: the passage once, then its questions."""
    answers = [{"text": "A dog", "answer_start": 0}]
    questions = [{"question": q, "id": q, "answers": answers} for q in ("Who barks ?", "Who ?")]
    article = {"title": "t", "paragraphs": [{"context": "A dog barks .", "qas": questions}]}
    data = tmp_path / "squad.json"
    data.write_text(json.dumps({"data": [article]}))
    reader = {"type": "squad1", "tokenizer": "letters_digits"}
    path = task(tmp_path, str(data), dataset_reader=reader)
    assert lines(path) == ["A dog barks .", "Who barks ?", "Who ?"]


def test_validation_data_has_its_own_reader(tmp_path: Path) -> None:
    """AllenNLP reads validation and test data with `validation_dataset_reader` if there is one."""
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "a-b c", "label": "x"}\n')
    readers = [
        {"type": "text_classification_json", "tokenizer": tokenizer}
        for tokenizer in ("letters_digits", "whitespace")
    ]
    path = task(
        tmp_path,
        str(data),
        dataset_reader=readers[0],
        validation_dataset_reader=readers[1],
        validation_data_path=str(data),
        test_data_path=str(data),
    )
    assert lines(path) == ["a - b c"]
    for key in ("validation_data_path", "test_data_path"):
        assert lines(path.replace("train_data_path", key)) == ["a-b c"]


def test_changes_are_noticed(tmp_path: Path) -> None:
    """Property: the corpus is that of the data and the reader as they are now."""
    data = tmp_path / "data.jsonl"
    data.write_text('{"text": "a-b c", "label": "x"}\n')
    reader = {"type": "text_classification_json", "tokenizer": "whitespace"}
    path = task(tmp_path, str(data), dataset_reader=reader)

    def corpus() -> list[list[str]]:
        return list(open_corpus(path, tmp_path / "cache").sentences())

    assert corpus() == [["a-b", "c"]]
    data.write_text('{"text": "a-b d", "label": "x"}\n')
    os.utime(data, ns=(1, 1))  # of the same size
    assert corpus() == [["a-b", "d"]]
    new = tmp_path / "new.jsonl"
    new.write_text('{"text": "a-b c", "label": "x"}\n')
    os.utime(new, ns=(1, 1))  # and of the same time
    os.replace(new, data)
    assert corpus() == [["a-b", "c"]]
    task(tmp_path, str(data), dataset_reader={**reader, "tokenizer": "letters_digits"})
    assert corpus() == [["a", "-", "b", "c"]]


def test_a_reader_without_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader of a notebook reads; Python knows no source file for it."""
    monkeypatch.delattr("__main__.__file__", raising=False)
    reader = type("NotebookReader", (InstancesReader,), {"__module__": "__main__"})
    DatasetReader.register("notebook_for_test", exist_ok=True)(reader)
    InstancesReader.instances = [Instance({"text": text("a", "b")})]
    data = tmp_path / "data"
    data.touch()
    assert lines(task(tmp_path, str(data), dataset_reader={"type": "notebook_for_test"})) == ["a b"]


def test_a_text_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Property: the second time, the reader is not asked; without files to look at, it is."""
    InstancesReader.instances = [Instance({"text": text("a")})]
    data = tmp_path / "data"
    data.write_text("x")
    path = task(tmp_path, str(data))
    assert lines(path) == ["a"]
    InstancesReader.instances = [Instance({"text": text("b")})]
    assert lines(path) == ["a"]
    path = task(tmp_path, "no file, but the reader knows")
    assert lines(path) == ["b"]
    InstancesReader.instances = [Instance({"text": text("c")})]
    assert lines(path) == ["c"]


def test_each_process_reads_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In distributed training AllenNLP's readers read only their process's share of instances."""
    InstancesReader.instances = [Instance({"text": text(word)}) for word in "abcd"]
    monkeypatch.setattr("allennlp.common.util.is_distributed", lambda: True)
    monkeypatch.setattr(
        "allennlp.data.dataset_readers.dataset_reader.util.is_distributed", lambda: True
    )
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    assert InstancesReader().get_distributed_info() is not None
    assert lines(task(tmp_path)) == list("abcd")


def test_readers_that_choose_their_own_instances_read_all(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This one has `shard_iterable`, which asks for the process itself."""
    (tmp_path / "data.tsv").write_text("a###X\nb###X\nc###X\nd###X\n")
    reader = {"type": "sequence_tagging"}
    monkeypatch.setattr("allennlp.common.util.is_distributed", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    assert lines(task(tmp_path, str(tmp_path / "data.tsv"), dataset_reader=reader)) == list("abcd")
    assert util.is_distributed()


def test_a_reader_that_is_null(tmp_path: Path) -> None:
    """It is as if the config did not have it."""
    InstancesReader.instances = [Instance({"text": text("a")})]
    path = task(tmp_path, validation_dataset_reader=None, validation_data_path="data")
    assert lines(path.replace("train_data", "validation_data")) == ["a"]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"dataset_reader": {"type": "unheard_of"}},
            "unheard_of not in .* for dataset_reader.type",
        ),
        ({"dataset_reader": {"type": "snli", "nonsense": 1}}, ".*argument 'nonsense'"),
        ({"dataset_reader": {"type": "snli", "tokenizer": "whitespace"}}, "file data not found"),
        ({"dataset_reader": {"type": "srl"}}, "file data not found"),
    ],
)
def test_bad_configs(tmp_path: Path, config: dict[str, Any], message: str) -> None:
    """The message names the config and the key, and has that of AllenNLP or of the reader."""
    with pytest.raises(InputError, match=rf"^task://.*task\.json#train_data_path: {message}"):
        lines(task(tmp_path, **config))


@pytest.mark.parametrize("key", ["", "#", "#model"])
def test_the_key_is_required(tmp_path: Path, key: str) -> None:
    """Which data is meant must be said: validation on the training text would be silent."""
    path = task(tmp_path).partition("#")[0] + key
    with pytest.raises(InputError, match=r"the key of the data .*: expected one of 'train_"):
        lines(path)


def test_missing_parts_are_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"^task://.*: key \"test_data_path\" is required"):
        lines(task(tmp_path).replace("train_data_path", "test_data_path"))
    with pytest.raises(FileNotFoundError, match=r"gone\.jsonnet"):
        lines("task://gone.jsonnet#train_data_path")
    (tmp_path / "bad.jsonnet").write_text("{ a: ")
    with pytest.raises(InputError, match=r"^task://.*bad\.jsonnet#train_data_path: STATIC ERROR"):
        lines(f"task://{tmp_path}/bad.jsonnet#train_data_path")


def test_data_without_text(tmp_path: Path) -> None:
    InstancesReader.instances = [Instance({"id": MetadataField("x")})]
    with pytest.raises(
        InputError, match="expected text fields in the instances of data, found none"
    ):
        lines(task(tmp_path))
