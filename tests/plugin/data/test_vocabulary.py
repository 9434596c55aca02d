from pathlib import Path

import pytest
from allennlp.common import Params
from allennlp.data import Vocabulary

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.bilm_tf.texts import read_vocabulary_file, write_vocabulary_file
from elmo_plugin.plugin.data.vocabulary import (
    BiLMVocabulary,
    ids_of_corpus_words,
    vocabulary_words,
    word_ids,
)
from elmo_plugin.text.corpus_cache import open_corpus
from tests.conftest import write_file

WORDS = ["<S>", "</S>", "<UNK>", "the", "é", "👍", "e\u0301"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    return write_file(
        tmp_path / "text.txt", "b b b @@NEWLINE@@ @@NEWLINE@@\na c c a c c @@UNKNOWN@@ d\n"
    )


def build(tmp_path: Path, text: Path, **params) -> list[str]:
    params |= {"type": "bilm", "corpus": str(text), "cache_dir": str(tmp_path / "cache")}
    return vocabulary_words(Vocabulary.from_params(Params(params), instances=iter([])))


def test_words_come_by_frequency(tmp_path: Path, text: Path) -> None:
    """The counts are 4 for c, 3 for b and 2 for a, and words of equal count follow by first
    occurrence. A word that AllenNLP's files would turn into a line break becomes <UNK>."""
    words = ["<S>", "</S>", "<UNK>", "c", "b", "a", "@@UNKNOWN@@", "d"]
    assert build(tmp_path, text, min_count=1) == words
    assert build(tmp_path, text, min_count=1, max_size=5) == words[:5]
    assert build(tmp_path, text, min_count=2) == words[:6]
    assert build(tmp_path, text, min_count=2, max_size=50) == words[:6]


def test_defaults(tmp_path: Path, text: Path) -> None:
    """By hand: c and b occur three times or more."""
    assert build(tmp_path, text) == ["<S>", "</S>", "<UNK>", "c", "b"]
    corpus = write_file(tmp_path / "large.txt", "\n".join(f"w{k // 3}" for k in range(3 * 100_001)))
    assert len(build(tmp_path, corpus)) == 100_000


@pytest.mark.parametrize("oov_token", [None, "<UNK>", "@@UNKNOWN@@", "the"])
@pytest.mark.parametrize("kind", [Vocabulary, BiLMVocabulary])
def test_ids_survive_files(tmp_path: Path, kind: type[Vocabulary], oov_token: str | None) -> None:
    """The ids are the same, whichever class reads them and whatever its OOV token is: `distributed`
    and `--recover` use the base class, and an archive uses the class of the config."""
    vocab = BiLMVocabulary.from_words(WORDS)
    vocab.add_token_to_namespace("NOUN", "tags")
    vocab.save_to_files(str(tmp_path / "vocabulary"))
    again = kind.from_files(tmp_path / "vocabulary", oov_token=oov_token)
    assert word_ids(again) == {word: index for index, word in enumerate(WORDS)}
    assert vocabulary_words(again) == WORDS
    assert again.get_token_index("NOUN", "tags") == 0


def test_a_vocabulary_file_reads_as_it_was_written(tmp_path: Path) -> None:
    """bilm-tf's file has one word per line, and reading gives the words that were written."""
    file = tmp_path / "vocab.txt"
    write_vocabulary_file(WORDS, file)
    assert file.read_text("utf-8") == "\n".join(WORDS) + "\n"
    assert read_vocabulary_file(file) == WORDS
    vocab = Vocabulary.from_params(Params({"type": "bilm", "file": str(file), "max_size": 6}))
    assert vocabulary_words(vocab) == WORDS[:6]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "expected the first lines <S>, </S>, <UNK>, found nothing"),
        (["</S>", "<S>", "<UNK>"], "found </S>, <S>, <UNK>"),
        (["<S>", "</S>", "<UNK>", "a", "", "b"], "line 5: expected a word"),
        (["<S>", "</S>", "<UNK>", "the\t100"], r"line 4: expected one word, found 'the\\t100'"),
        (["<S>", "</S>", "<UNK>", "a", "b", "a"], "line 6: .* 'a' that is on line 4"),
    ],
)
def test_a_wrong_vocabulary_file_is_named(tmp_path: Path, lines: list[str], message: str) -> None:
    """The message names the wrong line."""
    file = write_file(tmp_path / "vocab.txt", "".join(f"{line}\n" for line in lines))
    with pytest.raises(InputError, match=rf"vocab\.txt.*{message}"):
        read_vocabulary_file(file)


@pytest.mark.parametrize("word", ["", " a", "a\n", "a\nb", "a\rb", "two words", "\ud800"])
def test_a_word_that_a_file_cannot_hold_is_refused(tmp_path, bilm_files, word):
    """Reading the file would give another word, or none, so no file is written."""
    bilm = Elmo.from_files(*bilm_files).bilm
    with pytest.raises(InputError, match=rf"^{tmp_path}/model/vocabulary\.txt: expected words"):
        write_model_files(tmp_path / "model", bilm, words=[*WORDS, word])
    assert list((tmp_path / "model").iterdir()) == []


def test_what_a_vocabulary_cannot_hold_is_refused() -> None:
    """AllenNLP's vocabulary files read `@@NEWLINE@@` as a line break, and its default vocabulary
    has no namespace of a language model's words."""
    with pytest.raises(InputError, match="found 'x@@NEWLINE@@'"):
        BiLMVocabulary.from_words([*WORDS, "x@@NEWLINE@@"])
    with pytest.raises(InputError, match='namespace "words": expected <S>'):
        word_ids(Vocabulary())


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({}, "found neither"),
        ({"corpus": "a", "file": "b"}, "found both"),
        ({"corpus": "a", "max_size": 3}, "max_size: expected a whole number from 4"),
        ({"file": "a", "min_count": 2}, '"min_count" needs a "corpus"'),
        *(
            ({key: path}, rf"{key}: .*{path}")
            for key in ("corpus", "file")
            for path in ("", "nothing.txt", "x" * 5000, "http://", "s3://")
        ),
    ],
)
def test_wrong_parameters_are_named(params: dict, message: str) -> None:
    """There is one error for each rule of the docstring, and for a file that is not there."""
    with pytest.raises((InputError, FileNotFoundError), match=message):
        Vocabulary.from_params(Params({"type": "bilm", **params}))


def test_words_that_the_vocabulary_lacks_are_unknown(tmp_path: Path, text: Path) -> None:
    """The corpus's words, in the order of their ranks, are looked up by hand in another
    vocabulary."""
    corpus = open_corpus(text, tmp_path / "cache")
    vocab = BiLMVocabulary.from_words(["<S>", "</S>", "<UNK>", "a", "z", "c"])
    assert corpus.words()[3:] == ["c", "b", "@@NEWLINE@@", "a", "@@UNKNOWN@@", "d"]
    assert ids_of_corpus_words(corpus, vocab).tolist() == [0, 1, 2, 5, 2, 2, 3, 2, 2]
