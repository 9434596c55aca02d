import gzip
import os
import shutil
import signal
from collections import Counter
from multiprocessing import get_context
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo_plugin.checks import InputError
from elmo_plugin.files.digest import digest
from elmo_plugin.text import lines
from elmo_plugin.text.characters import SPECIAL_WORDS
from elmo_plugin.text.corpus import EncodedCorpus
from elmo_plugin.text.encoding import encode_corpus
from tests.conftest import file_size_limit
from tests.text.shards import encode_in_shards

LINES = st.lists(
    st.lists(st.sampled_from(["a", "b", "c", "é", "👍", "<S>", "<UNK>", "x" * 60])), max_size=36
).filter(any)
"""Sentences, and empty lines."""


def write_lines(file: Path, text: list[list[str]]) -> Path:
    file.write_text("".join(" ".join(line) + "\n" for line in text), "utf-8")
    return file


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()}


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(LINES, st.integers(1, 30), st.integers(1, 50))
def test_a_corpus_holds_the_text(tmp_path, monkeypatch, text, shard_tokens, block_bytes):
    """The oracles are the text itself and `collections.Counter`, whose `most_common` keeps words of
    equal count in the order of their first occurrence. By definition, a shard has at most
    `shard_tokens` tokens or one sentence, and the cuts do not depend on how the text was read."""
    file = write_lines(tmp_path / "text", text)
    for folder in ("one", "whole", "pieces"):
        shutil.rmtree(tmp_path / folder, ignore_errors=True)
    one = encode_corpus([file], tmp_path / "one")
    whole = encode_in_shards([file], tmp_path / "whole", shard_tokens)
    with monkeypatch.context() as patch:
        patch.setattr(lines, "BLOCK_BYTES", block_bytes)
        corpus = encode_in_shards([file], tmp_path / "pieces", shard_tokens)
    tokens = [word for line in text for word in line]
    counter = Counter(tokens)
    ordinary = Counter(word for word in tokens if word not in SPECIAL_WORDS)
    assert one.words() == [*SPECIAL_WORDS, *(word for word, _ in ordinary.most_common())]
    for found in (one, whole, corpus):
        words = found.words()
        assert list(found.sentences()) == [line for line in text if line]
        assert found.counts.tolist() == [counter[word] for word in words]
        assert set(words) == {*SPECIAL_WORDS, *tokens}
        assert found.num_tokens == len(tokens)
        assert found.num_sentences == sum(map(bool, text))
        assert found.word_lengths().tolist() == [len(word.encode("utf-8")) for word in words]
    assert [len(x.tokens) for x in corpus.shards] == [len(x.tokens) for x in whole.shards]
    for shard in corpus.shards:
        assert len(shard.tokens) <= shard_tokens or shard.num_sentences == 1


@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_the_digest_of_a_text(tmp_path, compress):
    """The expected digest and size are those of the bytes of the file. One sentence is never cut,
    whatever the size of a shard."""
    data = compress(b"a b\n" + b"x " * 1_000_000 + b"\nc\n")
    (tmp_path / "text").write_bytes(data)
    corpus = encode_in_shards([tmp_path / "text"], tmp_path / "corpus", 1000)
    (source,) = corpus.description["files"]
    assert source == {"name": "text", "bytes": len(data), "blake2b": digest(data)}
    assert [len(shard.tokens) for shard in corpus.shards] == [2, 1_000_000, 1]


@pytest.mark.parametrize("content", ["", "\n \n\n"])
def test_a_text_without_tokens_is_an_error(tmp_path, content):
    """The error names the file, and only the lock is left."""
    (tmp_path / "empty.txt").write_text(content)
    with pytest.raises(InputError, match=r"empty\.txt: expected sentences, found no token"):
        encode_corpus([tmp_path / "empty.txt"], tmp_path / "corpus")
    assert names(tmp_path) == {"empty.txt", ".corpus.lock"}


def test_a_folder_that_exists_stays(tmp_path):
    """The message names the folder, whose text is still the old one."""
    file = write_lines(tmp_path / "text", [["a"]])
    encode_corpus([file], tmp_path / "corpus")
    file.write_text("b\n")
    with pytest.raises(InputError, match="corpus: expected a new folder to write"):
        encode_corpus([file], tmp_path / "corpus")
    assert list(EncodedCorpus(tmp_path / "corpus").sentences()) == [["a"]]


def test_a_full_disk(tmp_path):
    """The system refuses files of more than a megabyte, and a million tokens take four. Only the
    lock of the corpus is left, and the same call writes it once there is space."""
    (tmp_path / "text").write_text("a " * 1_000_000)
    message = r"corpus: could not write .* is there space left"
    with file_size_limit(1 << 20), pytest.raises(OSError, match=message):
        encode_corpus([tmp_path / "text"], tmp_path / "corpus")
    assert names(tmp_path) == {"text", ".corpus.lock"}
    assert encode_corpus([tmp_path / "text"], tmp_path / "corpus").num_tokens == 1_000_000


def test_an_unreadable_file_is_named(tmp_path):
    """The message is the system's own error of reading. One file is missing, and the other is a
    folder."""
    for file, error in ((tmp_path / "missing", FileNotFoundError), (tmp_path, IsADirectoryError)):
        with pytest.raises(error) as raised:
            encode_corpus([file], tmp_path / "corpus")
        assert raised.value.filename in (file, str(file))
        assert "corpus" not in str(raised.value)
    assert names(tmp_path) == {".corpus.lock"}


def _encode_and_die(file: Path, folder: Path, saves: int) -> None:
    """Encode the text, and kill its own process at the given save."""
    done = 0
    save = np.save

    def save_or_die(*arguments) -> None:
        nonlocal done
        if done == saves:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1
        save(*arguments)

    np.save = save_or_die  # type: ignore[assignment]
    encode_corpus([file], folder)


@pytest.mark.parametrize("saves", [0, 2, 4])
def test_a_killed_encoding_leaves_no_corpus_and_is_cleared_away(tmp_path, saves):
    """SIGKILL comes before the first of five saves, in the first pass, and in the second."""
    file, folder = write_lines(tmp_path / "text", [["a", "b"], ["c", "a"]]), tmp_path / "corpus"
    process = get_context("fork").Process(target=_encode_and_die, args=(file, folder, saves))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert not folder.exists()
    assert list(encode_corpus([file], folder).sentences()) == [["a", "b"], ["c", "a"]]
    assert names(tmp_path) == {"text", ".corpus.lock", "corpus"}
