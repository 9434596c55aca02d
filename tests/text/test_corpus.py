import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo_plugin.files.digest import digest, sealed
from elmo_plugin.text.characters import words_to_characters
from elmo_plugin.text.corpus import CorpusError, EncodedCorpus
from tests.conftest import Fuzz
from tests.damage import damage
from tests.text.shards import encode_in_shards

TEXT = "the dog barks .\nthe 👍 and é\n\nanother <S> document\n" + "x" * 70 + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    file = tmp_path / "text"
    file.write_text(TEXT, "utf-8")
    encode_in_shards([file], tmp_path / "corpus", 10)
    return tmp_path / "corpus"


@pytest.mark.parametrize("length", [3, 12, 50, 80])
def test_characters_are_those_of_the_words(folder: Path, length: int) -> None:
    """The oracle is `words_to_characters` on the words as strings, boundaries included."""
    corpus = EncodedCorpus(folder)
    ranks = np.random.default_rng(0).integers(0, corpus.num_words, size=30)
    ranks[:2] = 0, 1
    words = corpus.words()
    expected = words_to_characters([words[rank] for rank in ranks], length)
    assert corpus.characters(ranks, length).tolist() == expected.tolist()


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-3])


def remove(file: Path) -> None:
    file.unlink()


def change_kind(file: Path) -> None:
    np.save(file, np.load(file).astype(np.float32))


def change_length(file: Path) -> None:
    np.save(file, np.load(file)[:-1])


def garble(file: Path) -> None:
    file.write_text("{", "utf-8")


def make_list(file: Path) -> None:
    file.write_text("[]", "utf-8")


def pickle(file: Path) -> None:
    np.save(file, np.array([{}]), allow_pickle=True)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("corpus.json", remove),
        ("corpus.json", garble),
        ("corpus.json", make_list),
        ("words.txt", cut_short),
        ("words.txt", remove),
        *[
            (f"{name}.npy", change)
            for name in ("word_offsets", "word_counts", "tokens-00000", "sentences-00001")
            for change in (cut_short, remove, change_kind, change_length, pickle)
        ],
    ],
)
def test_a_damaged_file_is_named(folder: Path, name: str, change: Callable[[Path], None]) -> None:
    """Each damage changes the file, and the error names it."""
    change(folder / name)
    with pytest.raises(CorpusError, match=name):
        EncodedCorpus(folder)


def test_another_version_is_refused(folder: Path) -> None:
    """The error names both versions."""
    description = json.loads((folder / "corpus.json").read_text())
    (folder / "corpus.json").write_text(json.dumps({**description, "version": 99}))
    with pytest.raises(CorpusError, match=r"corpus\.json: expected .* version 2, found .* 99"):
        EncodedCorpus(folder)


def test_a_corpus_with_other_files_is_read(folder: Path) -> None:
    """Corpora once had the borders of documents, which nothing reads; the text is the same."""
    text = content_of(folder)
    file, description = folder / "corpus.json", json.loads((folder / "corpus.json").read_text())
    np.save(folder / "documents-00000.npy", np.arange(3))
    digests = {**description["digests"], "documents-00000.npy": digest(np.arange(3))}
    file.write_text(json.dumps(sealed({**description, "documents": 2, "digests": digests})))
    assert content_of(folder) == text


def test_damaged_tokens_are_named_when_read(folder: Path) -> None:
    """One rank becomes another of the same corpus, which only a digest notices."""
    tokens = np.load(folder / "tokens-00001.npy")
    tokens[-1] -= 1
    np.save(folder / "tokens-00001.npy", tokens)
    corpus = EncodedCorpus(folder)
    with pytest.raises(CorpusError, match=r"tokens-00001\.npy: expected the content that was wri"):
        list(corpus.sentences())


def content_of(folder: Path) -> tuple:
    """Return everything that a model can read of a corpus."""
    corpus = EncodedCorpus(folder)
    offsets = [shard.sentences.tolist() for shard in corpus.shards]
    characters = corpus.characters(np.arange(corpus.num_words), 20).tolist()
    sizes = corpus.num_tokens, corpus.num_sentences, corpus.num_words
    return list(corpus.sentences()), corpus.counts.tolist(), offsets, characters, sizes


def test_damage_to_any_file_is_noticed(folder: Path, fuzz: Fuzz) -> None:
    """The oracle is the corpus before the damage: damage gives an error that names the file, or the
    same text, because a header has bytes without meaning."""
    expected = content_of(folder)
    files = sorted(folder.iterdir())
    noticed = 0
    for random in fuzz.cases(200):
        file = random.choice(files)
        whole = file.read_bytes()
        how, damaged = damage(whole, random)
        file.write_bytes(damaged)
        try:
            found = content_of(folder)
        except CorpusError as error:
            assert str(file) in str(error), how
            noticed += 1
        else:
            assert found == expected, f"{file.name}: {how}"
        file.write_bytes(whole)
    assert noticed
