"""Nearest neighbors in context. The oracle compares all pairs in NumPy."""

from pathlib import Path

import numpy as np
import pytest

from elmo_plugin import Elmo
from elmo_plugin.elmo import nearest
from elmo_plugin.elmo.nearest import Occurrence, Sentence, nearest_occurrences, text_sentences

VOCABULARY = "The the dog stick threw he to . Stick".split()


@pytest.fixture(scope="module")
def elmo(bilm_archive: str) -> Elmo:
    return Elmo.from_archive(bilm_archive)


@pytest.fixture(scope="module")
def sentences() -> list[Sentence]:
    """Random sentences, every third of which is repeated."""
    random = np.random.default_rng(0)
    found = []
    for number in range(30):
        words = tuple(random.choice(VOCABULARY, size=random.integers(1, 8)).tolist())
        found.append(Sentence(words, f"line {number + 1}"))
    return [*found, *(Sentence(s.words, f"{s.source}, again") for s in found[::3])]


def oracle(
    elmo: Elmo, query: Occurrence, sentences: list[Sentence], layer: str | int, same_word: bool
) -> dict[tuple[tuple[str, ...], int], float]:
    """The cosines of all distinct occurrences, in descending order."""

    def vector(words: tuple[str, ...], position: int) -> np.ndarray:
        x = elmo.embed(list(words), layer)[position].astype(np.float64)
        return x / np.sqrt((x**2).sum())

    goal = vector(query.sentence.words, query.position)
    cosines = {}
    for words, _ in sentences:
        for position, word in enumerate(words):
            same = words == query.sentence.words and position == query.position
            if not same and (not same_word or word.lower() == query.word.lower()):
                cosines[words, position] = float(vector(words, position) @ goal)
    return dict(sorted(cosines.items(), key=lambda item: -item[1]))


@pytest.mark.parametrize("same_word", [False, True])
@pytest.mark.parametrize("layer", [0, 1, "top", "average"])
@pytest.mark.parametrize("part_tokens", [1, 20, 2**14])
def test_all_pairs(
    elmo: Elmo,
    sentences: list[Sentence],
    layer: str | int,
    same_word: bool,
    part_tokens: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One query is in the text, the other is not; neither depends on how the text is divided.
    The word layer has many ties, so only the cosines are compared there."""
    monkeypatch.setattr(nearest, "PART_TOKENS", part_tokens)
    inside = next(s for s in sentences if "stick" in s.words)
    queries = [
        Occurrence(inside, inside.words.index("stick")),
        Occurrence(Sentence(tuple("He threw the dog .".split())), 3),
    ]
    found = nearest_occurrences(
        elmo, queries, iter(sentences), k=6, layer=layer, same_word=same_word
    )
    for query, neighbors in zip(queries, found):
        expected = oracle(elmo, query, sentences, layer, same_word)
        cosines = [neighbor.cosine for neighbor in neighbors]
        np.testing.assert_allclose(cosines, list(expected.values())[:6], atol=1e-5)
        keys = [neighbor.occurrence.key for neighbor in neighbors]
        assert len(set(keys)) == len(keys) == min(6, len(expected))
        np.testing.assert_allclose(cosines, [expected[key] for key in keys], atol=1e-5)
        if layer != 0:
            assert keys == list(expected)[:6]
        assert not any(n.occurrence.sentence.source.endswith("again") for n in neighbors)


def test_sentences_and_occurrences(tmp_path: Path) -> None:
    """By hand: empty lines count as lines; a single file needs no name."""
    (tmp_path / "a.txt").write_text("The dog .\n\nA stick\n")
    (tmp_path / "b.txt").write_text("\nthe  the\n")
    alone = list(text_sentences(tmp_path / "a.txt"))
    assert alone == [(("The", "dog", "."), "line 1"), (("A", "stick"), "line 3")]
    both = list(text_sentences(tmp_path))
    assert [s.source for s in both] == ["a.txt, line 1", "a.txt, line 3", "b.txt, line 2"]
    found = nearest.occurrences(both, "the")
    assert [(o.sentence.source, o.position, o.word) for o in found] == [
        ("a.txt, line 1", 0, "The"),
        ("b.txt, line 2", 0, "the"),
        ("b.txt, line 2", 1, "the"),
    ]


def test_files_of_the_same_name(tmp_path: Path) -> None:
    """By hand: the folders that differ are part of the source."""
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "t.txt").write_text("the\n")
    found = [sentence.source for sentence in text_sentences(tmp_path)]
    assert found == ["a/t.txt, line 1", "b/t.txt, line 1"]
