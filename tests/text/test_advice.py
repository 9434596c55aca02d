"""
What is found in a text that a model reads otherwise than its user may think: how it is said,
symbols of other programs, and invisible characters. tests/elmo/test_word_warnings.py has
the words that a model cuts or does not know.
"""

import logging
import re
import warnings
from pathlib import Path
from typing import Any

import pytest

import elmo_plugin
from elmo_plugin import Elmo, ElmoEmbedder, LanguageModel, TextWarning
from elmo_plugin.commands import runner
from elmo_plugin.corpora.controls import control_words
from elmo_plugin.text.advice import Advice, advised
from elmo_plugin.text.advice_kinds import KINDS
from elmo_plugin.text.corpus_advice import advise_of_corpus
from elmo_plugin.text.encoding import encode_corpus
from elmo_plugin.text.raw_text import split_tokens
from tests.conftest import Said


def test_a_warning_of_python(model: LanguageModel, elmo: Elmo) -> None:
    """By definition: it has the public category, is in the line of the user, and is an error where
    the user wants one."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")
        model.score("The dog ran <eos>")
        [record] = records
        list(elmo.stream(["The dog ran <eos>"]))
    assert record.category is TextWarning is elmo_plugin.TextWarning
    assert issubclass(TextWarning, UserWarning)
    assert [x.filename for x in records] == [__file__] * 2
    with warnings.catch_warnings(), pytest.raises(TextWarning, match="1 of 4 tokens are symbols"):
        warnings.simplefilter("error", TextWarning)
        model.score("The dog ran <eos>")


def test_advice_of_several_calls(model: LanguageModel, said: Said) -> None:
    """By definition: each kind is said once, with what was found so far, but not after an error,
    which is what a user has to read."""
    with pytest.raises(ValueError), advised():
        model.score("The dog ran <eos>")
        raise ValueError
    model.score("The dog ran .")
    assert not said()
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
def test_symbols(model: LanguageModel, elmo: Elmo, symbol: str, said: Said) -> None:
    """The symbols of word-level models, BERT, GPT-2 and WikiText are named with their number, and
    raw text keeps each whole."""
    tokens = ["The", "dog", symbol]
    for call in (
        lambda: model.score(tokens),
        lambda: model.score(f"The dog {symbol}", raw=True),
        lambda: model.perplexity([tokens]),
        lambda: elmo.embed(tokens),
    ):
        call()
        [message] = said()
        assert message.startswith("1 of 3 tokens are symbols") and repr(symbol) in message
    assert split_tokens(f"It ran.{symbol}A dog, {symbol}").tokens[-4:] == ["A", "dog", ",", symbol]


# Joiners in Persian, alone and after Latin letters, Mongolian and Hindi, and in emoji; an accent.
SEEN = ["می\u200cخواهم", "PDF\u200cها", "ᠮᠣᠩᠭᠣᠯ\u180eᠠ", "क्\u200dष", "👨\u200d👩\u200d👧"]
SEEN += ["❤\ufe0f", "1\ufe0f\u20e3", "cafe\u0301"]


@pytest.mark.parametrize(
    "character, name",
    [
        ("\u00ad", "U+00AD (SOFT HYPHEN)"),
        ("\u200b", "U+200B (ZERO WIDTH SPACE)"),
        ("\u200c", "U+200C (ZERO WIDTH NON-JOINER)"),
        ("\ufe0f", "U+FE0F (VARIATION SELECTOR-16)"),
        ("\0", "U+0000 (a control character)"),
        ("\x93", "U+0093 (a control character)"),
    ],
)
def test_invisible_characters(model, elmo, character, name, said):
    """The names are those of the Unicode Standard; control characters have none. They are named for
    sentences, for the words that are looked for, and for all sentences of a text."""
    word = f"ba{character}nk"
    for call in (
        lambda: model.score(["The", word]),
        lambda: elmo.embed(["The", word]),
        lambda: elmo.uses([["The", word], ["The", "dog"]], ["dog"]),
    ):
        call()
        [message] = [x for x in said() if "an invisible character" in x]
        assert f"such as {name} in {word!r}" in message and message.startswith("1 of ")
    elmo.uses([["The", "bank"]], ["bank", word])
    [message] = [x for x in said() if "listed forms" in x]
    assert message.startswith("1 of 2 ") and repr(word) in message


def test_what_is_no_fault(model: LanguageModel, said: Said) -> None:
    """Brackets and the like are tokens of the Penn Treebank, and `<UNK>` is in each vocabulary. By
    the Unicode Standard, scripts and emoji need joiners."""
    for sentence in ("[ The dog ] < 3 @ 5", "<UNK> ran .", "me@there.com -LRB- <3 [1]", "AT&T R&B"):
        model.score(sentence)
    for word in SEEN:
        model.score(["The", word])
    assert not any("symbols" in x or "an invisible character" in x for x in said())


CORPUS = {
    "symbols": "The dog ran <eos>\n" * 5,
    "invisible characters": "The dog ra\u200bn .\n",
    "unsplit sentences": 'The dog ran home.“\nIt sat."\nIt ran .\n',
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
    assert one.removeprefix("my text") == other.removeprefix(str(tmp_path / "text"))
    start = KINDS[kind].message.partition("}")[2].partition("}")[2].partition("{")[0]
    assert start in one
    assert not said()


SONG = "only words\nof a song\n" * 9
CHAT = "so tired today\nThis is great\nIt rained.\nNo way\nWe won\nand again\nOh.\n" * 9


def test_text_for_training_without_a_fault(tmp_path: Path, caplog: Any) -> None:
    """Tokens in lower case, without final punctuation, and abbreviations."""
    text = "The dog ran .\n\nIt met Sgt. Jones at 5 p.m. .\n" * 3
    for number, content in enumerate((text, SONG, "It ran etc.\n.\n?\n", CHAT)):
        (tmp_path / f"{number}").write_text(content, "utf-8")
        corpus = encode_corpus([tmp_path / f"{number}"], tmp_path / f"corpus{number}")
        advise_of_corpus(corpus, "my text", 50)
    assert not caplog.messages


def test_calls_that_are_not_finished(elmo: Elmo, said: Said) -> None:
    """By definition: what was found is said when a stream is closed or a call is interrupted."""
    stream = elmo.stream(["A dog <eos>", "The dog ran ."] * 9)
    next(stream)
    assert not said()
    stream.close()
    assert len(said()) == 1
    with pytest.raises(KeyboardInterrupt), advised() as advice:
        advice.of_characters([["<eos>"]])
        raise KeyboardInterrupt
    assert len(said()) == 1


def test_each_token_counts_once(elmo: Elmo, tmp_path: Path, said: Said) -> None:
    """By hand: 14 of 126 tokens, however a call reads them, or of 128 with another text."""
    lines = ["The dog ran <eos> and sat in it on"] * 14
    lists = [x.split() for x in lines]
    embedder = ElmoEmbedder("pretrained://tiny")
    (tmp_path / "text").write_text("\n".join(lines))
    for call in (
        lambda: elmo.uses(lines, ["dog"]),
        lambda: elmo.uses(lines, ["dog"], most=1),
        lambda: elmo.embed(lists),
        lambda: list(embedder.embed_sentences(lists, 5)),
        lambda: embedder.embed_file((tmp_path / "text").open(), tmp_path / "out"),
        lambda: control_words(lines, ["on dog"], ["dog"], 1),
    ):
        call()
        [message] = [x for x in said() if "symbols" in x]
        assert re.match("14 of 12[68] tokens", message)
