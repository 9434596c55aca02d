"""
Control words for a list of words in two texts: words that are as frequent, with whose scores of
change those of the list are compared.
"""

from collections import Counter
from itertools import chain
from random import Random
from typing import Any
from unicodedata import category

import numpy as np

from elmo_plugin.checks import check_count, fail
from elmo_plugin.corpora.uses import find_uses
from elmo_plugin.corpora.word_list import word_forms
from elmo_plugin.text.advice import advised


@advised()
def control_words(
    first: Any, second: Any, words: Any, n: int, seed: int = 0, raw: bool | str = False
) -> dict[str, list[str]]:
    """
    Choose `n` control words for each word of a list: the words whose frequency is nearest to its
    own. The order of the two texts does not matter.

    The frequency of a word is the number of its uses in the text that has fewer of them, and
    nearness is the difference of logarithms. The uses of a listed word are those of all its forms.
    Control words consist of letters only and occur in both texts. No control word equals a listed
    word, a form or a token of a form in any capitalization, and none is used for two words. They
    begin with a capital letter if all forms of their word do, and otherwise not, which leaves out
    names. The words of the list choose in random order, and ties are broken at random.

    # Parameters

    first, second : `str | os.PathLike | Iterable[str | Sequence[str]]`
        The texts, as `corpus` in `Elmo.uses`, except a table. Each is read once.
    words : `str | os.PathLike | Iterable[str]`
        See `Elmo.uses`.
    n : `int`
        Number of control words of each word.
    seed : `int`, optional (default = `0`)
        The seed of the random choices.
    raw : `bool`, optional (default = `False`)
        Whether to split sentences into tokens, as in `Elmo.uses`.

    # Returns

    `dict[str, list[str]]`
        The control words of each listed word, the nearest first. A word that does not occur in both
        texts has none.

    # Raises

    `InputError`
        If there are too few words to choose from, if there are no words, or if a parameter is
        invalid.
    """
    n = check_count("n", n)
    forms, random = word_forms(words), Random(check_count("seed", seed, least=0))
    counts = zip(*(_counts(text, forms, raw) for text in (first, second)))
    of_words, of_tokens = (one & other for one, other in counts)  # the lower of both counts

    listed = {x.casefold() for name in chain(forms, forms.values()) for x in str(name).split(" ")}
    others = sorted(x for x in of_tokens if x.casefold() not in listed and _has_only_letters(x))
    random.shuffle(others)
    frequencies = np.array([of_tokens[x] for x in others])
    is_capital = np.array([x[0].isupper() for x in others])
    is_free = np.ones(len(others), dtype=bool)
    in_lower_case = {word for form, word in forms.items() if not form[0].isupper()}

    controls: dict[str, list[str]] = {word: [] for word in forms.values()}
    for word in random.sample([*controls], len(controls)):
        if own := of_words[word]:
            alike = np.flatnonzero(is_free & (is_capital == (word not in in_lower_case)))
            # Unlike the difference of logarithms, this ratio has no rounding errors.
            ratios = np.maximum(frequencies, own)[alike] / np.minimum(frequencies, own)[alike]
            nearest = alike[np.argsort(ratios, kind="stable")[:n]]
            if len(nearest) < n:
                expected = (
                    f"{n} words of letters that both texts have and no other word took "
                    f"({len(others)} are there for {len(controls)} words)"
                )
                fail(f"control words of {word}", expected, len(nearest))
            is_free[nearest] = False
            controls[word] = [others[k] for k in nearest]
    return controls


def _counts(text: Any, forms: dict[str, str], raw: bool | str) -> tuple[Counter[str], Counter[str]]:
    """How often each listed word and each token occurs."""
    of_tokens: Counter[str] = Counter()
    return Counter(use.word for use in find_uses(text, forms, raw, seen=of_tokens)), of_tokens


def _has_only_letters(token: str) -> bool:
    """Whether a token consists of letters, which may have combining marks."""
    return all(category(x)[0] in "LM" for x in token)
