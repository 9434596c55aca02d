"""The tables of a model card."""

import random
import sys
from pathlib import Path

import pytest

from elmo_plugin.text import corpus_cache
from elmo_plugin.text.corpus_cache import open_corpus
from experiments import card
from tests.experiments.test_probe import CONLLU


def test_tables(
    bilm_archive: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By hand: a row for each kind of text and for all, in tokens, and two rows of the probe."""
    monkeypatch.setattr(corpus_cache, "DEFAULT_CACHE", tmp_path / "cache")
    heldout, treebank = tmp_path / "heldout", tmp_path / "treebank"
    (heldout / "letters").mkdir(parents=True)
    (heldout / "news.txt").write_text("the dog .\nhe threw the stick .\n")
    (heldout / "letters" / "1.txt").write_text("to the dog\n")
    treebank.mkdir()
    for split in ("train", "dev"):
        (treebank / f"en_ewt-ud-{split}.conllu").write_text(CONLLU)
    arguments = ["card", bilm_archive, "--heldout", str(heldout), "--treebank", str(treebank)]
    arguments += ["--work", str(tmp_path / "work"), "--states", "warm"]
    monkeypatch.setattr(sys, "argv", arguments)
    card.main()
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines() if "|" in line]
    found = [(row[0], row[1]) for row in rows if "---" not in row[0]]
    assert found[:4] == [("| text", "tokens"), ("| letters", "3"), ("| news", "8"), ("| all", "11")]
    assert [row[0] for row in rows[-2:]] == ["| `warm`", "| most frequent tag"]


def test_overlaps(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The shares of n-grams by Python's own sets of tuples, on random sentences of few words. The
    training text lacks one word of the held-out text."""
    monkeypatch.setattr(corpus_cache, "DEFAULT_CACHE", tmp_path / "cache")
    generator = random.Random(1)

    def write(name: str, words: str, n_sentences: int) -> tuple[Path, list[str]]:
        sentences = [
            generator.choices(words, k=generator.randint(1, 9)) for _ in range(n_sentences)
        ]
        path = tmp_path / name
        path.write_text("".join(" ".join(sentence) + "\n" for sentence in sentences))
        return path, [token for sentence in sentences for token in sentence]

    def ngrams(tokens: list[str], n: int) -> list[tuple[str, ...]]:
        return [tuple(tokens[k : k + n]) for k in range(len(tokens) - n + 1)]

    train_file, train = write("train.txt", "abcd", 100)
    texts = dict(write(f"{k}.txt", "abcde", 40) for k in range(3))
    corpora = {str(path): open_corpus(path) for path in texts}
    for n in (1, 4, 6):
        known = set(ngrams(train, n))
        expected = {
            str(path): 100 * sum(x in known for x in ngrams(tokens, n)) / len(ngrams(tokens, n))
            for path, tokens in texts.items()
        }
        assert 0 < min(expected.values()) < 100
        found = card.overlaps(corpora, open_corpus(train_file), n)
        assert found == pytest.approx(expected)
