import gc
import random
import threading
from collections import Counter
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.data import DataLoader
from allennlp.data.dataset_readers import SequenceTaggingDatasetReader
from allennlp.data.fields import MetadataField
from allennlp.nn.util import move_to_device
from allennlp.training.util import get_batch_size
from scipy.stats import entropy

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.data import data_loader
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary, vocabulary_words
from elmo_plugin.text.characters import words_to_characters
from elmo_plugin.text.corpus import CorpusError
from tests.conftest import write_file

STREAMS = ("forward_inputs", "forward_targets", "backward_inputs", "backward_targets")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Write 200 sentences of up to 9 of 60 words."""
    numbers = random.Random(0)
    lines = (numbers.choices(range(60), k=numbers.randint(1, 9)) for _ in range(200))
    text = "\n".join(" ".join(f"w{k}" for k in line) for line in lines)
    return write_file(tmp_path / "text.txt", text)


def make(file: Path, **params) -> BiLMDataLoader:
    """Make a loader from a config, with a vocabulary of the 40 most frequent words."""
    cache_dir = str(file.parent / "cache")
    reader = BiLMDatasetReader(max_characters_per_token=12)
    config = {"type": "bilm", "batch_size": 4, "window": 5, "cache_dir": cache_dir, **params}
    loader = DataLoader.from_params(Params(config), reader=reader, data_path=str(file))
    vocab = BiLMVocabulary.from_corpus(str(file), max_size=40, min_count=1, cache_dir=cache_dir)
    loader.index_with(vocab)
    assert isinstance(loader, BiLMDataLoader)
    return loader


def tensors(batch: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Return all that the model reads of a batch."""
    return {"starts": batch["starts"], **batch["window"].tensors()}


def tensors_of(batches) -> list[dict[str, list]]:
    return [{key: tensor.tolist() for key, tensor in tensors(batch).items()} for batch in batches]


def of_two_ranks(monkeypatch: pytest.MonkeyPatch, file: Path, **params) -> list[list[dict]]:
    """Return the windows that each of two processes reads, with half the rows."""
    monkeypatch.setattr(data_loader, "is_distributed", lambda: True)
    monkeypatch.setattr(data_loader.dist, "get_world_size", lambda: 2)
    found = []
    for rank in range(2):
        monkeypatch.setattr(data_loader.dist, "get_rank", lambda rank=rank: rank)
        found.append(tensors_of(make(file, batch_size=3, **params)))
    return found


_others: set[threading.Thread] = set()


@pytest.fixture(autouse=True)
def note_other_threads() -> None:
    """Record the threads of earlier tests, which may still be ending."""
    _others.clear()
    _others.update(threading.enumerate())


def workers() -> set[threading.Thread]:
    """Return the threads that the test has started to make windows."""
    threads = set(threading.enumerate()) - _others
    return {thread for thread in threads if thread.name.startswith("bilm-windows")}


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
    for index, batch in enumerate(tensors_of(make(file, shuffle=None))):
        assert batch["starts"] == [index == 0] * 4
        inputs = [spelled[tuple(characters)] for characters in batch["words"]]
        assert len(set(inputs)) == len(inputs)
        for row, *parts in zip(rows, *(batch[name] for name in STREAMS), strict=True):
            for forward_in, forward_out, backward_in, backward_out in zip(*parts, strict=True):
                assert (forward_out == -100) == (backward_out == -100)
                if forward_out != -100:
                    row.append((inputs[forward_in], forward_out, inputs[backward_in], backward_out))
    expected = []
    for line in file.read_text().split("\n"):
        forward = ["<S>", *line.split(), "</S>"]
        backward = forward[::-1]
        for i in range(len(forward) - 1):
            targets = ids[forward[i + 1]], ids[backward[i + 1]]
            expected.append((forward[i], targets[0], backward[i], targets[1]))
    assert [step for row in rows for step in row] == expected


def test_a_window_is_a_batch_to_allennlp(file: Path) -> None:
    """The types and shapes are those of the class's docstring. The batch is a plain dictionary of 4
    rows. Counting the rows or moving the batch does not make its window, and the model then finds
    the window's tensors on the device that the batch was moved to; the meta device represents any
    but the CPU."""
    loader = make(file)
    batch = next(iter(loader))
    assert type(batch) is dict and list(batch) == ["starts", "window"]
    assert (batch["starts"].dtype, batch["starts"].shape) == (torch.bool, (4,))
    assert get_batch_size(batch) == 4
    moved = move_to_device(batch, torch.device("meta"))
    assert moved["starts"].device.type == "meta"
    assert not workers()
    found = moved["window"].tensors(moved["starts"].device)
    assert {x.device.type for x in found.values()} == {"meta"}
    n_words, length = found["words"].shape
    assert (found["words"].dtype, length) == (torch.int16, 12)
    assert (found["word_ids"].dtype, found["word_ids"].shape) == (torch.int64, (n_words,))
    assert found.keys() == {"words", "word_ids", *STREAMS}
    assert {(found[key].dtype, found[key].shape) for key in STREAMS} == {(torch.int64, (4, 5))}
    loader.set_target_device(torch.device("meta"))
    assert next(iter(loader))["starts"].device.type == "meta"


def test_epochs_follow_from_the_seed_and_their_number(file: Path) -> None:
    """Two loaders agree in every epoch, regardless of the global random states, and do not change
    these."""

    def states() -> tuple[Any, ...]:
        return random.getstate(), str(np.random.get_state()), torch.get_rng_state().tolist()

    first = make(file)
    epochs = [tensors_of(first), tensors_of(first)]
    assert epochs[0] != epochs[1]
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    before = states()
    second = make(file)
    assert [tensors_of(second), tensors_of(second)] == epochs
    assert before == states()
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
    load = loader.corpus.load_tokens
    monkeypatch.setattr(loader.corpus, "load_tokens", lambda x: made.append(x) or load(x))
    for _ in loader:
        pass
    batches = iter(loader)
    for _ in range(7):
        next(batches)
    assert made == [] and not workers()
    assert tensors_of(batches) == expected
    assert made == [0]


def test_windows_may_be_read_in_any_order(file: Path) -> None:
    """The windows are the same as in their own order, also when they are read again."""
    expected = tensors_of(make(file))
    windows = list(make(file))
    for index in random.Random(0).sample(range(len(windows)), len(windows)):
        assert tensors_of([windows[index]]) == [expected[index]]
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
@pytest.mark.parametrize("restart_every", [None, 2, 3, 7])
def test_ranks_read_what_one_process_would(file, monkeypatch, shuffle, restart_every):
    """The oracle is one process with all rows: the rows of two ranks together are its rows. By
    definition, all rows start again in the first window, and then each row once in
    `restart_every` windows, not all at once. Nothing else changes."""
    params = {"shuffle": shuffle, "restart_every": restart_every}
    loader = make(file, batch_size=6, **params)
    whole = tensors_of(loader)
    for window, *halves in zip(whole, *of_two_ranks(monkeypatch, file, **params), strict=True):
        assert halves[0]["starts"] + halves[1]["starts"] == window["starts"]
        for key in STREAMS:
            assert spelled(halves[0], key) + spelled(halves[1], key) == spelled(window, key)
    monkeypatch.undo()
    starts = np.array([window.pop("starts") for window in whole])
    for window, expected in zip(whole, tensors_of(make(file, batch_size=6, shuffle=shuffle))):
        del expected["starts"]
        assert window == expected
    assert starts[0].all() and not starts[1:].all(axis=1).any()
    for row in starts[1:].T:
        (again,) = np.nonzero(row)
        assert set(np.diff(again)) == (set() if restart_every is None else {restart_every})


def spelled(window: dict[str, list], key: str) -> list[list]:
    """Return the inputs of a window as characters, which each process numbers, or its targets."""
    is_input = key.endswith("inputs")
    return [[window["words"][x] if is_input else x for x in row] for row in window[key]]


@pytest.mark.parametrize(
    ("words", "shuffle"),
    [(["elsewhere"], "sentences"), (["elsewhere"], None), ([f"w{k}" for k in range(60)], None)],
)
def test_a_vocabulary_of_another_text_is_warned_of(file, caplog, words, shuffle):
    """For a vocabulary of another text, all tokens are unknown, also without shuffling, as
    `evaluate` reads. For all the text's words none is. The perplexity of the frequencies is that of
    SciPy's entropy, with the ends of sentences."""
    loader = make(file, shuffle=shuffle)
    caplog.clear()
    with caplog.at_level("INFO"):
        loader.index_with(BiLMVocabulary.from_words(["<S>", "</S>", "<UNK>", *words]))
    is_other = len(words) == 1
    assert f"text.txt: {100.0 if is_other else 0.0} % of" in caplog.text
    lines = file.read_text().splitlines()
    found = [word if word in words else "<UNK>" for line in lines for word in line.split()]
    frequencies = [*Counter(found).values(), len(lines)]
    assert caplog.text.count(f"have a perplexity of {np.exp(entropy(frequencies)):.1f}\n") == 1
    assert ("are unknown to the model" in caplog.text) == is_other


def test_cropped_words_are_warned_of(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By hand: with 12 characters a word keeps 10 bytes, so 3 of 303 tokens are cut, which is less
    than one percent, or 3 of 99."""
    message = f"{file}: 3 of 99 tokens (3.0 %) are longer than 10 bytes"
    for others, is_said in ((300, False), (96, True)):
        caplog.clear()
        file.write_text("w " * others + "\n" + "".join(f"{x * 11}\n" for x in "xyz"))
        make(file, batch_size=1)
        assert ("are cut" in caplog.text, message in caplog.text) == (is_said, is_said)


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


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"restart_every": 1}, "restart_every: expected .*, found 1"),
        ({"data_path": "3"}, "data_path: 3: expected a file, a folder"),
        ({"data_path": "*.none"}, r"\*\.none: expected text files, found none"),
        ({"cache_dir": "x" * 5000}, "x" * 5000),
        ({"reader": BiLMDatasetReader(max_instances=3)}, "without max_instances, .* found 3"),
        ({"reader": SequenceTaggingDatasetReader()}, "found SequenceTaggingDatasetReader"),
    ],
)
def test_what_is_refused(file: Path, changes: dict[str, Any], message: str) -> None:
    """The message has the key and what was found. tests/test_bad_parameters.py has other values."""
    params: dict[str, Any] = {"reader": BiLMDatasetReader(), "data_path": str(file), "window": 5}
    with pytest.raises((InputError, OSError), match=message):
        BiLMDataLoader(**{**params, **changes})


def test_instances_are_the_readers(file: Path) -> None:
    """Some parts of AllenNLP ask a loader for instances, which are those of the reader."""
    fields = [instance["metadata"] for instance in make(file).iter_instances()]
    lines = file.read_text().split("\n")
    assert [cast(MetadataField, field).metadata for field in fields] == list(map(str.split, lines))
