"""N-gram models. They need KenLM's programs, except for the text that is passed to them."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.text.corpus import EncodedCorpus
from elmo_plugin.text.corpus_cache import open_corpus
from experiments import ngrams
from experiments.ngrams import NGramModels, NGrams
from experiments.perplexity import Perplexity

WORDS = ["<S>", "</S>", "<UNK>", "the", "dog", "barks", "</s>", "<unk>"]
needs_kenlm = pytest.mark.skipif(
    not all(map(shutil.which, ngrams.PROGRAMS)),
    reason="needs KenLM's programs on the PATH; experiments/ngrams.py says how to build them",
)


def corpus(folder: Path, *sentences: str) -> EncodedCorpus:
    file = folder / f"{len(list(folder.iterdir()))}.txt"
    file.write_text("\n".join(sentences))
    return open_corpus(file, folder / "cache")


def perplexities(folder: Path, train: list[str], heldout: list[str]) -> NGrams:
    vocab = BiLMVocabulary.from_words(WORDS)
    models = NGramModels(vocab, corpus(folder, *train), folder / "work", discount_fallback=True)
    return models.perplexities(corpus(folder, *heldout))


def test_lines(tmp_path: Path) -> None:
    """By hand: numbers of the vocabulary, so that KenLM takes no word for one of its own."""
    text = corpus(tmp_path, "the dog <unk> </s>", "cat")
    vocab = BiLMVocabulary.from_words(WORDS)
    assert ngrams._lines(text, vocab, 1) == b"3 4 7 6\n2\n"
    assert ngrams._lines(text, vocab, -1) == b"6 7 4 3\n2\n"


def test_missing_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError, match="KenLM's program lmplz on the PATH, found none"):
        perplexities(tmp_path, ["the"], ["the"])


@needs_kenlm
def test_unigram(tmp_path: Path) -> None:
    """By hand: counts 2 the, 1 dog, 1 `<UNK>`, 2 ends, and one more for each of 8 words."""
    found = perplexities(tmp_path, ["the dog", "the cat"], ["the mouse"])
    log_p = np.log(np.array([3, 2, 3]) / 14)  # the, <UNK>, the end
    assert found.unigram == pytest.approx(np.exp(-log_p.mean()))


@needs_kenlm
def test_known_text_is_nearly_certain(tmp_path: Path) -> None:
    """Property: what always follows is nearly certain, in both directions, and for `<UNK>` too."""
    sentences = ["the dog barks </s>", "<unk> the cat"] * 50
    found = perplexities(tmp_path, sentences, sentences)
    assert max(found.kneser_ney) < 1.7  # one of two first words of three to five
    assert min(found.kneser_ney) > 2 ** (1 / 5)


@needs_kenlm
def test_backward_is_forward_of_the_reversed_text(tmp_path: Path) -> None:
    """Property; and the second time, the estimated models are read from the folder."""
    train = ["the dog barks", "dog the the", "barks"] * 3
    heldout = ["the barks dog", "dog dog", "a cat barks"]
    found = perplexities(tmp_path, train, heldout).kneser_ney
    assert perplexities(tmp_path, train, heldout).kneser_ney == found
    turned = [[" ".join(reversed(s.split())) for s in text] for text in (train, heldout)]
    assert perplexities(tmp_path, *turned).kneser_ney == pytest.approx(Perplexity(*found[::-1]))
