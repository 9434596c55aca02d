"""
What is found in a text that a model reads otherwise than its user may think: how it is said,
symbols of other programs, and invisible characters. tests/elmo/test_word_warnings.py has
the words that a model cuts or does not know.
"""

import logging
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import elmo_plugin
from elmo_plugin import Elmo, LanguageModel, TextWarning
from elmo_plugin.commands import runner
from elmo_plugin.elmo.raw_text import split_tokens
from elmo_plugin.text.advice import KINDS, Advice, advised
from elmo_plugin.text.corpus_advice import advise_of_corpus
from elmo_plugin.text.encoding import encode_corpus
from tests.conftest import Said


@pytest.fixture(scope="module")
def tiny() -> LanguageModel:
    return LanguageModel.from_pretrained("tiny")


def test_a_warning_of_python(tiny: LanguageModel) -> None:
    """By definition: it has the public category, is in the line of the user, and is an error where
    the user wants one."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        tiny.score("The dog ran <eos>")
        [record] = records
        list(Elmo.from_pretrained("tiny").stream(["The dog ran <eos>"]))
    assert record.category is TextWarning is elmo_plugin.TextWarning
    assert issubclass(TextWarning, UserWarning)
    assert [x.filename for x in records] == [__file__] * 2
    with warnings.catch_warnings(), pytest.raises(TextWarning, match="1 of 4 tokens are symbols"):
        warnings.simplefilter("error", TextWarning)
        tiny.score("The dog ran <eos>")


def test_no_advice_after_an_error(tiny: LanguageModel, said: Said) -> None:
    """By definition: an error is what a user has to read."""
    with pytest.raises(ValueError), advised():
        tiny.score("The dog ran <eos>")
        raise ValueError
    assert not said()
    tiny.score("The dog ran .")
    assert not said()


def test_calls_together(said: Said) -> None:
    """By definition: each kind is said once, with what was found so far."""
    advice = Advice("a text")
    for _ in range(3):
        with advised(advice), advised() as found:
            found.of_characters([["a", "<unk>"], ["</s>"]])
    assert [x[:39] for x in said()] == ["a text: 2 of 3 tokens are symbols of ot"]


SYMBOLS = (
    "<eos> </s> <s> <unk> [UNK] <pad> [PAD] <mask> [MASK] [CLS] [SEP] <|endoftext|> @-@ @,@ @.@ "
    "<bos> <S> </S> <EOS>"
).split()


@pytest.mark.parametrize("symbol", SYMBOLS)
def test_symbols(tiny: LanguageModel, symbol: str, said: Said) -> None:
    """The symbols of word-level models, BERT, GPT-2 and WikiText are named with their number, and
    raw text keeps each whole."""
    tokens = ["The", "dog", symbol]
    calls: list[Callable[[], Any]] = [
        lambda: tiny.score(tokens),
        lambda: tiny.score(f"The dog {symbol}", raw=True),
        lambda: tiny.perplexity([tokens]),
        lambda: Elmo.from_pretrained("tiny").embed(tokens),
    ]
    for call in calls:
        call()
        [message] = said()
        assert message.startswith(
            f"1 of 3 tokens are symbols of other programs, such as {symbol!r}"
        )
    assert split_tokens(f"It ran.{symbol}A dog, {symbol}").tokens[-4:] == ["A", "dog", ",", symbol]


def test_what_is_no_symbol(tiny: LanguageModel, said: Said) -> None:
    """Brackets and the like are tokens of the Penn Treebank, and `<UNK>` is in each vocabulary."""
    for sentence in ("[ The dog ] < 3 @ 5", "<UNK> ran .", "me@there.com -LRB- <3 [1]", "AT&T R&B"):
        tiny.score(sentence)
    assert not any("symbols" in x for x in said())


SEEN = {
    "Persian with a joiner": "می\u200cخواهم",
    "Hindi with a joiner": "क्\u200dष",
    "a family": "👨\u200d👩\u200d👧",
    "a heart": "❤\ufe0f",
    "a key": "1\ufe0f\u20e3",
    "a combining accent": "cafe\u0301",
}


@pytest.mark.parametrize(
    "character, name",
    [
        ("\u00ad", "U+00AD (SOFT HYPHEN)"),
        ("\u200b", "U+200B (ZERO WIDTH SPACE)"),
        ("\u200e", "U+200E (LEFT-TO-RIGHT MARK)"),
        ("\u200c", "U+200C (ZERO WIDTH NON-JOINER)"),
        ("\ufe0f", "U+FE0F (VARIATION SELECTOR-16)"),
        ("\0", "U+0000 (a control character)"),
        ("\ufeff", "U+FEFF (ZERO WIDTH NO-BREAK SPACE)"),
        ("\x93", "U+0093 (a control character)"),
    ],
)
def test_invisible_characters(
    tiny: LanguageModel, character: str, name: str, said: Said, tmp_path: Path
) -> None:
    """The names are those of the Unicode Standard; control characters have none. They are named for
    sentences, for the words that are looked for, and for all sentences of a text."""
    word = f"ba{character}nk"
    elmo = Elmo.from_pretrained("tiny")
    calls: list[Callable[[], Any]] = [
        lambda: tiny.score(["The", word]),
        lambda: elmo.embed(["The", word]),
        lambda: elmo.uses([["The", word], ["The", "dog"]], ["dog"]),
    ]
    for call in calls:
        call()
        [message] = [x for x in said() if "an invisible character" in x]
        assert f"such as {name} in {word!r}" in message and message.startswith("1 of ")
    elmo.uses([["The", "bank"]], ["bank", word])
    assert any(name in x for x in said())


@pytest.mark.parametrize("name", SEEN)
def test_joiners_that_are_needed(tiny: LanguageModel, name: str, said: Said) -> None:
    """By the Unicode Standard, scripts and emoji need these."""
    tiny.score(["The", SEEN[name]])
    assert not any("an invisible character" in x for x in said())


CORPUS = {
    "symbols": "The dog ran <eos>\n" * 5,
    "invisible characters": "The dog ra\u200bn .\n",
    "unsplit sentences": 'The dog ran home.\nIt sat."\nIt ran .\n',
    "wrapped lines": "The dog ran home\nto eat . It\nsat there .\nIt ran .\n",
    "cut words": "".join(f"{x * 49}\n" for x in "ABC"),
}


@pytest.mark.parametrize("kind", CORPUS)
def test_text_for_training(tmp_path: Path, kind: str, said: Said, caplog: Any) -> None:
    """Each text has one fault, which is said with the text's name, and by the command as a line."""
    (tmp_path / "text").write_text(CORPUS[kind], "utf-8")
    corpus = encode_corpus([tmp_path / "text"], tmp_path / "corpus")
    with caplog.at_level(logging.WARNING):
        advise_of_corpus(corpus, "my text", 50)
        assert not runner.run_program("bilm-encode", [str(tmp_path / "text"), str(tmp_path / "o")])
    one, other = caplog.messages
    assert one == f"my text: {other}"
    start = KINDS[kind].message.partition("}")[2].partition("}")[2].partition("{")[0]
    assert start in one
    assert not said()


def test_text_for_training_without_a_fault(tmp_path: Path, caplog: Any) -> None:
    """Tokens in lower case, without final punctuation, and abbreviations."""
    text = "The dog ran .\n\nIt met Sgt. Jones at 5 p.m. .\n" * 3
    for number, content in enumerate((text, "only words\nof a song\n" * 9, "It ran etc.\n.\n?\n")):
        (tmp_path / f"{number}").write_text(content, "utf-8")
        corpus = encode_corpus([tmp_path / f"{number}"], tmp_path / f"corpus{number}")
        advise_of_corpus(corpus, "my text", 50)
    assert not caplog.messages
