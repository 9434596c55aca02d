"""Spans whose places are counted in another way than from 0 in characters of Python."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.commands.runner import run_program
from elmo_plugin.elmo.scores import regions
from tests.conftest import Said, write_file

SENTENCES = [
    "The cats 🙂 saw the old bank here .",
    "A café near the bank was cold 🙂 .",
    "She walked to the bank .",
    "🙂🙂 The bank 'é' closed .",
]
SPANS = [(x.index("bank"), x.index("bank") + 4) for x in SENTENCES]

Span = tuple[int, int]
COUNTED: dict[str, Callable[[str, int, int], Span]] = {
    "in UTF-16": lambda text, *span: tuple(len(text[:k].encode("utf-16-le")) // 2 for k in span),
    "in bytes of UTF-8": lambda text, *span: tuple(len(text[:k].encode()) for k in span),
    "from 1;": lambda _, start, end: (start + 1, end + 1),
    "with the end included": lambda _, start, end: (start, end - 1),
    "from 1 and with the end included": lambda _, start, end: (start + 1, end),
}


def counted(way: str) -> np.ndarray:
    """The spans of *bank* counted in another way, shape `(2, N)`, by Python's own encoders."""
    return np.array([COUNTED[way](x, *span) for x, span in zip(SENTENCES, SPANS)]).T


@pytest.mark.parametrize("way", COUNTED)
def test_how_places_are_counted(elmo: Elmo, way: str, said: Said, tmp_path: Path) -> None:
    """The warning names the way in which they were counted, for vectors, regions and tables."""
    start, end = counted(way)
    elmo.embed_spans(SENTENCES, start, end)
    rows = zip(SENTENCES, start, end)
    table = "".join(f"{x},{a},{b},bank\n" for x, a, b in rows)
    (tmp_path / "a.csv").write_text("sentence,start,end,word\n" + table, "utf-8")
    elmo.uses(tmp_path / "a.csv", "characters")
    scores = LanguageModel.from_pretrained("tiny").score([f"{x}" for x in SENTENCES], raw=True)
    regions(scores, start, end)
    messages = [x for x in said() if "within a token" in x]
    assert len(messages) == 3
    shifted = sum(span != given for span, given in zip(SPANS, zip(start.tolist(), end.tolist())))
    for message in messages:
        assert re.match(rf"{shifted} of 4 spans start or end within a token, such as '", message)
        assert f"; places are probably counted {way}" in message


def test_spans_with_spaces_around(elmo: Elmo, said: Said) -> None:
    """By definition: a span that has whole tokens and spaces cuts none. If half of them are counted
    from 1, the rest is not."""
    start, end = np.array(SPANS).T
    elmo.embed_spans(SENTENCES, start, end)
    elmo.embed_spans(SENTENCES, start - 1, end + 1)
    assert not said()
    elmo.embed_spans(SENTENCES, start + [1, 1, 2, 2], end + [1, 1, 2, 2])
    [message] = said()
    assert "4 of 4 spans" in message and "probably counted" not in message


FORMS = {"recalled": "recall", "Recalled": "recall", "mice": "mouse", "ran": "run"}
FORMS |= {"gemacht": "machen", "Äpfel": "apfel", "bank": "bank_nn", "thought": "think"}


def test_a_lemma_is_another_form(elmo: Elmo, said: Said, tmp_path: Path) -> None:
    """Lemmas and labels of a word are no other words."""
    rows = [f"The {found} .,4,{4 + len(found)},{word}\n" for found, word in FORMS.items()]
    text = "sentence,start,end,word\n" + "".join(rows)
    frame = elmo.uses(write_file(tmp_path / "a.csv", text), "characters")
    assert frame["word"].tolist() == [*FORMS.values()]
    assert not said()


def test_another_word_in_the_column(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By hand: three of four spans are other words; tokens are counted from 1. The command says it
    as a line."""
    (tmp_path / "a.csv").write_text(
        "sentence,start,end,word\nThe old bank near here .,3,4,bank\nThe dogs ran .,1,2,cats\n"
        "The bank near me .,2,3,bank\nA bank ran .,1,2,bank\n"
    )
    files = [str(tmp_path / "a.csv"), "tokens", str(tmp_path / "out")]
    assert not run_program("uses", [*files, "--pretrained", "tiny"])
    [message] = [x for x in caplog.messages if "column word" in x]
    assert message.startswith("in 3 of 4 rows, ") and "such as 'near' under" in message
    assert "probably counted from 1; " in message
