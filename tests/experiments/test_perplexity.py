"""Perplexities. Expected values are those of `allennlp evaluate`, which computes them otherwise,
and of NumPy."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.modules.sampled_softmax import SampledSoftmax
from elmo_plugin.plugin.data.vocabulary import vocabulary_words
from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.text.corpus_cache import open_corpus
from experiments import perplexity
from tests.conftest import allennlp

TEXT = "he threw the stick .\nthe dog\nto to the unheard-of stick\n\nthe .\n" * 20
LOADERS = {
    "zero": {"type": "multiprocess", "batch_size": 3},
    "warm": {"type": "multiprocess", "batch_size": 3},
    "carry": {"type": "bilm", "batch_size": perplexity.ROWS, "shuffle": None},
}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text.txt"
    file.write_text(TEXT)
    return file


@pytest.mark.parametrize("state", LOADERS)
def test_as_allennlp_evaluate(bilm_archive: str, text: Path, state: str, tmp_path: Path) -> None:
    """Sentences one by one under `zero` and `warm`, running text in 64 rows under `carry`."""
    loader = LOADERS[state]
    if state == "carry":
        loader["cache_dir"] = str(tmp_path / "cache")
    overrides = {"model.initial_state": state, "validation_data_loader": loader}
    metrics = tmp_path / "metrics.json"
    options = ["--overrides", json.dumps(overrides), "--include-package", "elmo_plugin"]
    allennlp("evaluate", bilm_archive, text, "--output-file", metrics, *options)
    expected = json.loads(metrics.read_text())

    model = load_language_model(bilm_archive)
    found = perplexity.perplexity(model, open_corpus(text, tmp_path / "cache"), state)
    assert found.forward == pytest.approx(expected["forward_perplexity"], rel=1e-5)
    assert found.backward == pytest.approx(expected["backward_perplexity"], rel=1e-5)
    assert found.joint == pytest.approx(expected["perplexity"], rel=1e-5)


def test_unknown_words_are_one_event() -> None:
    """NumPy adds the probabilities of all words that are not known."""
    softmax = SampledSoftmax(n_words=9, dim=4, n_negative_samples=None)
    hidden, targets = torch.randn(600, 4), torch.randint(9, (600,))
    is_known = torch.tensor([k in (0, 1, 4, 7) for k in range(9)])
    found = perplexity.loss_of_known_words(softmax, is_known, hidden, targets)

    weight, bias = softmax.weight.detach().numpy(), softmax.bias.detach().numpy()
    p = np.exp(hidden.numpy().astype(np.float64) @ weight.T + bias)
    p /= p.sum(axis=1, keepdims=True)
    unknown = p[:, [2, 3, 5, 6, 8]].sum(axis=1)
    own = p[np.arange(600), targets.numpy()]
    expected = -np.log(np.where(is_known[targets].numpy(), own, unknown)).sum()
    assert found.item() == pytest.approx(expected, rel=1e-5)


def test_known_words(bilm_archive: str, text: Path, tmp_path: Path) -> None:
    """If all words are known nothing changes; fewer events are easier to predict."""
    model = load_language_model(bilm_archive)
    corpus = open_corpus(text, tmp_path / "cache")
    words = set(vocabulary_words(model.vocab))
    expected = perplexity.perplexity(model, corpus, "zero")
    for known in (words, words - {"<UNK>", "</S>"}):
        found = perplexity.perplexity(model, corpus, "zero", known)
        assert found.joint == pytest.approx(expected.joint, rel=1e-5)
    assert perplexity.perplexity(model, corpus, "zero", {"the"}).joint < 0.9 * expected.joint


@pytest.mark.parametrize(
    ("state", "message"),
    [
        ("warm", "known: expected words that the model has, found 2 others, such as 'zzyzx'"),
        ("carry", 'known: expected none with "carry", found words'),
    ],
)
def test_known_words_that_do_not_apply(
    bilm_archive: str, text: Path, tmp_path: Path, state: str, message: str
) -> None:
    """A model without them would count them as `<UNK>`, which is easier to predict."""
    model = load_language_model(bilm_archive)
    corpus = open_corpus(text, tmp_path / "cache")
    with pytest.raises(InputError, match=message):
        perplexity.perplexity(model, corpus, state, {"the", "zzyzx", "zzzz"})


def test_table(bilm_archive: str, text: Path, tmp_path: Path) -> None:
    """By hand: 14 tokens, of which 1 is no word of the vocabulary, 20 times."""
    model = load_language_model(bilm_archive)
    corpus = open_corpus(text, tmp_path / "cache")
    lines = perplexity.perplexity_table(model, {"text": corpus}, ["zero", "carry"]).splitlines()
    assert lines[0] == "| text | tokens | `<UNK>` | read | forward | backward | joint |"
    assert lines[2].startswith("| text | 280 | 7.1 % | `zero`, by sentence | ")
    assert lines[3].startswith("| text | 280 | 7.1 % | `carry`, running text | ")


def test_texts_of_the_same_file_name() -> None:
    """None is left out: by hand."""
    assert list(perplexity.named_texts(["a/dev.txt", "a/test.txt"])) == ["dev", "test"]
    assert list(perplexity.named_texts(["a/dev.txt", "b/dev.txt"])) == ["a/dev.txt", "b/dev.txt"]


def test_sentences_of_ranks(text: Path, tmp_path: Path) -> None:
    """Expected: the text itself."""
    corpus = open_corpus(text, tmp_path / "cache")
    words = np.array(corpus.words())
    found = [words[ranks].tolist() for ranks in perplexity.sentences_of_ranks(corpus)]
    assert found == [line.split() for line in TEXT.splitlines() if line]
