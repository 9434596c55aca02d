"""The forms in which a user gives words."""

from pathlib import Path

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.corpora.word_list import word_forms
from tests.conftest import write_file


def test_words(tmp_path: Path) -> None:
    """By hand."""
    (tmp_path / "words").write_text("dog\tdog dogs\n\n  play\ncaf\u00e9\n")
    expected = {"dog": "dog", "dogs": "dog", "play": "play", "caf\u00e9": "caf\u00e9"}
    assert word_forms(tmp_path / "words") == expected
    (tmp_path / "words").write_text("dog \t dog dogs\nplay \ncaf\u00e9\t caf\u00e9\r\n")
    assert word_forms(tmp_path / "words") == expected
    (tmp_path / "words").write_text("ICE \tice cream \t ices\n")
    assert word_forms(tmp_path / "words") == {"ice cream": "ICE", "ices": "ICE"}
    (tmp_path / "words").write_text("ICE\tice cream\t\n")
    assert word_forms(tmp_path / "words") == {"ice cream": "ICE"}
    forms = {"dog": ["dog", "dogs"], "play": "play", "caf\u00e9": ("caf\u00e9",)}
    assert word_forms(forms) == expected
    with pytest.raises(InputError, match=r"WORDS\.CSV: expected a text, .* tabs before its forms"):
        word_forms(write_file(tmp_path / "WORDS.CSV", "word,form\ndog,dogs\n"))


@pytest.mark.parametrize("form", ["1912", "0.43", "1,912", "-1.5e-05", ".5", "0"])
def test_a_list_of_frequencies(tmp_path: Path, form: str) -> None:
    """By definition: a number in a column of its own is a frequency or a score, as in lists of
    shared tasks. With others between spaces, or in a dictionary, it is a form."""
    words = tmp_path / "words"
    for line in (f"engine\t{form}", f"engine\tNN\t{form}"):
        words.write_text(f"dog\tdog dogs\n\n{line}\n")
        with pytest.raises(InputError, match=rf"words, line 3: .* of engine .*, found '{form}'$"):
            word_forms(words)
    words.write_text(f"four\tfour {form}\n{form}x\t. ,\n")
    assert word_forms(words) == {"four": "four", form: "four", ".": f"{form}x", ",": f"{form}x"}
    assert word_forms({"year": [form]}) == {form: "year"}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], r"^words: expected at least one word, found \[\]$"),
        (["ice  cream"], "^words: ice  cream: expected forms with single spaces .* 'ice  cream'$"),
        ([" ice"], "^words:  ice: expected forms with single spaces .* found ' ice'$"),
        (["a\tb"], "^words: a\tb: expected forms with single spaces .*, found 'a"),
        ([3], "^words: 3: expected forms with single spaces .*, found 3$"),
        ({"ice cream": "ice cream ices"}, "^words: ice cream: expected a list of its forms"),
        ({"a": ["x"], "b": ["x"]}, "^words: expected 'x' as a form of one word, found .*a, b"),
        (5, "^words: expected a list of words, a dictionary of their forms or a file, found 5$"),
        ({"a": None}, "^words: a: expected a list of its forms, or tabs .*, found null$"),
    ],
)
def test_wrong_words(words: object, message: str) -> None:
    with pytest.raises(InputError, match=message):
        word_forms(words)
