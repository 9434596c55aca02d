import gc
import random
import threading
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.data import DataLoader, DatasetReader
from allennlp.data.dataset_readers import SequenceTaggingDatasetReader
from allennlp.data.fields import MetadataField
from allennlp.nn.util import move_to_device
from allennlp.training.util import get_batch_size

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.data import data_loader
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary, vocabulary_words
from elmo_plugin.text.characters import words_to_characters
from elmo_plugin.text.corpus import CorpusError

STREAMS = {"forward_inputs", "forward_targets", "backward_inputs", "backward_targets"}
KEYS = {"words", "word_ids", *STREAMS}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write 200 sentences of up to 9 of 60 words."""
    file = tmp_path / "text.txt"
    numbers = np.random.default_rng(0)
    lines = [
        " ".join(f"w{k}" for k in numbers.integers(0, 60, size=numbers.integers(1, 10)))
        for _ in range(200)
    ]
    file.write_text("\n".join(lines))
    return file


def make(file: Path, **params) -> BiLMDataLoader:
    """Make a loader from a config, with a vocabulary of the 40 most frequent words."""
    cache_dir = str(file.parent / "cache")
    reader = BiLMDatasetReader(max_characters_per_token=12)
    loader = DataLoader.from_params(
        Params({"type": "bilm", "batch_size": 4, "window": 5, "cache_dir": cache_dir, **params}),
        reader=reader,
        data_path=str(file),
    )
    vocab = BiLMVocabulary.from_corpus(str(file), max_size=40, min_count=1, cache_dir=cache_dir)
    loader.index_with(vocab)
    assert isinstance(loader, BiLMDataLoader)
    return loader


def tensors(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return all that the model reads of a batch."""
    return {"starts": batch["starts"], **batch["window"].tensors()}


def tensors_of(batches) -> list[dict[str, list]]:
    return [{key: tensor.tolist() for key, tensor in tensors(batch).items()} for batch in batches]


def n_targets(batch: dict[str, Any]) -> int:
    return int((tensors(batch)["forward_targets"] != -100).sum())


_others: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def note_other_threads() -> None:
    """Record the threads of earlier tests, which may still be ending."""
    _others.clear()
    _others.update(threading.enumerate())


def workers() -> set[threading.Thread]:
    """Return the threads that the test has started to make windows."""
    return {
        thread for thread in threading.enumerate() if thread.name.startswith("bilm-windows")
    } - _others


def test_a_window_is_what_the_model_reads(file: Path) -> None:
    """The text itself is the oracle: without shuffling, the rows one after the other are its
    sentences. The characters are those of `words_to_characters`, and the ids are those of the
    vocabulary, or 2 for unknown words."""
    cache_dir = str(file.parent / "cache")
    vocab = BiLMVocabulary.from_corpus(corpus=str(file), min_count=1, cache_dir=cache_dir)
    words = vocabulary_words(vocab)
    ids = {word: rank if rank < 40 else 2 for rank, word in enumerate(words)}
    spelled = dict(zip(map(tuple, words_to_characters(words, 12).tolist()), words, strict=True))
    rows: list[list[tuple]] = [[] for _ in range(4)]
    for index, batch in enumerate(map(tensors, make(file, shuffle=None))):
        assert batch["starts"].tolist() == [index == 0] * 4
        inputs = [spelled[tuple(characters)] for characters in batch["words"].tolist()]
        assert len(set(inputs)) == len(inputs)
        for row, *parts in zip(
            rows,
            batch["forward_inputs"].tolist(),
            batch["forward_targets"].tolist(),
            batch["backward_inputs"].tolist(),
            batch["backward_targets"].tolist(),
            strict=True,
        ):
            for forward_in, forward_out, backward_in, backward_out in zip(*parts, strict=True):
                assert (forward_out == -100) == (backward_out == -100)
                if forward_out != -100:
                    row.append((inputs[forward_in], forward_out, inputs[backward_in], backward_out))
    expected = []
    for line in file.read_text().split("\n"):
        forward = ["<S>", *line.split(), "</S>"]
        backward = forward[::-1]
        expected += [
            (forward[i], ids[forward[i + 1]], backward[i], ids[backward[i + 1]])
            for i in range(len(forward) - 1)
        ]
    assert [step for row in rows for step in row] == expected


def test_types_and_shapes(file: Path) -> None:
    """The types and shapes are those of the class's docstring."""
    for batch in make(file):
        assert list(batch) == ["starts", "window"]
        assert batch["starts"].dtype == torch.bool
        assert batch["starts"].shape == (4,)
        window = batch["window"].tensors()
        assert set(window) == KEYS
        assert window["words"].dtype == torch.int16
        assert window["words"].shape[1] == 12
        assert window["word_ids"].dtype == torch.int64
        assert window["word_ids"].shape == window["words"].shape[:1]
        for key in STREAMS:
            assert window[key].dtype == torch.int64
            assert window[key].shape == (4, 5)


def test_a_window_is_a_batch_to_allennlp(file: Path) -> None:
    """The batch is a plain dictionary of 4 rows. Counting the rows or moving the batch does not
    make its window, and the model then finds the window's tensors on the device that the batch was
    moved to."""
    batch = next(iter(make(file)))
    assert type(batch) is dict
    assert get_batch_size(batch) == 4
    moved = move_to_device(batch, torch.device("meta"))
    assert moved["starts"].device.type == "meta"
    assert not workers()
    found = moved["window"].tensors(moved["starts"].device)
    assert found.keys() == KEYS
    assert {tensor.device.type for tensor in found.values()} == {"meta"}


def test_counts_are_known(file: Path) -> None:
    """The numbers of windows and targets are counted, and each epoch predicts every token once."""
    loader = make(file)
    sentences = [line.split() for line in file.read_text().split("\n")]
    expected = len(loader)
    for _ in range(3):
        windows = list(loader)
        assert len(windows) == len(loader)
        assert abs(len(loader) - expected) <= 2
        predicted = sum(n_targets(batch) for batch in windows)
        assert predicted == sum(map(len, sentences)) + len(sentences)


def test_epochs_follow_from_the_seed_and_their_number(file: Path) -> None:
    """Two loaders agree in every epoch, regardless of the global random states, and do not change
    these."""
    first = make(file)
    epochs = [tensors_of(first), tensors_of(first)]
    assert epochs[0] != epochs[1]
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    before = (random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist())
    second = make(file)
    assert [tensors_of(second), tensors_of(second)] == epochs
    assert before == (random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist())
    assert tensors_of(make(file, seed=1)) != epochs[0]


def test_discarded_windows_are_never_made(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As the trainer does when it resumes, an epoch and 7 windows are drawn and dropped. The
    windows that follow are the same as without dropping, and no window before them was made."""
    whole = make(file)
    list(whole)
    expected = tensors_of(list(whole)[7:])
    _others.update(workers())  # of these windows, which may still be ending
    loader = make(file)
    made: list[int] = []
    load_tokens = loader.corpus.load_tokens

    def counting(shard: int) -> np.ndarray:
        made.append(shard)
        return load_tokens(shard)

    monkeypatch.setattr(loader.corpus, "load_tokens", counting)
    for _ in loader:
        pass
    batches = iter(loader)
    for _ in range(7):
        next(batches)
    assert made == []
    assert not workers()
    assert tensors_of(batches) == expected
    assert made == [0]


def test_windows_may_be_read_in_any_order(file: Path) -> None:
    """The windows are the same as in their own order, also when they are read again."""
    expected = tensors_of(make(file))
    windows = list(make(file))
    order = list(range(len(windows)))
    random.Random(0).shuffle(order)
    found = {index: tensors_of([windows[index]])[0] for index in order}
    assert [found[index] for index in range(len(windows))] == expected
    assert tensors_of(windows) == expected


def test_an_error_in_the_background_reaches_the_model(file: Path) -> None:
    """The corpus is damaged after it was opened. The model gets the error, and the same error
    again."""
    loader = make(file)
    name = loader.corpus.folder / "tokens-00000.npy"
    tokens = np.load(name, mmap_mode="r+")
    tokens[-1] = 10**6
    tokens.flush()
    batches = list(loader)
    for batch in batches[:2]:
        with pytest.raises(CorpusError, match=r"tokens-00000\.npy: expected the content"):
            tensors(batch)


def test_the_thread_ends_with_its_epoch(file: Path) -> None:
    """No thread is left when an epoch is read to its end, or when it is abandoned."""
    loader = make(file)
    for batch in loader:
        tensors(batch)
    ending = workers()
    batches = iter(loader)
    batch = next(batches)
    tensors(batch)
    (thread,) = workers() - ending
    del batches, batch
    gc.collect()
    thread.join(timeout=10)
    assert not thread.is_alive()


@pytest.mark.parametrize("shuffle", ["sentences", None])
def test_ranks_read_what_one_process_would(
    file: Path, monkeypatch: pytest.MonkeyPatch, shuffle: str | None
) -> None:
    """The oracle is one process with all rows: the rows of two ranks together are its rows."""

    def read(loader: BiLMDataLoader) -> Iterator[dict[str, list]]:
        for batch in map(tensors, loader):
            characters = batch["words"]
            yield {
                "forward_inputs": characters[batch["forward_inputs"]].tolist(),
                "backward_inputs": characters[batch["backward_inputs"]].tolist(),
                "forward_targets": batch["forward_targets"].tolist(),
                "backward_targets": batch["backward_targets"].tolist(),
                "starts": batch["starts"].tolist(),
            }

    expected = list(read(make(file, batch_size=6, shuffle=shuffle)))
    monkeypatch.setattr(data_loader, "is_distributed", lambda: True)
    monkeypatch.setattr(data_loader.dist, "get_world_size", lambda: 2)
    ranks = []
    for rank in range(2):
        monkeypatch.setattr(data_loader.dist, "get_rank", lambda rank=rank: rank)
        ranks.append(list(read(make(file, batch_size=3, shuffle=shuffle))))
    assert len(ranks[0]) == len(ranks[1]) == len(expected)
    for first, second, whole in zip(*ranks, expected, strict=True):
        assert {key: first[key] + second[key] for key in whole} == whole


@pytest.mark.parametrize("restart_every", [2, 3, 7])
def test_rows_start_again(file: Path, monkeypatch: pytest.MonkeyPatch, restart_every: int) -> None:
    """By definition, all rows start again in the first window, and then each row once in
    `restart_every` windows, not all at once. Nothing else changes. The rows of two ranks start
    again as those of one process do."""
    loader = make(file, batch_size=6, restart_every=restart_every)
    found = tensors_of(loader)
    starts = np.array([window.pop("starts") for window in found])
    for window, expected in zip(found, tensors_of(make(file, batch_size=6)), strict=True):
        del expected["starts"]
        assert window == expected
    assert starts[0].all()
    for row in starts[1:].T:
        (again,) = np.nonzero(row)
        assert len(again) and set(np.diff(again)) <= {restart_every}
    assert not starts[1:].all(axis=1).any()
    monkeypatch.setattr(data_loader, "is_distributed", lambda: True)
    monkeypatch.setattr(data_loader.dist, "get_world_size", lambda: 2)
    ranks = []
    for rank in range(2):
        monkeypatch.setattr(data_loader.dist, "get_rank", lambda rank=rank: rank)
        half = make(file, batch_size=3, restart_every=restart_every)
        ranks.append([batch["starts"].tolist() for batch in half])
    assert np.array_equal(np.concatenate(ranks, axis=1), starts)


def test_a_vocabulary_of_another_text_is_warned_of(
    file: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """For a vocabulary of another text, all tokens are unknown. For the text's own 40 most frequent
    of 60 words about a third are, and for all its words none is."""
    loader = make(file)
    caplog.clear()
    other = BiLMVocabulary.from_words(["<S>", "</S>", "<UNK>", "elsewhere"])
    loader.index_with(other)
    assert "text.txt: 100.0 % of 1" in caplog.text and "are unknown to the model" in caplog.text
    caplog.clear()
    make(file, shuffle=None).index_with(other)  # as `evaluate` reads
    assert "text.txt: 100.0 % of 1" in caplog.text
    caplog.clear()
    all_words = [f"w{k}" for k in range(60)]
    with caplog.at_level("INFO"):
        loader.index_with(BiLMVocabulary.from_words(["<S>", "</S>", "<UNK>", *all_words]))
    assert "text.txt: 0.0 % of its" in caplog.text and "WARNING" not in caplog.text


def test_cropped_words_are_warned_of(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By hand: with 12 characters a word keeps 10 bytes, so 3 of 303 tokens are cut, which is less
    than one percent, or 3 of 99."""
    for others, message in ((300, None), (96, "3 of 99 tokens (3.0 %) are longer than 10 bytes")):
        caplog.clear()
        file.write_text("w " * others + "\n" + "".join(f"{x * 11}\n" for x in "xyz"))
        make(file, batch_size=1)
        assert ("are cut" in caplog.text) == (message is not None)
        assert message is None or f"{file}: {message}" in caplog.text


def test_fewer_sentences_than_rows(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Training is refused with both numbers in the message, which says that a line is a sentence,
    and evaluation uses as many rows as there are sentences."""
    for text, n in (("a b . c d . " * 100, 1), ("a b\n\nc\n", 2)):
        file.write_text(text)
        message = rf"text\.txt: expected a sentence in each line .* found {n} line\(s\) for 64 rows"
        with pytest.raises(InputError, match=message):
            make(file, batch_size=64)
    loader = make(file, batch_size=64, shuffle=None)
    (batch,) = loader
    assert tensors(batch)["forward_targets"].shape == (2, 5)
    assert "using 2 rows, not 64" in caplog.text


def test_a_line_of_a_million_tokens(file: Path) -> None:
    """All of the line is predicted. Its ranks, of four bytes each, are most of the memory that
    reading it takes."""
    file.write_text("a b\n" * 10 + "x y " * 500_000 + "\nc\n")
    loader = make(file, window=1000)
    tracemalloc.start()
    predicted = sum(n_targets(batch) for batch in loader)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert predicted == 1_000_021 + 12
    assert peak < 8_000_000


def test_rows_that_would_start_again_in_each_window(file: Path) -> None:
    """The rule is that of the docstring. tests/test_bad_parameters.py has other wrong values."""
    with pytest.raises(InputError, match=r"restart_every: expected .*, found 1"):
        make(file, restart_every=1)


def test_missing_files_are_named(file: Path) -> None:
    """The message has the key and the path."""
    with pytest.raises(FileNotFoundError, match=r"data_path: 3: expected a file, a folder"):
        BiLMDataLoader(BiLMDatasetReader(), "3")
    for cache in (str(file), "x" * 5000):
        with pytest.raises((InputError, OSError), match=cache):
            BiLMDataLoader(BiLMDatasetReader(), str(file), cache_dir=cache)


def test_a_part_of_a_text_is_refused(file: Path) -> None:
    """The loader reads whole texts, and the error says so."""
    with pytest.raises(InputError, match=r"without max_instances, .* found 3"):
        BiLMDataLoader(BiLMDatasetReader(max_instances=3), str(file))


def test_another_reader_is_refused(file: Path) -> None:
    """The loader takes its number of characters from the reader."""
    reader: DatasetReader = SequenceTaggingDatasetReader()
    with pytest.raises(InputError, match="found SequenceTaggingDatasetReader"):
        BiLMDataLoader(reader, str(file))


def test_instances_are_the_readers(file: Path) -> None:
    """Some parts of AllenNLP ask a loader for instances, which are those of the reader."""
    fields = [instance["metadata"] for instance in make(file).iter_instances()]
    lines = file.read_text().split("\n")
    assert [cast(MetadataField, field).metadata for field in fields] == list(map(str.split, lines))


def test_tensors_go_to_the_device(file: Path) -> None:
    """The meta device represents any device other than the CPU."""
    loader = make(file)
    loader.set_target_device(torch.device("meta"))
    batch = next(iter(loader))
    device = batch["starts"].device
    assert device.type == "meta"
    assert {x.device.type for x in batch["window"].tensors(device).values()} == {"meta"}
