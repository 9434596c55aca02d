"""
What is found in a text that a model reads otherwise than its user may think. It is a Python warning
at the end of the call that read the text, at most one of each kind.
"""

import logging
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import chain
from typing import Any
from unicodedata import name

from elmo_plugin.checks import shown
from elmo_plugin.text.advice_kinds import KINDS, N_EXAMPLES, RAW_SPLITS, Kind
from elmo_plugin.text.characters import SPECIAL_WORDS, UNKNOWN_TOKEN, WordLimit

logger = logging.getLogger(__name__)

MOST_LONG = 1 << 16
"""Number of long words that are compared with one another, to bound the memory."""

SYMBOL = re.compile(
    r"</?s>|</?doc>|@[-.,]@|<\|\w+\|>"
    r"|[<\[](?:unk|pad|eos|bos|eot|eod|mask|sep|cls)[>\]]",
    re.IGNORECASE,
)
"""Tokens that stand for something in the text of other models, such as GPT-2's or WikiText's."""

BOUNDARIES = SPECIAL_WORDS[:2]
"""Are in each vocabulary, and in no text."""

HIDDEN = (
    "\0-\x08\x0e-\x1b\x7f-\x84\x86-\x9f\u00ad\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064"
    "\u2066-\u206f\ufeff\ufff9-\ufffb"
)
JOINERS = "\u180e\u200c\u200d\ufe00-\ufe0f"
"""Joiners and variation selectors, which emoji and many scripts need, but not these letters."""
ALPHABETS = "A-Za-z\u00c0-\u058f\u1e00-\u1fff"

INVISIBLE = re.compile(f"[{HIDDEN}]|(?<=[{ALPHABETS}])[{JOINERS}](?![^{ALPHABETS}])")
"""Invisible characters, which make a word a different one."""

MAY_BE_FOUND = re.compile(rf"[<\[@{HIDDEN}{JOINERS}]")
"""Is in each symbol and each word with an invisible character. One class is fast in long texts."""

UNSPLIT = re.compile(r"""\w[.,;:?!।。؟]+["'”’“»«‹›)\]}]*$""")
"""The end of a token that is probably several."""


class TextWarning(UserWarning):
    """
    Something in a text that a model reads otherwise than its user may think, such as many unknown
    words. `warnings.filterwarnings("ignore", category=TextWarning)` turns such warnings off.
    """


class Finding:
    """How often something was found among what was read, examples of it, and what is known."""

    def __init__(self) -> None:
        self.n = self.of = 0
        self.examples: dict[str, None] = {}
        self.facts: dict[str, Any] = {}
        self.is_certain = self.is_said = False

    def is_worth(self, kind: Kind) -> bool:
        """Whether it is worth a warning."""
        is_many = self.n > kind.share * self.of and len(self.examples) >= kind.least
        return not self.is_said and (is_many or self.is_certain)

    def message(self, kind: Kind) -> str:
        percent, examples = 100 * self.n / max(1, self.of), ", ".join(self.examples)
        return kind.message.format(
            n=self.n, of=self.of, percent=percent, examples=examples, **self.facts
        )


class Advice:
    """
    The findings of a call. Each kind is said once, also if batch after batch says what it found. A
    text's `name` begins its messages.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.has_characters = False  # of the whole text, also of what is not embedded
        self._findings: dict[str, Finding] = {}
        self._long: dict[bytes | str, str] = {}

    def find(
        self, kind: str, n: int, of: int, examples: Iterable[str] = (), **facts: Any
    ) -> Finding:
        """Add `n` findings among the next `of` things that were read."""
        finding = self._findings.setdefault(kind, Finding())
        finding.n += n
        finding.of += of
        if n:
            for example in examples:
                if len(finding.examples) == N_EXAMPLES:
                    break
                finding.examples[example] = None
            finding.facts = facts | finding.facts
        return finding

    def say(self) -> None:
        """Warn of each kind that is worth it and was not said yet."""
        for key, kind in KINDS.items():
            if (finding := self._findings.get(key)) and finding.is_worth(kind):
                finding.is_said = True
                prefix = f"{self.name}: " if self.name else ""
                message = f"{prefix}{finding.message(kind)}"
                warnings.warn(message, TextWarning, stacklevel=_frames_of_package())

    def of_cut_words(self, words: Iterable[str], n_words: int, limit: WordLimit) -> None:
        """
        Add words that are longer than the limit of their token encoder, and whether two different
        ones are equal up to it.
        """
        long = [(word, limit.spelled(word)) for word in filter(limit.may_reach, words)]
        cut = [word for word, spelled in long if len(spelled) > limit.most]
        facts = {"limit": limit, "equal": ""}
        finding = self.find("cut words", len(cut), n_words, map(shown, cut), **facts)
        n_words_of_letters = sum(word[0].isalpha() and "/" not in word for word in cut)  # no URLs
        finding.is_certain |= 2 * n_words_of_letters > n_words
        for word, spelled in long:
            if len(spelled) >= limit.most:
                other = self._long.setdefault(spelled[: limit.most], word)
                if other != word and not finding.facts.get("equal"):
                    equal = f"; {shown(other)} and {shown(word)} have equal vectors"
                    finding.facts |= {"limit": limit, "equal": equal}
                    finding.is_certain = True
        if len(self._long) > MOST_LONG:
            self._long.clear()

    def of_characters(
        self, sentences: Sequence[Sequence[str]], knows: Callable[[str], bool] = lambda _: False
    ) -> None:
        """Add symbols of other programs and words with invisible characters, but known words."""
        text, odd = "\n".join(map(" ".join, sentences)), Counter[str]()
        if MAY_BE_FOUND.search(text):
            words = filter(MAY_BE_FOUND.search, chain.from_iterable(sentences))
            odd.update(x for x in words if x in BOUNDARIES or not knows(x))
        self.of_odd_words(odd, sum(map(len, sentences)))

    def of_odd_words(self, counts: dict[str, int], n_words: int) -> None:
        """As `of_characters`, of those words among `n_words` that `MAY_BE_FOUND` matches."""
        symbols = [x for x in counts if SYMBOL.fullmatch(x) and x != UNKNOWN_TOKEN]
        self.find("symbols", sum(counts[x] for x in symbols), n_words, map(repr, symbols))
        hidden = {x: found[0] for x in counts if (found := INVISIBLE.search(x))}
        one = next(iter(hidden.values()), " ")
        character = f"U+{ord(one):04X} ({name(one, 'a control character')})"
        n = sum(counts[x] for x in hidden)
        self.find("invisible characters", n, n_words, map(repr, hidden), character=character)

    def of_lines(self, counts: Sequence[int], hint: str) -> None:
        """
        Add lines that begin within a sentence, in text whose sentences begin with capital letters,
        and whose other lines do not.
        `counts`: the numbers of lines, by twice whether the line before ends without final
        punctuation, plus whether the line begins in lower case.
        """
        upper_after_end, lower_after_end, upper_within, n_wrapped = counts
        is_wrapped = lower_after_end < upper_after_end and upper_within < n_wrapped
        n = int(n_wrapped) if is_wrapped else 0
        self.find("wrapped lines", n, int(sum(counts)), hint=hint)

    def of_unknown_words(
        self, sentences: Sequence[Sequence[str]], knows: Callable[[str], bool], is_raw: bool
    ) -> None:
        """
        Add words that are none of a vocabulary, and ends of sentences that are probably several
        tokens, such as *dog.* `knows`: whether it has a word. `is_raw`: whether sentences were
        split by the rules of English.
        """
        hint = RAW_SPLITS * (not is_raw)
        unknown = [word for sentence in sentences for word in sentence if not knows(word)]
        n_words = sum(map(len, sentences))
        self.find("unknown words", len(unknown), n_words, map(repr, unknown), hint=hint)
        unsplit = [s[-1] for s in sentences if s and UNSPLIT.search(s[-1]) and not knows(s[-1])]
        self.find("unsplit sentences", len(unsplit), len(sentences), map(repr, unsplit), hint=hint)


def ends_sentence(line: str) -> bool:
    """Whether a line ends in final punctuation, which quotes and brackets may follow."""
    return line.rstrip(" \t\r\n\"'`”’“»«‹›)]}*_").endswith(tuple(".!?:;…।。؟"))


_current: ContextVar[Advice | None] = ContextVar("_current", default=None)


def current() -> Advice:
    """That of the call around this, or one that nobody says."""
    return _current.get() or Advice()


@contextmanager
def collected(own: Advice) -> Iterator[Advice]:
    """Let `own` be what is found in the block, which is not said."""
    token = _current.set(own)
    try:
        yield own
    finally:
        _current.reset(token)


@contextmanager
def advised(own: Advice | None = None) -> Iterator[Advice]:
    """
    One call, which says what was found when it ends or is interrupted, but not after an error, and
    not if it is part of another call, unless it has its `own` advice. Also a decorator.
    """
    around = _current.get()
    if around and own is None:
        yield around
        return
    found = own or Advice()
    try:
        with collected(found):
            yield found
    except Exception:
        raise
    except BaseException:
        found.say()
        raise
    found.say()


def in_one_call(work: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
    """
    `work` for each item, as one call. `advised` around a `yield` would also be around what the
    caller does between two items.
    """
    around, iterator, end = _current.get(), iter(items), object()
    own = around or Advice()
    try:
        while True:
            with collected(own):
                if (item := next(iterator, end)) is not end:
                    result = work(item)
            if item is end:
                break
            yield result
    except GeneratorExit:  # the user does not need the rest
        pass
    if around is None:
        own.say()


OF_PROCESS = Advice("so far")
"""For components, which read one batch after another and do not know where a text ends."""


@contextmanager
def in_lines() -> Iterator[None]:
    """For programs: log each warning as one line, without its place in the code."""
    show = warnings.showwarning

    def log(message: Warning | str, category: type[Warning], *place: Any) -> None:
        if issubclass(category, TextWarning):
            logger.warning("%s", message)
        else:
            show(message, category, *place)

    warnings.showwarning = log  # type: ignore[assignment]
    try:
        yield
    finally:
        warnings.showwarning = show


def _frames_of_package() -> int:
    """The number of frames up to that of the user, in whose line a warning is shown."""
    frame, n = sys._getframe(1), 1
    while frame.f_back and frame.f_globals.get("__name__", "").partition(".")[0] in INNER:
        frame, n = frame.f_back, n + 1
    return n


INNER = {"elmo_plugin", "contextlib", "torch"}
"""The packages whose frames are between a warning and its user."""
