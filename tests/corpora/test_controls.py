"""The choice of control words. The oracle counts and compares every word with every other."""

from collections import Counter
from fractions import Fraction
from itertools import permutations
from pathlib import Path
from random import Random

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.corpora.controls import control_words

FORMS = {"dog": ["dog", "dogs", "Dog"], "ICE": ["ice cream"], "rome": ["rome"], "gone": ["gone"]}
OTHERS = "a bb ccc d\u00e9 de\u0301 \u0939\u093f X Yy Zed the The DOG cream Ice x1 e-e , 5".split()
OTHERS += ["gone"]


def random_text(random: Random) -> list[list[str]]:
    """Sentences in which some words are much rarer than others."""
    vocabulary = [*OTHERS, "dog", "dogs", "Dog", "ice", "cream", "rome", *map(chr, range(97, 123))]
    weights = [random.random() ** 4 for _ in vocabulary]
    return [random.choices(vocabulary, weights, k=random.randrange(9)) for _ in range(150)]


def n_uses(text: list[list[str]], form: str) -> int:
    own = form.split(" ")
    places = ((tokens, k) for tokens in text for k in range(len(tokens)))
    return sum(tokens[k : k + len(own)] == own for tokens, k in places)


def test_the_nearest_words_in_frequency(fuzz) -> None:
    """By brute force: there is an order of the listed words in which each takes the words whose
    frequency is nearest among those that are left. A ratio has the order of the logarithms'
    difference. By hand: a form's tokens in any case, numbers and punctuation are no controls, and
    those of words in lower case begin with a small letter."""
    for random in fuzz.cases(30):
        texts, n = [random_text(random) for _ in range(2)], random.randrange(1, 4)
        seed, forms = random.randrange(9), FORMS | {"Big": ["X", "Zed"]}
        lower = {w: min(sum(n_uses(t, x) for x in own) for t in texts) for w, own in forms.items()}
        refused = {"dog", "dogs", "ice", "cream", "rome", "gone", "x", "zed", "big"}
        tokens = {token for text in texts for tokens in text for token in tokens}
        candidates = {
            word: min(n_uses(text, word) for text in texts)
            for word in tokens
            if word.lower() not in refused and not {*word} & {*"15-,"}
        }
        candidates = {word: own for word, own in candidates.items() if own}
        listed = [word for word in forms if lower[word]]
        try:
            found = control_words(*texts, forms, n, seed)
        except InputError as error:
            assert "words of letters that both texts have" in str(error)
            assert any(
                sum(x[0].isupper() == (word == "Big") for x in candidates)
                < n * sum((y == "Big") == (word == "Big") for y in listed)
                for word in listed
            )
            continue
        assert [*found] == [*forms]
        assert [word for word in found if found[word]] == listed
        every = [x for own in found.values() for x in own]
        assert len({*every}) == len(every) == n * len(listed) and {*every} <= {*candidates}

        def distance(word: str, other: str) -> Fraction:
            low, high = sorted([lower[word], candidates[other]])  # noqa: B023
            return Fraction(high, low)

        def is_order(order: tuple[str, ...]) -> bool:
            left = dict(candidates)  # noqa: B023
            for word in order:
                alike = [x for x in left if x[0].isupper() == (word == "Big")]
                expected = sorted(distance(word, x) for x in alike)[:n]  # noqa: B023
                if [distance(word, x) for x in found[word]] != expected:  # noqa: B023
                    return False
                left = {x: own for x, own in left.items() if x not in found[word]}  # noqa: B023
            return True

        assert any(map(is_order, permutations(listed)))
        assert control_words(texts[1], texts[0], forms, n, seed) == found


def test_ties_and_the_order_are_drawn() -> None:
    """By symmetry: of equally frequent words, each is a control of each word about equally often,
    within five standard deviations of the binomial distribution."""
    text = ["one two a b c d e f"] * 3
    found = Counter()
    for seed in range(600):
        controls = control_words(text, text, ["one", "two"], 1, seed)
        found.update((word, x) for word, (x,) in controls.items())
    deviation = (600 / 6 * 5 / 6) ** 0.5
    assert len(found) == 12 and all(abs(n - 100) < 5 * deviation for n in found.values())
    first = Counter()
    text = ["one two a"] * 3 + ["b c d"]  # who is first has a, whose frequency is its own
    for seed in range(200):
        controls = control_words(text, text, ["one", "two"], 1, seed)
        first.update(word for word, own in controls.items() if own == ["a"])
    assert {*first} == {"one", "two"} and abs(first["one"] - 100) < 5 * 50**0.5


def test_texts_in_any_form(tmp_path: Path) -> None:
    """Expected: the same words for a file, a folder, strings, an iterator of lists, and raw text.
    Their order depends on the seed alone."""
    random = Random(0)
    texts = [[[*"abcdefgh"][random.randrange(8)] for _ in range(9)] for _ in range(40)]
    other = [[x for x in tokens if random.random() < 0.8] for tokens in texts]
    expected = control_words(texts, other, ["a", "b"], 2, 7)
    strings = [[" ".join(tokens) for tokens in text] for text in (texts, other)]
    for name, lines in zip(("one", "two"), strings):
        (tmp_path / name).mkdir()
        (tmp_path / name / "text").write_text("\n".join(lines))
    (tmp_path / "words").write_text("a\nb\n")
    for pair in (strings, [iter(texts), iter(other)], [tmp_path / "one", str(tmp_path / "two")]):
        assert control_words(*pair, tmp_path / "words", 2, 7) == expected
    raw = [f"The dog isn't here{x}!" for x in (",", " ;", "")]
    assert control_words(raw, raw, ["dog"], 2, raw=True)["dog"] != []
    assert {*control_words(raw, raw, ["dog"], 2, raw=True)["dog"]} == {"here", "is"}


@pytest.mark.parametrize(
    ("words", "n", "options", "message"),
    [
        (["dog"], 0, {}, r"^n: expected a whole number from 1 to \d+, found 0$"),
        (["dog"], 1, {"seed": -1}, "^seed: expected a whole number from 0"),
        ([], 1, {}, r"^words: expected at least one word, found \[\]$"),
        (["dog"], 3, {}, r"^control words of dog: expected 3 words of letters that .*, found 2$"),
        (["dog", "barks"], 1, {}, "^control words of .*: expected 1 words of letters .*, found 0$"),
    ],
)
def test_wrong_arguments(words: list, n: int, options: dict, message: str) -> None:
    """By hand: of the words of both texts, only *a* and *barks* are not listed; or only *a*."""
    with pytest.raises(InputError, match=message):
        control_words(["A a dog barks 7 ."], ["a dog barks loudly ."], words, n, **options)
