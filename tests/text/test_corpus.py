import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_plugin.files.digest import digest, sealed
from elmo_plugin.text.characters import words_to_characters
from elmo_plugin.text.corpus import CorpusError, EncodedCorpus
from tests.conftest import Fuzz, write_file
from tests.damage import check_damaged
from tests.text.shards import encode_in_shards

TEXT = "the dog barks .\nthe 👍 and é\n\nanother <S> document\n" + "x" * 70 + "\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    file = write_file(tmp_path / "text", TEXT)
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


def array(change: Callable[[np.ndarray], Any]) -> Callable[[Path], Any]:
    return lambda file: np.save(file, change(np.load(file)), allow_pickle=True)


DAMAGES: dict[str, Callable[[Path], Any]] = {
    "gone": Path.unlink,
    "another type": array(lambda x: x.astype(np.float32)),
    "another length": array(lambda x: x[:-1]),
    "a pickle": array(lambda _: np.array([{}])),
    "no object": lambda file: file.write_text("[]", "utf-8"),
    "another version": lambda file: file.write_text(
        json.dumps({**json.loads(file.read_text()), "version": 99})
    ),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_file_is_named(folder: Path, damage: str) -> None:
    """Each damage changes the file, and the error names it. The test below has random damage."""
    arrays = ("word_offsets", "word_counts", "tokens-00000", "sentences-00001")
    files = [f"{name}.npy" for name in arrays]
    if damage in ("gone", "no object", "another version"):
        files = [*files, "words.txt", "corpus.json"] if damage == "gone" else ["corpus.json"]
    for file in files:
        whole = (folder / file).read_bytes()
        DAMAGES[damage](folder / file)
        with pytest.raises(CorpusError, match=file):
            EncodedCorpus(folder)
        (folder / file).write_bytes(whole)


def test_a_corpus_with_other_files_is_read(folder: Path) -> None:
    """Corpora once had the borders of documents, which nothing reads; the text is the same."""
    text = content_of(folder)
    file, description = folder / "corpus.json", json.loads((folder / "corpus.json").read_text())
    np.save(folder / "documents-00000.npy", np.arange(3))
    digests = {**description["digests"], "documents-00000.npy": digest(np.arange(3))}
    file.write_text(json.dumps(sealed({**description, "documents": 2, "digests": digests})))
    assert content_of(folder) == text


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
    assert check_damaged(sorted(folder.iterdir()), lambda: content_of(folder), fuzz.cases(200))
