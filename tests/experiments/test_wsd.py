"""WSD. The XML is written for these tests, after the format's description in Raganato et al.
(2017); expected values are worked out by hand or by NumPy."""

from pathlib import Path

import numpy as np
import pytest

from elmo_plugin import Elmo
from experiments import wsd
from experiments.wsd_reader import Target, read_documents

XML = """\
<?xml version="1.0" encoding="UTF-8" ?>
<corpus lang="en" source="test">
<text id="d0">
<sentence id="d0.s0">
<wf lemma="he" pos="PRON">He</wf>
<instance id="d0.s0.t0" lemma="throw" pos="VERB">threw</instance>
<wf lemma="the" pos="DET">the</wf>
<instance id="d0.s0.t1" lemma="stick" pos="NOUN">stick</instance>
<wf lemma="&amp;" pos="X">&amp;</wf>
<instance id="d0.s0.t2" lemma="fire_engine" pos="NOUN">fire engine</instance>
</sentence>
<sentence id="d0.s1">
<wf lemma="stop" pos="VERB">Stop</wf>
</sentence>
</text>
<text id="d1">
<sentence id="d1.s0">
<instance id="d1.s0.t0" lemma="stick" pos="NOUN">Sticks</instance>
<instance id="d1.s0.t1" lemma="big" pos="ADJ">big</instance>
</sentence>
</text>
</corpus>
"""
KEYS = """\
d0.s0.t0 throw%2:35:00:: throw%2:35:02::
d0.s0.t1 stick%1:06:00::
d0.s0.t2 fire_engine%1:06:00::
d1.s0.t0 stick%1:13:00::
d1.s0.t1 big%5:00:01:important:00
"""
SENTENCES = [
    (
        ["He", "threw", "the", "stick", "&", "fire", "engine"],
        [
            Target("throw", "VERB", 1, 2, ["throw%2:35:00::", "throw%2:35:02::"]),
            Target("stick", "NOUN", 3, 4, ["stick%1:06:00::"]),
            Target("fire_engine", "NOUN", 5, 7, ["fire_engine%1:06:00::"]),
        ],
    ),
    (
        ["Sticks", "big"],
        [
            Target("stick", "NOUN", 0, 1, ["stick%1:13:00::"]),
            Target("big", "ADJ", 1, 2, ["big%5:00:01:important:00"]),
        ],
    ),
]
INDEX = """\
big%3:00:01:: 01382086 1 275
big%5:00:01:important:00 01276872 2 65
stick%1:06:00:: 04317420 1 6
stick%1:13:00:: 13163250 2 1
stick%2:35:00:: 01356370 1 20
"""


def write(folder: Path, xml: str = XML, keys: str = KEYS) -> Path:
    (folder / "test.data.xml").write_text(xml)
    (folder / "test.gold.key.txt").write_text(keys)
    return folder / "test.data.xml"


def test_reader(tmp_path: Path) -> None:
    """The sentence without a target is left out, and the phrase is two tokens."""
    assert list(read_documents(write(tmp_path))) == [(0, SENTENCES[0]), (1, SENTENCES[1])]


def test_wordnet_senses(tmp_path: Path) -> None:
    """By hand; 5 in a key is a satellite adjective, which counts as an adjective. The file is in
    the order of the keys, and the senses are in that of their numbers."""
    lines = [*INDEX.splitlines(), "stick%2:31:00:: 00659723 3 0", "stick%2:33:00:: 01119169 2 1"]
    (tmp_path / "index.sense").write_text("\n".join(sorted(lines)))
    wordnet = wsd.wordnet_senses(tmp_path / "index.sense")
    assert wordnet == {
        ("big", "ADJ"): ["big%3:00:01::", "big%5:00:01:important:00"],
        ("stick", "NOUN"): ["stick%1:06:00::", "stick%1:13:00::"],
        ("stick", "VERB"): ["stick%2:35:00::", "stick%2:33:00::", "stick%2:31:00::"],
    }


def test_score() -> None:
    """By hand: of the five targets, throw and fire_engine have no first sense, which is right for
    one stick and wrong for the other and big; two of these four wrong ones are right otherwise."""
    first = {("big", "ADJ"): ["big%3:00:01::"], ("stick", "NOUN"): ["stick%1:06:00::"]}
    targets = [target for _, found in SENTENCES for target in found]
    predicted = ["throw%2:35:02::", "stick%1:06:00::", None, "stick%1:13:00::", "big%3:00:01::"]
    metrics = wsd.score(predicted, targets, first)
    assert metrics["f1"] == pytest.approx(60) and metrics["difference"] == pytest.approx(40)
    # None is what an unknown word gets, and also what its first sense is.
    assert (metrics["rare"], metrics["words"]) == (50, 5)


def test_vectors_of_targets_and_senses(bilm_archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: NumPy's averages of the vectors of each sentence alone, over the tokens of a phrase
    and over the occurrences of a sense."""
    monkeypatch.setattr(wsd, "SENTENCES", 2)
    elmo = Elmo.from_archive(bilm_archive)
    sense = "fire_engine%1:06:00::"
    sentences = [
        (words.split(), [Target("fire_engine", "NOUN", k, k + 2, [sense])])
        for k, words in enumerate(("fire engine", "a fire engine .", "it sees fire engines"))
    ]
    expected = [elmo.embed(x, "all")[:, t.start : t.end].mean(axis=1) for x, [t] in sentences]
    vectors = np.stack([vector for _, vector in wsd.target_vectors(elmo, sentences)])
    np.testing.assert_allclose(vectors[:, :-1], expected, atol=1e-5)
    np.testing.assert_allclose(vectors[:, -1], np.mean(expected, axis=1), atol=1e-5)
    others = [(["it"], [Target("it", "NOUN", 0, 1, ["it%1:06:00::"])])]
    senses = wsd.sense_vectors(elmo, sentences + others, {("fire_engine", "NOUN")})
    assert list(senses) == [sense]
    np.testing.assert_allclose(wsd.averages(senses)[sense][0], vectors.mean(axis=0), atol=1e-6)


def test_bootstrap() -> None:
    """Expected: the normal approximation of a binomial interval, and exact values at its ends."""
    right = np.arange(1000) < 600
    metrics = wsd.bootstrap(right, np.zeros(1000, dtype=bool))
    assert metrics["f1"] == metrics["difference"] == 60.0
    half = 1.96 * 100 * np.sqrt(0.6 * 0.4 / 1000)
    assert metrics["difference_interval"] == pytest.approx([60 - half, 60 + half], abs=0.2)
    same = wsd.bootstrap(right, right)
    assert same["difference"] == 0 and same["difference_interval"] == [0, 0]
    # By hand: of four words, one is right alone, one by both, and two by the baseline alone.
    of_layer, of_baseline = np.array([1, 1, 0, 0], bool), np.array([0, 1, 1, 1], bool)
    assert wsd.bootstrap(of_layer, of_baseline)["difference"] == 100 * (2 - 3) / 4


def test_rows(bilm_archive: str, tmp_path: Path) -> None:
    """By hand: a row for each method and layer. Each sense was seen, so that all are right, and the
    baseline is right for one of five."""
    file = write(tmp_path)
    senses = [["throw%2:35:00::", "throw%2:35:02::"], ["stick%1:06:00::", "stick%1:13:00::"]]
    senses += [["fire_engine%1:06:00::"], ["big%5:00:01:important:00"]]
    wordnet = {wsd.word_of(own[0]): own for own in senses}
    [data] = wsd.data_sets(file, file)
    rows = [
        wsd.baseline_row(data, {("stick", "NOUN"): ["stick%1:06:00::"]}),
        *wsd.wsd_rows("a", Elmo.from_archive(bilm_archive), data, wordnet),
    ]
    assert [row["metrics"]["f1"] for row in rows] == [20.0] + 8 * [100.0]
    settings = [(row["settings"]["nearest"], row["settings"]["layer"]) for row in rows[1:]]
    layers = ["words", "LSTM 1", "LSTM 2", "average"]
    assert settings == [(way, x) for way in (wsd.AVERAGE, wsd.OCCURRENCE) for x in layers]
    assert rows[1]["metrics"]["difference"] == pytest.approx(20)
    assert "| 100.0 | +20.0 (+0.0 to +60.0) | 100.0 |" in wsd.wsd_table(rows)


def test_held_out_documents(tmp_path: Path) -> None:
    """By hand: the second of the two documents is every second one. Of stick's two senses, each is
    the most frequent in one document; big, which the first lacks, is left out; throw's two, equally
    frequent, have the order of the text, not WordNet's."""
    whole, part = wsd.data_sets(write(tmp_path), write(tmp_path), hold_out=2)
    assert list(whole.read_train()) == list(whole.read_dev()) == SENTENCES
    assert list(part.read_train()) == SENTENCES[:1]
    assert list(part.read_dev()) == [(["Sticks", "big"], SENTENCES[1][1][:1])]
    assert part.names == {"train": "test", "dev": "test, 1 of 2 documents"}
    wordnet = {
        ("stick", "NOUN"): ["stick%1:13:00::", "stick%1:06:00::"],
        ("throw", "VERB"): ["throw%2:35:02::", "throw%2:35:00::"],
    }
    assert wsd.ordered_senses(whole, wordnet) == wordnet
    expected = {word: senses[::-1] for word, senses in wordnet.items()}
    assert wsd.ordered_senses(part, wordnet) == expected
    assert wsd.baseline_row(part, wordnet)["metrics"]["f1"] == 0


def test_the_nearest_occurrence() -> None:
    """By hand: one of the second sense's vectors is the nearest, and the first sense's average. Of
    senses that differ by rounding, as in the word layer, WordNet's first is taken, and a sense that
    WordNet lacks is still found."""
    word, vectors = ("stick", "NOUN"), np.array([[[1.0, 0.0]]])
    senses = {
        "stick%1:06:00::": np.array([[[1.0, 0.5]]]),
        "stick%1:13:00::": np.array([[[1.0, 0.1]], [[-1.0, 0.1]]]),
    }
    tests = [(Target(*word, 0, 1, []), vectors[0])]
    wordnet = {word: sorted(senses)}
    for known, expected in ((senses, 1), (wsd.averages(senses), 0)):
        assert wsd.nearest_senses(tests, known, wordnet) == [[sorted(senses)[expected]]]
    first, second = senses
    equal = {first: np.array([[[1.0, 0.1]]]), second: np.array([[[1.0, 0.1 + 1e-9]]])}
    for order in ([first, second], [second, first]):
        assert wsd.nearest_senses(tests, equal, {word: order}) == [[order[0]]]
    assert wsd.nearest_senses(tests, {second: equal[second]}, {word: [first]}) == [[second]]
