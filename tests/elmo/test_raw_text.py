"""Raw text as tokens. Expected tokens are written by hand, as they are in the text of `small`."""

import sys

import numpy as np
import pytest

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.elmo import raw_text
from elmo_plugin.elmo.raw_text import split_tokens

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
    "": "",
    " \n": "",
}


@pytest.mark.parametrize("text", SENTENCES)
def test_tokens(text: str) -> None:
    """Each token's span has its characters, except for quotes, which become straight; and a word is
    what white space separates."""
    found = split_tokens(text)
    assert found.tokens == SENTENCES[text].split()
    for token, (start, end), word in zip(*found, strict=True):
        own = text[start:end].translate(raw_text.STRAIGHT)
        assert own == token or (own in ("``", "''") and token == '"')
        assert text.split()[word].translate(raw_text.STRAIGHT).count(own) >= 1
        assert not text[start:end].isspace()


def test_any_text_has_all_its_characters(fuzz) -> None:
    """Property: the spans are in order and cover everything except white space."""
    characters = "ab.,'\"`’”&-$% \n()[]!?0:;…n't"
    for random in fuzz.cases(300):
        text = "".join(random.choices(characters, k=random.randrange(30)))
        found = split_tokens(text)
        places = [k for start, end in found.spans for k in range(start, end)]
        assert places == [k for k, c in enumerate(text) if not c.isspace()], repr(text)


def test_embed_and_score() -> None:
    """Expected: vectors and scores of the tokens, and the words to add them up over."""
    text, tokens = "It isn't easy.", "It is n't easy ."
    elmo = Elmo.from_pretrained("tiny")
    np.testing.assert_array_equal(elmo.embed(text, raw=True), elmo.embed(tokens))
    [found] = elmo.embed([text], raw=True)
    np.testing.assert_array_equal(found, elmo.embed(tokens))
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


def test_without_nltk(monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: one sentence that says what to install."""
    monkeypatch.setitem(sys.modules, "nltk.tokenize", None)
    raw_text._tokenizer.cache_clear()
    with pytest.raises(InputError, match=r"^raw: expected the package nltk.*; pip install nltk$"):
        split_tokens("a")
