"""WSD. The XML is written for these tests, after the format's description in Raganato et al.
(2017); expected values are worked out by hand or by a plain loop in NumPy."""

from pathlib import Path

import numpy as np
import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from experiments import wsd
from experiments.rows import read_rows, save_rows
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


@pytest.mark.parametrize(
    ("xml", "keys", "message"),
    [
        (XML[:300], KEYS, r"data\.xml: expected XML, found an error: .*line"),
        (XML, KEYS[:-1].rpartition("\n")[0], r"instance 'd1\.s0\.t1': expected a word, and its se"),
        (XML.replace(">Sticks<", "> <"), KEYS, r"instance 'd1\.s0\.t0': expected a word, and its"),
        (XML, "d0.s0.t0\n", r"key\.txt, line 1: expected a name and .*, found 'd0\.s0\.t0'"),
        (XML, KEYS + "d2 dog\n", r"line 6: expected a name and sense keys, found 'd2 dog'"),
    ],
)
def test_bad_files_are_named(tmp_path: Path, xml: str, keys: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        list(wsd.read_sentences(write(tmp_path, xml, keys)))


def test_a_file_of_another_name_is_refused() -> None:
    with pytest.raises(InputError, match=r"^text\.xml: expected a file \*\.data\.xml"):
        list(wsd.read_sentences(Path("text.xml")))


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


def test_nearest_senses(bilm_archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: a plain loop over all pairs, in which each sentence is read alone. `dog` was never
    seen, and gets the first sense."""
    monkeypatch.setattr(wsd, "SENTENCES", 2)
    random = np.random.default_rng(0)
    vocabulary = "the dog stick threw he to . and of".split()

    def sentence(sense: str) -> wsd.Sentence:
        words = random.choice(vocabulary, size=random.integers(3, 9)).tolist()
        start = int(random.integers(0, len(words) - 1))
        end = start + int(random.integers(1, 3))
        return words, [Target(*wsd.word_of(sense), start, end, [sense])]

    train = [sentence(f"stick%1:0{k}:00::") for k in (1, 2, 3) for _ in range(3)]
    train += [sentence("big%5:00:01:important:00"), sentence("stick%2:35:00::")]
    dev = [sentence(f"stick%1:0{k}:00::") for k in (1, 2, 3, 1)] + [sentence("dog%1:05:00::")]
    elmo = Elmo.from_archive(bilm_archive)

    def vector(example: wsd.Sentence, layer: str | int) -> np.ndarray:
        words, (target,) = example
        found = elmo.embed(words, layer=layer)[target.start : target.end]
        return sum(found) / len(found)

    expected = []
    for layer in (0, 1, 2, "average"):
        means: dict[str, np.ndarray] = {}
        for sense in (f"stick%1:0{k}:00::" for k in (1, 2, 3)):
            vectors = [vector(x, layer) for x in train if x[1][0].senses == [sense]]
            means[sense] = sum(vectors) / len(vectors)
        row = []
        for example in dev[:-1]:
            v = vector(example, layer)
            cosines = {s: v @ m / np.linalg.norm(v) / np.linalg.norm(m) for s, m in means.items()}
            row.append(max(cosines, key=lambda s: cosines[s]) in example[1][0].senses)
        expected.append([*row, True])
    words = {("stick", "NOUN"), ("dog", "NOUN")}
    senses = wsd.averages(wsd.sense_vectors(elmo, iter(train), words))
    assert set(senses) == {f"stick%1:0{k}:00::" for k in (1, 2, 3)}
    wordnet = {
        ("stick", "NOUN"): [f"stick%1:0{k}:00::" for k in (1, 2, 3)],
        ("dog", "NOUN"): ["dog%1:05:00::"],
    }
    found = wsd.nearest_senses(list(wsd.target_vectors(elmo, dev)), senses, wordnet)
    targets = [target for _, (target,) in dev]
    right = [[sense in t.senses for sense, t in zip(row, targets)] for row in found]
    assert right == expected


def test_a_sense_that_wordnet_lacks_is_still_found(bilm_archive: str) -> None:
    """By hand: the only sense of the training data, from another version of WordNet."""
    target = Target("stick", "NOUN", 0, 1, ["stick%1:09:00::"])
    elmo = Elmo.from_archive(bilm_archive)
    sentences = [(["stick"], [target])]
    senses = wsd.sense_vectors(elmo, sentences, {("stick", "NOUN")})
    wordnet = {("stick", "NOUN"): ["stick%1:06:00::"]}
    found = wsd.nearest_senses(list(wsd.target_vectors(elmo, sentences)), senses, wordnet)
    assert all(row == ["stick%1:09:00::"] for row in found)


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_equal_senses_go_to_the_one_that_wordnet_puts_first(
    bilm_archive: str, order: tuple[int, ...]
) -> None:
    """A property: a form has one vector in the word layer, so its senses are equally near there.
    Their averages are of one, two and three occurrences, which differ by rounding."""
    word = ("stick", "NOUN")
    ranked = [f"stick%1:0{k}:00::" for k in order]

    def sentence(words: str, k: int) -> wsd.Sentence:
        tokens = words.split()
        start = tokens.index("stick")
        return tokens, [Target(*word, start, start + 1, [f"stick%1:0{k}:00::"])]

    texts = ["he threw the stick", "the stick .", "a stick to", "stick to it", "no stick", "stick"]
    train = [sentence(text, k) for text, k in zip(texts, (1, 2, 2, 3, 3, 3))]
    elmo = Elmo.from_archive(bilm_archive)
    senses = wsd.averages(wsd.sense_vectors(elmo, train, {word}))
    tests = list(wsd.target_vectors(elmo, [train[0]]))
    found = wsd.nearest_senses(tests, senses, {word: ranked})
    assert found[0] == [ranked[0]]


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
    """A row for each layer and the average; those of a second run take their place."""
    file = write(tmp_path)
    wordnet = {
        wsd.word_of(senses[0]): senses
        for senses in (
            ["throw%2:35:00::", "throw%2:35:02::"],
            ["stick%1:06:00::", "stick%1:13:00::"],
            ["fire_engine%1:06:00::"],
            ["big%5:00:01:important:00"],
        )
    }
    elmo = Elmo.from_archive(bilm_archive)
    [data] = wsd.data_sets(file, file)
    for _ in range(2):
        rows = [
            wsd.baseline_row(data, {("stick", "NOUN"): ["stick%1:06:00::"]}),
            *wsd.wsd_rows("a", elmo, data, wordnet),
        ]
        save_rows(tmp_path / "results" / "wsd.jsonl", rows)
    saved = read_rows(tmp_path / "results" / "wsd.jsonl")
    lines = [line.split(" | ") for line in wsd.wsd_table(saved).splitlines()[2:]]
    layers = ["words", "LSTM 1", "LSTM 2", "average"]
    assert [line[2] for line in lines] == ["first sense", *layers]
    # Each sense was seen, and two of stick's occurrences are its two senses: all are right.
    both = ["100.0", "+20.0 (+0.0 to +60.0)", "100.0"]
    assert [line[3:] for line in lines[1:]] == [[*both, *both[:2], both[2] + " |"]] * 4
    assert lines[0][3] == "20.0" and set(lines[0][4:]) <= {"", " |"}
    saved[0]["bilm"], saved[0]["metrics"]["difference_interval"] = "b", [0.1, 0.2]
    assert "| **+0.0** (+0.1 to +0.2) |" in wsd.wsd_table(saved)


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


def test_the_average(bilm_archive: str) -> None:
    """Expected: NumPy's average of a sense's three vectors."""
    target = Target("stick", "NOUN", 0, 1, ["stick%1:06:00::"])
    texts = [["stick"], ["stick", "it"], ["stick", "to", "it"]]
    elmo = Elmo.from_archive(bilm_archive)
    sentences = [(words, [target]) for words in texts]
    vectors = np.stack([v for _, v in wsd.target_vectors(elmo, sentences)])
    senses = wsd.sense_vectors(elmo, sentences, {("stick", "NOUN")})
    [found] = wsd.averages(senses)["stick%1:06:00::"]
    np.testing.assert_allclose(found, vectors.mean(axis=0), atol=1e-6)


def test_the_nearest_occurrence() -> None:
    """By hand: one of the second sense's vectors is the nearest, and the first sense's average."""
    word, vectors = ("stick", "NOUN"), np.array([[[1.0, 0.0]]])
    senses = {
        "stick%1:06:00::": np.array([[[1.0, 0.5]]]),
        "stick%1:13:00::": np.array([[[1.0, 0.1]], [[-1.0, 0.1]]]),
    }
    tests = [(Target(*word, 0, 1, []), vectors[0])]
    wordnet = {word: sorted(senses)}
    for known, expected in ((senses, 1), (wsd.averages(senses), 0)):
        assert wsd.nearest_senses(tests, known, wordnet) == [[sorted(senses)[expected]]]
