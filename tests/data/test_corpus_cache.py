import os
import shutil
from multiprocessing import get_context
from pathlib import Path

import pytest

from elmo_plugin.data import corpus_cache
from elmo_plugin.data.corpus_cache import open_corpus


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The folders that were encoded to."""
    folders: list[Path] = []
    encode = corpus_cache.encode

    def counting(files, folder):
        folders.append(folder)
        return encode(files, folder)

    monkeypatch.setattr(corpus_cache, "encode", counting)
    return folders


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text("a b c\nd e\n")
    return file


def test_a_text_is_encoded_once(tmp_path: Path, file: Path, encodings: list[Path]) -> None:
    """The second time, a touched file, and a copy under another name have the same content."""
    cache = tmp_path / "cache"
    first = open_corpus(file, cache)
    assert open_corpus(file, cache).folder == first.folder
    os.utime(file, ns=(1, 1))
    assert open_corpus(file, cache).folder == first.folder
    copy = shutil.copy(file, tmp_path / "copy.txt")
    assert open_corpus(copy, cache).folder == first.folder
    assert encodings == [first.folder]


def test_changed_content_is_encoded_again(
    tmp_path: Path, file: Path, encodings: list[Path]
) -> None:
    """The size is the same, so the content alone tells."""
    cache = tmp_path / "cache"
    open_corpus(file, cache)
    file.write_text("a b c\nd f\n")
    os.utime(file, ns=(1, 1))
    assert list(open_corpus(file, cache).sentences()) == [["a", "b", "c"], ["d", "f"]]
    assert len(encodings) == 2


def test_a_damaged_entry_is_encoded_again(
    tmp_path: Path, file: Path, encodings: list[Path]
) -> None:
    """What is in the cache can always be made again from the text."""
    cache = tmp_path / "cache"
    (open_corpus(file, cache).folder / "words.txt").write_text("?")
    assert list(open_corpus(file, cache).sentences()) == [["a", "b", "c"], ["d", "e"]]
    assert len(encodings) == 2


def test_an_encoded_corpus_is_opened_where_it_lies(
    tmp_path: Path, file: Path, encodings: list[Path]
) -> None:
    """A folder that is a corpus needs no cache."""
    folder = open_corpus(file, tmp_path / "cache").folder
    assert open_corpus(folder, tmp_path / "unused").folder == folder
    assert not (tmp_path / "unused").exists()


def _open(path: Path, cache: Path, queue) -> None:
    queue.put(list(open_corpus(path, cache).sentences()))


def test_processes_at_the_same_time_share_one_corpus(tmp_path: Path, file: Path) -> None:
    """All read the whole text, and one folder holds it."""
    context = get_context("fork")
    queue = context.Queue()
    processes = [
        context.Process(target=_open, args=(file, tmp_path / "cache", queue)) for _ in range(4)
    ]
    for process in processes:
        process.start()
    assert [queue.get(timeout=60) for _ in processes] == [[["a", "b", "c"], ["d", "e"]]] * 4
    for process in processes:
        process.join()
    assert len(list((tmp_path / "cache").glob("*/corpus.json"))) == 1
