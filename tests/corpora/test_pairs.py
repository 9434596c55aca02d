"""Accuracy on minimal pairs. The oracle is `LanguageModel.score` of each sentence alone."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from elmo_plugin import LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.corpora import pairs
from elmo_plugin.corpora.pairs import pair_accuracies, pair_scores

NAMES = ("sentence_good", "sentence_bad", "UID", "linguistics_term")
PAIRS = [
    ("the dog", "the stick", "one", "nouns"),
    ("the dog .", "dog the .", "one", "nouns"),
    ("the apple .", "the pear .", "one", "nouns"),  # they differ only in unknown words
    ("he threw", "he threw", "two", "verbs"),  # equal, which is a tie of known sentences
    ("he threw the stick to the dog .", "he threw", "two", "verbs"),
    ("he threw the pear", "he threw the pear", "two", "verbs"),
]
UNKNOWN, TIES = {2}, {3, 5}


@pytest.fixture(scope="module")
def model(bilm_archive: str) -> LanguageModel:
    return LanguageModel.from_archive(bilm_archive)


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The pairs in two files, of which two at a time are scored."""
    monkeypatch.setattr(pairs, "AT_ONCE", 2)
    lines = [json.dumps(dict(zip(NAMES, pair))) for pair in PAIRS]
    files = [tmp_path / name for name in ("one.jsonl", "two.jsonl")]
    files[0].write_text("\n".join(lines[:3]))
    files[1].write_text("\n".join(lines[3:]))
    return files


@pytest.mark.parametrize("per_token", [False, True])
def test_scores(model: LanguageModel, files: list[Path], per_token: bool) -> None:
    """Expected: the sums or means of the numbers of each sentence, the end and the beginning
    included, and by hand the pairs that differ only in unknown words."""
    rows = pair_scores(model, files, per_token=per_token)
    names = ("sentence_good", "sentence_bad", "paradigm", "phenomenon")
    assert [tuple(row[name] for name in names) for row in rows] == PAIRS
    assert [row["unknown_pair"] for row in rows] == [n in UNKNOWN for n in range(len(PAIRS))]
    for row in rows:
        for kind in ("good", "bad"):
            scores = model.score(row[f"sentence_{kind}"])
            assert row[f"tokens_{kind}"] == len(scores.tokens)
            for direction in ("forward", "backward"):
                expected = (np.mean if per_token else np.sum)(getattr(scores, direction))
                assert row[f"{direction}_{kind}"] == pytest.approx(expected, abs=1e-4)


def test_accuracies(model: LanguageModel, files: list[Path]) -> None:
    """Expected: the percentages of the scores above, which are counted here, of each paradigm, each
    phenomenon and all pairs. A tie is not correct, and `_known` is of the other pairs."""
    rows = pair_scores(model, files)
    levels: dict[tuple[str, str, str], set[int]] = {
        ("paradigm", "one", "nouns"): {0, 1, 2},
        ("paradigm", "two", "verbs"): {3, 4, 5},
        ("phenomenon", "nouns", "nouns"): {0, 1, 2},
        ("phenomenon", "verbs", "verbs"): {3, 4, 5},
        ("all", "all", ""): {0, 1, 2, 3, 4, 5},
    }
    found = pair_accuracies(rows)
    assert [(x["level"], x["name"], x["phenomenon"]) for x in found] == [*levels]
    differences: dict[str, Any] = {
        name: np.array([row[f"{name}_good"] - row[f"{name}_bad"] for row in rows])
        for name in ("forward", "backward")
    }
    differences["both"] = differences["forward"] + differences["backward"]
    for row, numbers in zip(found, levels.values()):
        assert row["pairs"] == len(numbers)
        assert row["unknown_pairs"] == len(numbers & UNKNOWN)
        for name, difference in differences.items():
            of_all, of_known = (
                100 * np.mean([difference[n] > 1e-4 for n in some])
                for some in (numbers, numbers - UNKNOWN)
            )
            assert row[name] == pytest.approx(of_all, abs=0.01)
            assert row[f"{name}_known"] == pytest.approx(of_known, abs=0.01)
            ties = 100 * len(numbers & TIES) / len(numbers)
            assert row[f"{name}_ties"] == pytest.approx(ties, abs=0.01)
    (only, *_) = pair_accuracies([rows[2]])
    assert only["unknown_pairs"] == 1 and only["both_known"] is None


def test_means_of_several_sentences(tmp_path: Path) -> None:
    """Expected: the means over the words and the ends of the sentences, which are scored apart. A
    sentence more changes the better one."""
    model = LanguageModel.from_pretrained("tiny")
    line = {"sentence_good": "He ran. It rained.", "sentence_bad": "He ran and it rained ran."}
    (tmp_path / "pairs").write_text(json.dumps(line))
    (row,) = pair_scores(model, str(tmp_path / "pairs"), raw=True, per_token=True)
    assert (row["paradigm"], row["phenomenon"]) == ("pairs", "")
    sentences = {"good": ["He ran .", "It rained ."], "bad": ["He ran and it rained ran ."]}
    for kind, apart in sentences.items():
        scores = model.score([sentence.split() for sentence in apart])
        for direction in ("forward", "backward"):
            expected = np.hstack([getattr(x, direction) for x in scores]).mean()
            assert row[f"{direction}_{kind}"] == pytest.approx(expected, abs=1e-5)
    assert row["forward_good"] == pytest.approx(-5.142, abs=1e-3)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"sentence_good": "the dog"}', "pairs, line 1: expected a JSON object with the"),
        ('{"sentence_good": " ", "sentence_bad": "a"}', "pairs, line 1: expected a JSON object"),
        ('{"sentence_good": "a", "sentence_bad": "b", "UID": 1}', "and strings if it has UID and"),
        ("the dog", "pairs, line 1: expected a JSON object"),
        ("", "^--pairs: expected at least one pair"),
    ],
)
def test_wrong_pairs(model: LanguageModel, tmp_path: Path, content: str, message: str) -> None:
    """By definition: the error names the file and the line."""
    (tmp_path / "pairs").write_text(content)
    with pytest.raises(InputError, match=message):
        pair_scores(model, [tmp_path / "pairs"])
    with pytest.raises(FileNotFoundError, match="gone: expected a file of pairs, found no such"):
        pair_scores(model, [tmp_path / "gone"])
