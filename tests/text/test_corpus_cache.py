import os
import shutil
import time
from multiprocessing import get_context
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.text import corpus_cache, encoding, lines
from elmo_plugin.text.corpus import CorpusError, EncodedCorpus
from elmo_plugin.text.corpus_cache import open_corpus
from tests.conftest import Fuzz, write_file
from tests.ordinary_user import as_ordinary_user

SENTENCES = [["a", "b", "c"], ["d", "e"]]


@pytest.fixture
def encodings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """Return the folders of the encoded corpora."""
    folders: list[Path] = []
    encode = corpus_cache.encode_corpus

    def counting(files, folder):
        folders.append(folder)
        return encode(files, folder)

    monkeypatch.setattr(corpus_cache, "encode_corpus", counting)
    return folders


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_file(tmp_path / "text.txt", "a b c\nd e\n")


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def sentences(path: Path, cache: Path) -> list[list[str]]:
    return list(open_corpus(path, cache).sentences())


def test_a_text_is_encoded_once(tmp_path, file, cache, encodings, monkeypatch):
    """A second run, a touched file, a copy under another name and a copy in the place of the text
    have the same content, so the text is encoded once. A folder that is a corpus needs no cache.
    `~` is the home folder. A file under the name of a corpus, and a folder without one, are no
    corpora."""
    (cache / ("1" * 20)).mkdir(parents=True)
    (cache / ("0" * 20)).write_text("a file")
    folder = open_corpus(file, cache).folder
    assert open_corpus(file, cache).folder == folder
    os.utime(file, ns=(1, 1))
    assert open_corpus(file, cache).folder == folder
    copy = shutil.copy(file, tmp_path / "copy.txt")
    assert open_corpus(copy, cache).folder == folder
    os.replace(copy, file)
    assert open_corpus(file, cache).folder == folder
    assert encodings == [folder] and (cache / ("0" * 20)).read_text() == "a file"
    monkeypatch.setenv("HOME", str(folder.parent))
    for name in (folder, f"~/{folder.name}"):
        assert open_corpus(name, tmp_path / "unused").folder == folder
    assert not (tmp_path / "unused").exists()


@pytest.mark.parametrize("way", ["by another file", "in place"])
def test_other_content_of_the_same_size_and_time_is_noticed(tmp_path, file, cache, encodings, way):
    """The oracle is the text as it is now, and as it was before when that is put back. `rsync
    --times` and unpacking an archive keep modification times."""
    stamp = file.stat().st_mtime_ns
    for last in "efe":
        new = write_file(
            tmp_path / "new.txt" if way == "by another file" else file, f"a b c\nd {last}\n"
        )
        os.utime(new, ns=(stamp, stamp))
        os.replace(new, file)
        assert sentences(file, cache) == [["a", "b", "c"], ["d", last]]
    assert len(encodings) == 2


def test_a_change_within_one_tick_of_the_clock_is_noticed(file, cache, encodings, monkeypatch):
    """The same file gets other content of the same size. The file system's clock stands still, a
    minute ahead, so that a slow test does not run into its next tick."""
    stat = Path.stat
    tick = time.time_ns() + 60 * 10**9

    def coarse(path: Path, **kwargs) -> os.stat_result:
        stamps = {"st_mtime_ns": tick, "st_ctime_ns": tick}
        return os.stat_result(tuple(stat(path, **kwargs)), stamps)

    monkeypatch.setattr(Path, "stat", coarse)
    for last in "ef":
        file.write_text(f"a b c\nd {last}\n")
        assert sentences(file, cache) == [["a", "b", "c"], ["d", last]]
    assert len(encodings) == 2


def test_a_pipe(tmp_path, cache):
    """`<(command)` in a shell is a pipe, whose text can be read only once."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    writer = Thread(target=pipe.write_text, args=["a b c\n"])
    writer.start()
    assert sentences(pipe, cache) == [["a", "b", "c"]]
    writer.join()


@pytest.mark.parametrize("is_touched", [False, True])
def test_a_damaged_entry_is_encoded_again(file, cache, encodings, is_touched):
    """It is damaged, replaced by a file, and gone. A touched file finds the corpus by its content,
    and a second time by its link, which then leads nowhere."""
    folder = open_corpus(file, cache).folder
    if is_touched:
        os.utime(file, ns=(1, 1))
        assert open_corpus(file, cache).folder == open_corpus(file, cache).folder == folder
    (folder / "words.txt").write_text("?")
    assert sentences(file, cache) == SENTENCES and len(encodings) == 2
    for entry in cache.glob("*/corpus.json"):
        shutil.rmtree(entry.parent.resolve(), ignore_errors=True)
    if not is_touched:
        folder.write_text("?")
        with pytest.raises(CorpusError, match=r"expected an encoded corpus, found no corpus.json$"):
            EncodedCorpus(folder)
    assert sentences(file, cache) == SENTENCES and len(encodings) == 3


@pytest.mark.parametrize("is_damaged", [False, True])
def test_nothing_outside_the_cache_is_removed(tmp_path, file, cache, encodings, is_damaged):
    """A corpus elsewhere, to which a name in the cache is a link, stays as it is, and it is read
    unless it is damaged."""
    name = open_corpus(file, cache).folder.name
    precious = Path(shutil.move(cache / name, tmp_path / "precious"))
    (cache / name).symlink_to(precious)
    if is_damaged:
        (precious / "words.txt").write_text("precious")
    before = {path.name: path.read_bytes() for path in precious.iterdir()}
    for _ in range(2):
        assert sentences(file, cache) == SENTENCES
    assert {path.name: path.read_bytes() for path in precious.iterdir()} == before
    assert len(encodings) == 1 + is_damaged


def test_a_cache_that_cannot_be_written_to_serves_what_it_holds():
    """A user without permission to write can read the text and a copy of it, and gets an error for
    another text."""
    with TemporaryDirectory() as name:  # other users may not enter pytest's own
        folder = Path(name)
        (folder / "text.txt").write_text("a b c\nd e\n")
        open_corpus(folder / "text.txt", folder / "cache")
        shutil.copy(folder / "text.txt", folder / "copy.txt")
        (folder / "other.txt").write_text("f\n")
        for read_only in (folder / "cache", folder):
            read_only.chmod(0o555)
        places = [("text", "cache"), ("copy", "cache"), ("other", "cache"), ("text", "new")]
        *found, other, new = (
            as_ordinary_user(sentences, folder / f"{text}.txt", folder / cache)
            for text, cache in places
        )
        for writable in (folder, folder / "cache"):
            writable.chmod(0o755)
    assert found == [SENTENCES] * 2
    for error, text, cache in ((other, "other", "cache"), (new, "text", "new")):
        assert f"{cache}: expected a folder that can be written to" in error
        assert f"{text}.txt in it, found neither (Permission denied)" in error


def test_processes_at_the_same_time_share_one_corpus(file, cache):
    """All processes read the whole text, and there is one folder."""
    context = get_context("fork")
    queue = context.Queue()
    read = lambda: queue.put(sentences(file, cache))  # noqa: E731
    processes = [context.Process(target=read) for _ in range(4)]
    for process in processes:
        process.start()
    assert [queue.get(timeout=60) for _ in processes] == [SENTENCES] * 4
    for process in processes:
        process.join()
    assert len(list(cache.glob("*/corpus.json"))) == 1


def _change(file: Path, random: Random) -> None:
    """Change a text as an editor or another program does."""
    text = "".join(f"{random.choice('abcdef')} x\n" for _ in range(random.randint(1, 400)))
    how = random.choice(["a", "w", "r+", "replace", "cut", "touch"])
    if how == "replace":
        file.with_name("other").write_text(text)
        os.replace(file.with_name("other"), file)
    elif how == "cut":
        os.truncate(file, file.stat().st_size // 8 * 4)
    elif how == "touch":
        os.utime(file)
    else:
        size = file.stat().st_size
        with open(file, how) as opened:
            opened.write(text[:size] if how == "r+" else text)


def test_a_text_that_changes_while_it_is_read(tmp_path, fuzz: Fuzz, monkeypatch):
    """Property: once the text no longer changes, the corpus is the text that the file has, whatever
    was read of it before."""
    monkeypatch.setattr(lines, "BLOCK_BYTES", 64)
    read_blocks = lines.read_blocks
    for number, random in enumerate(fuzz.cases(5)):
        file, cache = tmp_path / f"{number}.txt", tmp_path / f"cache{random.randrange(3)}"
        file.write_text("a b\n" * random.randint(1, 200))
        moments = set(random.choices(range(12), k=random.randint(1, 3)))
        n_blocks = 0

        def read_and_change(*args, moments=moments, file=file, random=random):
            nonlocal n_blocks
            for block in read_blocks(*args):
                n_blocks += 1
                if n_blocks in moments:
                    _change(file, random)
                yield block

        with monkeypatch.context() as patch:
            patch.setattr(encoding, "read_blocks", read_and_change)
            for _ in range(random.randint(1, 2)):
                try:
                    open_corpus(file, cache)
                except InputError as error:  # nothing was left of it
                    assert "expected sentences, found no token" in str(error)
        final = [line.split() for line in file.read_text().splitlines() if line.strip()]
        for _ in range(2):
            assert not final or sentences(file, cache) == final, number
