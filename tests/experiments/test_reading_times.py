"""Reading times, of an invented corpus of three stories."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression

from elmo_plugin import LanguageModel
from experiments import reading_times
from experiments.reading_times import Regression, read_words, surprisals, time_rows

HEAD = "story position word tokens readers reading_time gpt3 frequency trigram trigram_context"
TEXT = """The dogs bark . | They like the "stick," too! | Dogs play in the park""".split()


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    """Three stories of 60 words, whose times depend on GPT-3's surprisal of the word before."""
    random = np.random.default_rng(0)
    lines = [HEAD.replace(" ", "\t")]
    for story in "abc":
        words = [TEXT[k] for k in random.integers(len(TEXT), size=60) if TEXT[k] not in ".|"]
        before = 0.0
        for position, word in enumerate(words, start=1):
            tokens = word.replace('"', ' " ').replace("!", " !").replace(",", " ,")
            surprisal = random.gamma(2, 3)
            log_time = 5.8 + 0.02 * before + 0.02 * len(word) + random.normal(0, 0.02)
            count = random.integers(1, 10**6)
            facts = [story, position, word, " ".join(tokens.split()), 80, np.exp(log_time)]
            facts += [surprisal, 10 * count, count // 2, count]
            lines.append("\t".join(map(str, facts)))
            before = surprisal
    lines[5] = lines[5].replace(lines[5].split("\t")[6], "")  # a missing value
    (tmp_path / "stories.tsv").write_text("\n".join(lines) + "\n")
    return tmp_path / "stories.tsv"


def test_sentences_and_surprisal(corpus: Path) -> None:
    """By hand: sentences end at a mark or a story. Expected: the sums of `score` over tokens."""
    words = read_words(corpus)
    parts = list(reading_times.sentences(words))
    assert [k for part in parts for k in part] == list(range(len(words.tokens)))
    for k in range(1, len(words.tokens)):
        begins = words.story[k] != words.story[k - 1] or "!" in words.tokens[k - 1]
        assert begins == any(part[0] == k for part in parts)
    model = LanguageModel.from_pretrained("tiny")
    found = surprisals(model, words, "sentence")
    for part in parts[:5]:
        tokens = [token for k in part for token in words.tokens[k]]
        scores, start = model.score(tokens), 0
        for k in part:
            stop = start + len(words.tokens[k])
            forward, backward = scores.forward[start:stop], scores.backward[start + 1 : stop + 1]
            assert found["forward"][k] == pytest.approx(-forward.sum())
            assert found["backward"][k] == pytest.approx(-backward.sum())
            assert found[reading_times.KNOWN][k] == scores.in_vocabulary[start:stop].all()
            start = stop
    assert np.abs(surprisals(model, words, "story")["forward"] - found["forward"]).max() > 0.01


def test_trigrams() -> None:
    """By hand: half, then 0.4 times the share of a word of all three, then nothing."""
    columns = np.array([[4.0, 0, np.nan], [8.0, 2, np.nan], [5.0, 10, 25]])
    found = reading_times.trigram_surprisal(*columns)
    assert found == pytest.approx([1, -np.log2(0.4 * 10 / 40), np.nan], nan_ok=True)


def test_regression(corpus: Path) -> None:
    """Expected: scikit-learn's regression with a constant for each story, and in a story that is
    held out, with the constant that fits it best."""
    words = read_words(corpus)
    used = reading_times.complete(words)
    assert used.sum() == len(used) - 3 * 2 - 3  # the missing value, and two words after it
    found = Regression(words, used).metrics(words.gpt3)
    story, y = words.story[used], words.log_time[used]

    def design(*surprisal: np.ndarray) -> np.ndarray:
        columns = [*map(lagged, (words.length, words.log_frequency, *surprisal))]
        position = words.position[:, None]
        return np.hstack([*columns, position, position**2, np.log(position)])[used]

    def lagged(x: np.ndarray) -> np.ndarray:
        return np.stack([np.roll(x, k) for k in range(3)], axis=1)

    def log_likelihood(residuals: np.ndarray, variance: float) -> np.ndarray:
        return -(np.log(2 * np.pi * variance) + residuals**2 / variance) / 2

    likelihoods = []
    for x in (design(), design(words.gpt3)):
        dummies = np.stack([story == name for name in "abc"], axis=1)
        full = np.hstack([x, dummies])
        residuals = y - LinearRegression(fit_intercept=False).fit(full, y).predict(full)
        own = [log_likelihood(residuals, (residuals**2).mean())]
        r2 = 1 - (residuals**2).sum() / ((y - y.mean()) ** 2).sum()
        for k, name in enumerate("abc"):
            train, test = story != name, story == name
            columns = np.hstack([x, np.delete(dummies, k, axis=1)])[train]
            fitted = LinearRegression(fit_intercept=False).fit(columns, y[train])
            variance = ((y[train] - fitted.predict(columns)) ** 2).mean()
            rest = y[test] - x[test] @ fitted.coef_[: x.shape[1]]
            own.append(log_likelihood(rest - rest.mean(), variance))
        likelihoods.append([part.mean() for part in own])
    gains = np.subtract(likelihoods[1], likelihoods[0])
    assert found["r2"] == pytest.approx(r2) and found["gain"] == pytest.approx(gains[0])
    assert found["gain"] > 0.3
    of_stories = [story["gain"] for story in found["stories"].values()]
    assert of_stories == pytest.approx(gains[1:])


def test_rows(corpus: Path) -> None:
    """By hand: a row for each baseline and direction, for both sets of words; no text is saved."""
    rows = time_rows(corpus, [("tiny", LanguageModel.from_pretrained("tiny"))])
    baselines = [reading_times.NONE, reading_times.TRIGRAMS, reading_times.GPT3]
    found = [row["settings"]["surprisal"] for row in rows[:7]]
    assert found == [*baselines, "forward", "backward", "forward", "backward"]
    assert len({row["settings"]["words"] for row in rows[:7]}) == 1 and len(rows) == 14
    assert rows[7]["metrics"]["words"] < rows[0]["metrics"]["words"]
    assert "stick" not in str(rows)
