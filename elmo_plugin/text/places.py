"""
Whether the places of spans are probably counted in another way than expected: spans that are not
whole tokens, or not the word that a table says.
"""

import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from elmo_plugin.text.advice import current
from elmo_plugin.text.advice_kinds import RAW_SPLITS

Span = tuple[int, int]

CAUSES: dict[str, Callable[[Any, int, int], Span]] = {
    "in UTF-16, as in Java and JavaScript": lambda text, *span: _in(text, "utf-16-le", 2, span),
    "in bytes of UTF-8": lambda text, *span: _in(text, "utf-8", 1, span),
    "from 1": lambda _, start, end: (start - 1, end - 1),
    "with the end included": lambda _, start, end: (start, end + 1),
    "from 1 and with the end included": lambda _, start, end: (start - 1, end),
}
"""How places may be counted, and the span in characters, or tokens, that it means. Of two that fit
as many spans, the first is more probable: the others shift all spans of a table."""


MOST_TESTED = 1000
"""Number of spans whose cause is looked for, since this takes the time of a whole text for each."""


class CheckedPlaces:
    """Adds to the advice of a call the spans that are probably not those that were meant."""

    def __init__(self, is_raw: bool) -> None:
        self._advice = current()
        self._hint = RAW_SPLITS * (not is_raw)
        self._n_tested = 0
        self._causes = Counter(dict.fromkeys(CAUSES, 0))

    def add(
        self,
        name: str,
        text: str | Sequence[str],
        tokens: Sequence[Span],
        span: Span,
        whole: Span,
        word: str = "",
    ) -> None:
        """
        Add the `span` of the row `name` in a text, or in a list of tokens. `tokens`: the spans of
        all tokens. `whole`: that of the tokens which have a part of it. `word`: what a table says
        that it is, or an empty string.
        """
        found = _part(text, whole)
        is_cut = whole[0] < span[0] or span[1] < whole[1]
        is_other = bool(word) and not _are_forms(found, word)
        examples = [f"{_part(text, span)!r} of {found!r} in {name}"]
        self._advice.find("cut tokens", is_cut, 1, examples, hint="")
        examples = [f"{found!r} under {word!r} in {name}"]
        other = self._advice.find("other words", is_other, bool(word), examples, hint="")
        if is_cut or is_other:
            self._n_tested += 1
            other.is_certain |= is_other and word in _part(text, (0, len(text))).split()
        if (is_cut or is_other) and self._n_tested <= MOST_TESTED:
            starts, ends = ({place[k] for place in tokens} for k in (0, 1))
            for cause, meant in CAUSES.items():
                start, end = meant(text, *span)
                is_whole = start in starts and end in ends and start < end
                if is_whole and (not word or _are_forms(_part(text, (start, end)), word)):
                    self._causes[cause] += 1

    def end(self) -> None:
        """Add how the places are probably counted."""
        [(cause, n)] = self._causes.most_common(1)
        is_probable = n > 1 and 2 * n > min(self._n_tested, MOST_TESTED)
        hint = f"; places are probably counted {cause}; expected: from 0, in characters or tokens, "
        hint += "with the end after the last one"
        for kind, other in (("cut tokens", self._hint), ("other words", "")):
            facts = self._advice.find(kind, 0, 0).facts
            facts["hint"] = hint if is_probable else other


def _part(text: str | Sequence[str], span: Span) -> str:
    part = text[slice(*span)]
    return part if isinstance(part, str) else " ".join(part)


def _in(text: str | Sequence[str], encoding: str, size: int, span: Span) -> Span:
    """The characters at places in units of `size` bytes of an encoding."""
    if not isinstance(text, str):
        return span
    encoded = text.encode(encoding, "surrogatepass")
    start, end = (len(encoded[: size * place].decode(encoding, "ignore")) for place in span)
    return start, end


def _are_forms(found: str, word: str) -> bool:
    """
    Whether two words may be forms of one, as *recalled* and *recall*, *gemacht* and *machen*: they
    begin alike but for case and accents, or one has the beginning of the other.
    """
    one, other = (unicodedata.normalize("NFKD", x).casefold() for x in (found, word))
    return one[:1] == other[:1] or one[:3] in other or other[:3] in one
