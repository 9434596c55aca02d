"""Raw text as sentences and tokens. Expected ones are written by hand: tokens as in the text of
`small`."""

import re
import sys
from operator import length_hint

import numpy as np
import pytest

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.text import raw_text
from elmo_plugin.text.advice import advised
from elmo_plugin.text.raw_text import running_text, split_sentences, split_text, split_tokens
from tests.conftest import ROOT, Said

SENTENCES = {
    "It isn't easy.": "It is n't easy .",
    "  I cannot say ,\tgonna  go! ": "I cannot say , gonna go !",
    """"Yes," he said, "it's (not) O'Brien's." """: """" Yes , " he said , " it 's ( not ) """
    """O'Brien 's . \"""",
    "“Don’t,” she said—twice.": """" Do n't , " she said — twice .""",
    "R&B by AT&T & Co., 50% of $3.50; Mr. Smith": "R&B by AT&T & Co. , 50 % of $ 3.50 ; Mr. Smith",
    "``So'' she left...": """" So " she left ...""",
    """3'' and "4" ''x\"""": """3 " and " 4 " " x \"""",
    "naïve 犬 's": "naïve 犬 's",
    "Well… I paid €5–6 (≈ 5±1 %) ™": "Well … I paid € 5 – 6 ( ≈ 5 ± 1 % ) ™",
    "The nurse drank the cold water. She was thirsty.": "The nurse drank the cold water . She was "
    "thirsty .",
    '" I left this afternoon. "': '" I left this afternoon . "',
    "“ I left. ”": '" I left . "',
    '( Mr. Smith (etc.) of the U.S. left. " ) ]': '( Mr. Smith ( etc. ) of the U.S. left . " ) ]',
    "He left (at ten.)": "He left ( at ten . )",
    "": "",
    " \n": "",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_tokens(text: str) -> None:
    """Each token's span has its characters, except for quotes, which become straight; and a word is
    what whitespace separates."""
    found = split_tokens(text)
    assert found.tokens == SENTENCES[text].split()
    for token, (start, end), word in zip(*found[:3], strict=True):
        own = text[start:end].translate(raw_text.STRAIGHT)
        assert own == token or (own in ("``", "''") and token == '"')
        assert text.split()[word].translate(raw_text.STRAIGHT).count(own) >= 1
        assert not text[start:end].isspace()


DOCUMENT = """Dr. Smith paid $3.50 at 5 p.m. on Monday. “Why?” she asked. He left!

A heading

It isn't
easy. No."""


BY_THE_TREEBANK = {
    "'What is it?' he asked.": "' What is it ? ' he asked .",
    "The 'old' dog isn't\tO'Brien's.": "The ' old ' dog is n't O'Brien 's .",
    "She said—twice—'I don't.'": "She said — twice — ' I do n't . '",
    "the dogs' bone‒or 'a' bone―": "the dogs ' bone ‒ or ' a ' bone ―",
}


OLD_QUOTE = r"(?i)(')(?!re|ve|ll|m|t|s|d|n)(\w)\b", r"\1 \2"
NEW_QUOTE = r"(?i)(?<!\w)(')(?!(?:re|ve|ll|m|t|s|d|n)\b)(?=\w)", r"\1 "
SPACES, DASHES = (r"\s+", " "), ("[\u2012-\u2015]", r" \g<0> ")


@pytest.mark.parametrize(
    "quote, others",
    [(OLD_QUOTE, ()), (OLD_QUOTE, (SPACES,)), (OLD_QUOTE, (SPACES, DASHES))]
    + [(NEW_QUOTE, (SPACES, DASHES))],
    ids=["3.8.1", "3.9.1", "3.10.0", "3.10.4"],
)
def test_tokens_do_not_depend_on_the_version_of_nltk(quote, others, monkeypatch):
    """By the rules of the Penn Treebank, quotation marks and dashes are tokens. The rules that are
    patched are those in which the versions of NLTK differ, up to 3.10.4."""
    of_nltk = pytest.importorskip("nltk.tokenize").NLTKWordTokenizer
    rules = {"STARTING_QUOTES": of_nltk.STARTING_QUOTES[:-1]}
    rules["STARTING_QUOTES"].append((re.compile(quote[0]), quote[1]))
    for name, at, rule in (("PUNCTUATION", 5, DASHES), ("ENDING_QUOTES", 3, SPACES)):
        rules[name] = [x for x in getattr(of_nltk, name) if x[0].pattern != rule[0]]
        if rule in others:
            rules[name].insert(at, (re.compile(rule[0]), rule[1]))
    for name, patched in rules.items():
        monkeypatch.setattr(of_nltk, name, patched)
    monkeypatch.setattr(raw_text, "_tokenizer", raw_text._tokenizer.__wrapped__)
    for text, tokens in BY_THE_TREEBANK.items():
        assert split_tokens(text).tokens == tokens.split()


def test_sentences() -> None:
    """Abbreviations end no sentence, nor does a line break, but a blank line does."""
    found = [DOCUMENT[start:end] for start, end in split_sentences(DOCUMENT)]
    first = "Dr. Smith paid $3.50 at 5 p.m. on Monday."
    assert found == [first, "“Why?” she asked.", "He left!", "A heading", "It isn't\neasy.", "No."]
    tokens = split_tokens(DOCUMENT)
    n_tokens = [11, 7, 3, 2, 5, 2]
    assert tokens.sentence == [k for k, n in enumerate(n_tokens) for _ in range(n)]
    assert [len(sentence.tokens) for sentence in split_text(DOCUMENT)] == n_tokens
    assert split_sentences("") == split_sentences(" \n\n") == []
    assert [sentence.tokens for sentence in split_text(" ")] == [[]]
    assert split_tokens(" ") == ([], [], [], [])


def test_quotation_marks_between_spaces() -> None:
    """By hand: one that closes a quotation ends its sentence, one that opens it begins the next."""
    sentences = ["He left.", '" I see " , she said.', '" Go. "', "“ Why? ”", "He went."]
    text = " ".join(sentences)
    assert [text[start:end] for start, end in split_sentences(text)] == sentences


def test_the_precision_of_sentences() -> None:
    """Each line of the fixture is a sentence. Of those without quotes, which are not easily joined
    to their words, almost all boundaries that are found are ends of lines, and most are found."""
    lines = (ROOT / "fixtures/text/train.txt").read_text("utf-8").splitlines()
    joined = [re.sub(" (?=[.,;:!?])", "", line) for line in lines if line and '"' not in line]
    ends = {int(end) for end in np.cumsum([len(line) + 1 for line in joined]) - 1}
    found = {end for _, end in split_sentences(" ".join(joined))}
    assert len(ends & found) >= 0.97 * len(found)
    assert len(ends & found) >= 0.97 * len(ends)


def test_a_running_text_has_its_characters(fuzz) -> None:
    """Property: tokens are the text at their spans, with straight quotes; they cover everything but
    whitespace; sentences are numbered, begin in their line, and are equal for a text, its lines and
    an open file's lines. The tokens of one sentence cover everything too."""
    characters = "Aab.,'\"`’”&-$% \n\n\n\r\t()[]!?0:;…n'tÉ"
    for random in fuzz.cases(300):
        text = "".join(random.choices(characters, k=random.randrange(60)))
        found = list(running_text(text))
        assert [x.row for x in found] == [*range(len(found))]
        for x in found:
            straight = [text[start:end].translate(raw_text.STRAIGHT) for start, end in x.spans]
            assert x.tokens == straight or '"' in x.tokens, repr(text)
            (start, _), *_, (_, end) = [x.spans[0], *x.spans]
            assert x.line == text.count("\n", 0, start), repr(text)
            assert "\n\n" not in text[start:end]
        places = [k for x in found for span in x.spans for k in range(*span)]
        assert places == [k for k, c in enumerate(text) if not c.isspace()], repr(text)
        spans = split_tokens(text).spans
        assert [k for span in spans for k in range(*span)] == places, repr(text)
        assert found == list(running_text(text.split("\n")))
        assert found == list(running_text(text.splitlines(keepends=True))) or "\r" in text


def test_running_text_is_read_paragraph_by_paragraph(monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: a sentence is given before the text behind its paragraph is read, also if
    there are no blank lines; and the sentences are those of the undivided text."""
    monkeypatch.setattr(raw_text, "LONG_PARAGRAPH", 3)
    lines = ["One", "is a", "sentence. Two", "is", "one.", "Three. Four"] * 5
    undivided = split_sentences(" ".join(lines))
    left = iter(lines)
    found = []
    for sentence in running_text(left):
        found.append((sentence.spans[0][0], sentence.spans[-1][1]))
        assert len(lines) - length_hint(left) <= sentence.line + 10
    assert found == undivided


WRAPPED = "The nurse drank the cold\nwater. She was\nthirsty.\n\nIt rained.\n"


@pytest.mark.parametrize(
    "text, n_warnings",
    [
        (WRAPPED, 1),
        ("A b.\nc d.\nE f\nG\n", 0),
        ("A b\nc d\n" + "E f\n" * 30, 0),
        (WRAPPED.lower(), 0),
        ("", 0),
    ],
)
def test_wrapped_lines(text: str, n_warnings: int, said: Said) -> None:
    """By definition: a warning if more than a tenth of the lines begin in lower case after a line
    without final punctuation, but not if sentences begin so too. The lines are as given."""
    with advised():
        assert list(raw_text.check_wrapped(text.splitlines())) == text.splitlines()
    assert [x[:22] for x in said()] == n_warnings * ["2 of 5 lines begin in "]


def test_scores() -> None:
    """Expected: scores of the tokens, and the words to add them up over. tests/text/test_forms.py
    has the vectors."""
    text, tokens = "It isn't easy.", "It is n't easy ."
    model = LanguageModel.from_pretrained("tiny")
    scores = model.score(text, raw=True)
    np.testing.assert_array_equal(scores.backward, model.score(tokens).backward)
    assert scores.words == [0, 1, 1, 2, 2]
    assert scores.spans == [(0, 2), (3, 5), (5, 8), (9, 13), (13, 14)]


def test_other_forms_are_refused() -> None:
    """The message has the sentence's number, or what was given."""
    elmo = Elmo.from_pretrained("tiny")
    with pytest.raises(ValueError, match=r"^sentence 1: expected a string with raw, found \['a'\]"):
        elmo.embed(["b", ["a"]], raw=True)
    with pytest.raises(ValueError, match=r"^expected a sentence or a list of sentences, found 7"):
        elmo.embed(7, raw=True)
    with pytest.raises(InputError, match=r"^raw: expected true or false, found 1$"):
        elmo.embed("b", raw=1)


@pytest.mark.parametrize("module, package", [("nltk.tokenize", "nltk"), ("nupunkt", "nupunkt")])
def test_without_a_package(module: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: one sentence that says what to install, always both packages."""
    monkeypatch.setitem(sys.modules, module, None)
    raw_text._tokenizer.cache_clear()
    expected = rf"^raw: expected the package {package}, found none; pip install nltk nupunkt$"
    with pytest.raises(InputError, match=expected):
        split_tokens("a")
