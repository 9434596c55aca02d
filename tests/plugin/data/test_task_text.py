"""The text of a task. Expected sentences are written by hand, or are those of AllenNLP's reader."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch.distributed as dist
from allennlp.common import util
from allennlp.data import DatasetReader, Field, Instance, Token
from allennlp.data.fields import ListField, MetadataField, TextField
from allennlp_models.structured_prediction import SrlReader

from elmo_plugin.checks import InputError
from elmo_plugin.text.corpus_cache import open_corpus
from elmo_plugin.text.lines import read_sentences
from tests.conftest import ROOT, write_file

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


def read(path: str, *fields: Field) -> list[str]:
    """Return the lines of a task whose instances have one of these fields each."""
    InstancesReader.instances = [Instance({"text": field}) for field in fields]
    return lines(path)


def text(*words: str | Token) -> TextField:
    return TextField([Token(word) if isinstance(word, str) else word for word in words])


def task(folder: Path, data: Any = "data", **config: Any) -> str:
    file = folder / "task.json"
    config = {"dataset_reader": {"type": "instances_for_test"}, "train_data_path": data, **config}
    file.write_text(json.dumps(config))
    return f"task://{file}#train_data_path"


def lines(path: str) -> list[str]:
    return [" ".join(sentence) for sentence in read_sentences(path)]


def test_text_fields_in_reading_order(tmp_path: Path) -> None:
    """By hand: a passage that recurs and a repeated text count once, also within a list of lists;
    what is no text is left out, as are empty fields and the symbols that readers add. Tokens with
    white space are written as they are indexed, and lone surrogates are left out."""
    passage, options = text("a", "passage", "."), [text("one"), text("who", "?")]
    InstancesReader.instances = [
        Instance({"passage": passage, "question": text("who", "?"), "id": MetadataField("x")}),
        Instance({"passage": passage, "question": text("what", "?")}),
        Instance({"options": ListField([ListField(options), ListField([text()])])}),
        Instance({"target": text("@start@", "a", "target", "@end@")}),
        Instance({"target": text("New York", "a\u00a0b", " ", "c\ud800")}),
    ]
    expected = ["a passage .", "who ?", "what ?", "one", "a target", "New_York a_b _ c"]
    assert lines(task(tmp_path)) == expected


def test_stock_readers(monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: of SNLI, premises and hypotheses; by the reader: of SRL, each sentence once,
    although the model of `srl_elmo.jsonnet` needs a variable."""
    snli = lines("task://training_configs/esim.jsonnet#validation_data_path")
    assert snli[:2] == ["A man throws a stick to a dog .", "A man plays with an animal ."]
    monkeypatch.delenv("ELMO_ARCHIVE", raising=False)
    instances = SrlReader().read("fixtures/srl/train")
    expected = dict.fromkeys(" ".join(t.text for t in i["tokens"].tokens) for i in instances)
    for name in ("srl", "srl_elmo"):
        assert lines(f"task://{CONFIGS}/{name}.jsonnet#train_data_path") == list(expected)


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_file(tmp_path / "data.jsonl", '{"text": "a-b c", "label": "x"}\n')


def classification(tokenizer: str) -> dict[str, str]:
    return {"type": "text_classification_json", "tokenizer": tokenizer}


@pytest.mark.parametrize(
    ("reader", "expected"), [(classification("whitespace"), "a-b c"), (None, "a - b c")]
)
def test_validation_data_has_its_own_reader(tmp_path, data, reader, expected):
    """AllenNLP reads validation and test data with `validation_dataset_reader` if there is one. If
    it is null, it is as if the config did not have it."""
    keys = ("validation_data_path", "test_data_path")
    config = {"validation_dataset_reader": reader, **dict.fromkeys(keys, str(data))}
    path = task(tmp_path, str(data), dataset_reader=classification("letters_digits"), **config)
    assert lines(path) == ["a - b c"]
    for key in keys:
        assert lines(path.replace("train_data_path", key)) == [expected]


def test_several_tasks(tmp_path: Path) -> None:
    """A reader of type `multitask` has a path for each task, whose sentences are in the files."""
    (tmp_path / "one").write_text("A###DET dog###NOUN\n")
    (tmp_path / "two").write_text("None###PRON ran###VERB\nA###DET dog###NOUN\n")
    paths = {name: str(tmp_path / name) for name in ("one", "two")}
    reader = {"type": "multitask", "readers": dict.fromkeys(paths, "sequence_tagging")}
    assert lines(task(tmp_path, paths, dataset_reader=reader)) == ["A dog", "None ran"]


def test_symbols_of_the_config(tmp_path: Path) -> None:
    """By hand: the two words of the file, without the symbols that its reader adds."""
    (tmp_path / "pairs").write_text("dog\tHund\n")
    reader = {"type": "seq2seq", "source_tokenizer": "whitespace", "start_symbol": "<go>"}
    assert lines(task(tmp_path, str(tmp_path / "pairs"), dataset_reader=reader)) == ["dog", "Hund"]


def test_changes_are_noticed(tmp_path: Path, data: Path) -> None:
    """Property: the corpus is that of the data and the reader as they are now."""
    path = task(tmp_path, str(data), dataset_reader=classification("whitespace"))

    def corpus() -> list[list[str]]:
        return list(open_corpus(path, tmp_path / "cache").sentences())

    assert corpus() == [["a-b", "c"]]
    old = data.read_text()
    data.write_text(old.replace("a-b c", "a-b d"))
    os.utime(data, ns=(1, 1))  # of the same size
    assert corpus() == [["a-b", "d"]]
    (new := tmp_path / "new.jsonl").write_text(old)
    os.utime(new, ns=(1, 1))  # and of the same time
    os.replace(new, data)
    assert corpus() == [["a-b", "c"]]
    task(tmp_path, str(data), dataset_reader=classification("letters_digits"))
    assert corpus() == [["a", "-", "b", "c"]]


def test_a_reader_without_a_file(tmp_path, data, monkeypatch):
    """A reader of a notebook reads; Python knows no source file for it."""
    monkeypatch.delattr("__main__.__file__", raising=False)
    reader = type("NotebookReader", (InstancesReader,), {"__module__": "__main__"})
    DatasetReader.register("notebook_for_test", exist_ok=True)(reader)
    path = task(tmp_path, str(data), dataset_reader={"type": "notebook_for_test"})
    assert read(path, text("a", "b")) == ["a b"]


def test_a_text_is_read_once(tmp_path: Path, data: Path) -> None:
    """Property: the second time, the reader is not asked; without files to look at, it is."""
    path = task(tmp_path, str(data))
    assert [read(path, text(word)) for word in "ab"] == [["a"], ["a"]]
    path = task(tmp_path, "no file, but the reader knows")
    assert [read(path, text(word)) for word in "bc"] == [["b"], ["c"]]


@pytest.mark.parametrize("reader", ["instances_for_test", "sequence_tagging"])
def test_each_process_reads_all(tmp_path, monkeypatch, reader):
    """In distributed training AllenNLP's readers read only their process's share of instances. The
    second one has `shard_iterable`, which asks for the process itself."""
    (tmp_path / "data.tsv").write_text("a###X\nb###X\nc###X\nd###X\n")
    path = task(tmp_path, str(tmp_path / "data.tsv"), dataset_reader={"type": reader})
    monkeypatch.setattr("allennlp.common.util.is_distributed", lambda: True)
    monkeypatch.setattr(dist, "get_world_size", lambda: 2)
    monkeypatch.setattr(dist, "get_rank", lambda: 1)
    assert InstancesReader().get_distributed_info() is not None
    assert read(path, *map(text, "abcd")) == list("abcd")
    assert util.is_distributed()


PIECES = text("go", Token("##ing", text_id=7))


@pytest.mark.parametrize(
    ("field", "config", "message"),
    [
        (PIECES, {}, r"expected words, .*tokenizer.*, found the word pieces go ##i"),
        (text("go", Token(None)), {}, "Unexpected null text for token"),
        (MetadataField("x"), {}, "expected text fields in the instances of data, found none"),
        (PIECES, {"key": "test_data_path"}, '"test_data_path" is required'),
        (
            PIECES,
            {"dataset_reader": {"type": "unheard_of"}},
            "unheard_of not in .* for dataset_reader.type",
        ),
        (PIECES, {"dataset_reader": {"type": "snli", "nonsense": 1}}, ".*argument 'nonsense'"),
        (PIECES, {"dataset_reader": {"type": "srl"}}, "file data not found"),
    ],
)
def test_errors_are_named(tmp_path, field, config, message):
    """The message names the config and the key, and has that of AllenNLP or of the reader."""
    key = config.pop("key", "train_data_path")
    path = task(tmp_path, **config).replace("train_data_path", key)
    with pytest.raises(InputError, match=rf"^task://.*task\.json#{key}: .*{message}"):
        read(path, field)


@pytest.mark.parametrize("key", ["", "#", "#model"])
def test_the_key_is_required(tmp_path: Path, key: str) -> None:
    """Which data is meant must be said: validation on the training text would be silent."""
    path = task(tmp_path).partition("#")[0] + key
    with pytest.raises(InputError, match=r"the key of the data .*: expected one of 'train_"):
        lines(path)


def test_configs_that_cannot_be_read(tmp_path: Path) -> None:
    """The message names the file, and in a file that is no Jsonnet the error."""
    with pytest.raises(FileNotFoundError, match=r"gone\.jsonnet"):
        lines("task://gone.jsonnet#train_data_path")
    (tmp_path / "bad.jsonnet").write_text("{ a: ")
    with pytest.raises(InputError, match=r"^task://.*bad\.jsonnet#train_data_path: STATIC ERROR"):
        lines(f"task://{tmp_path}/bad.jsonnet#train_data_path")
