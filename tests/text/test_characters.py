import numpy as np
import pytest
import torch
from allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper
from hypothesis import example, given
from hypothesis import strategies as st

from elmo_plugin.text.characters import (
    NO_TOKEN,
    NUM_CHARACTERS,
    WordLimit,
    bytes_to_characters,
    check_is_text,
    long_words,
    one_token,
    resize_characters,
    word_bytes,
    word_to_characters,
    words_to_characters,
)
from tests.conftest import Fuzz

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
ODD_WORDS = ["", "\0", "a\0b", "\ud800", "x\udfffy", "👩‍👩‍👧", "e\u0301", "ß" * 5000, "x" * 10_000]
ODD_WORDS += ["x" * 47, "x" * 48, "x" * 49, "<S>", "</S>", "<UNK>"]


@given(st.lists(ANY_TEXT | st.sampled_from(ODD_WORDS), max_size=8), st.integers(3, 70))
@example(ODD_WORDS, 5)
def test_any_word_is_as_allennlp_maps_it(words: list[str], length: int) -> None:
    """The oracle is AllenNLP's own mapper, of length 50. Lone surrogates are among the words. By
    definition, a row of another length has the bytes that fit between two marks, then padding: the
    numbers are bilm-tf's plus one, which are bytes, 256 and 257 for the boundaries of a sentence,
    258 and 259 for the marks, and 260."""
    mapper = ELMoCharacterMapper()
    expected = [mapper.convert_word_to_char_ids(word) for word in words]
    found = words_to_characters(words)
    assert found.dtype == np.int16
    assert found.shape == (len(words), 50)
    assert found.tolist() == expected
    assert [word_to_characters(word).tolist() for word in words] == expected
    for word, row in zip(words, words_to_characters(words, length).tolist()):
        inside = {"<S>": [256], "</S>": [257]}.get(word, [*word.encode("utf-8", "ignore")])
        expected_row = [259, *(number + 1 for number in inside[: length - 2]), 260]
        assert row == expected_row + [261] * (length - len(expected_row))


@pytest.mark.parametrize(
    "text, token",
    [("dog", "dog"), ("New York", "New_York"), ("1\u00a0000", "1_000"), ("\u3000", "_"), ("", "_")],
)
def test_one_token(text: str, token: str) -> None:
    """By definition: a token is not empty and has no whitespace."""
    assert one_token(text) == token
    assert one_token(f" {text}\n") == token


def test_bytes_that_overlap_and_are_empty() -> None:
    """The expected rows are those of the words in the slices of a text."""
    text = np.frombuffer(b"abcdef", dtype=np.uint8)
    rows = bytes_to_characters(text, np.array([0, 2, 6, 1]), np.array([3, 4, 0, 2]), 6)
    assert rows.tolist() == words_to_characters(["abc", "cdef", "", "bc"], 6).tolist()


def test_every_id_is_in_the_table() -> None:
    """Every byte, boundary, mark and padding occurs, and the largest id is the table's last."""
    rows = bytes_to_characters(
        np.arange(256, dtype=np.uint8), np.array([0]), np.array([256]), max_characters_per_token=259
    )
    boundaries = words_to_characters(["<S>", "</S>"], 4)
    found = {NO_TOKEN, *rows.flatten().tolist(), *boundaries.flatten().tolist()}
    assert found == set(range(NUM_CHARACTERS))


def test_a_cached_word_cannot_be_changed() -> None:
    """Callers do not share the row of a word, so writing into one does not change the others."""
    word_to_characters("shared")[0] = 1
    assert word_to_characters("shared").tolist() == words_to_characters(["shared"])[0].tolist()


ALPHABET = "ab\x00é語🙂\u3000"


def rows_of(words: list[str], length: int) -> torch.Tensor:
    return torch.from_numpy(words_to_characters(words, length)).long()


def test_characters_are_resized(fuzz: Fuzz) -> None:
    """A property: characters of one length that are resized to another are those that are made for
    it, unless they were cut before."""
    for random in fuzz.cases(20):
        some = ["".join(random.choices(ALPHABET, k=random.randint(0, 6))) for _ in range(5)]
        words, longest = [*some, "<S>", "</S>"], max(len(word.encode()) for word in some)
        found, wanted = random.randint(3, 30), random.randint(3, 30)
        tokens = torch.cat([rows_of(words, found), torch.zeros(1, found, dtype=torch.long)])
        if found < wanted and longest > found - 2:
            with pytest.raises(ValueError, match=rf"to {found - 2};.* to {wanted} or more"):
                resize_characters(tokens, wanted)
        elif found >= wanted or longest < found - 2:
            assert torch.equal(resize_characters(tokens, wanted)[:-1], rows_of(words, wanted))
            assert not resize_characters(tokens, wanted)[-1].any()


@pytest.mark.parametrize("character", [0, 31, 128, 255])
def test_a_token_that_is_no_text(character: int) -> None:
    """By hand: `tokens_to_add` makes tokens of one character that a byte CNN can learn."""
    tokens = rows_of(["a", "é", "<S>", " "], 10)
    check_is_text(tokens)
    tokens[1, 1:3] = torch.tensor([character + 1, 260])
    with pytest.raises(ValueError, match=f"single character {character}; remove tokens_to_add"):
        check_is_text(tokens)


def test_the_bytes_of_words() -> None:
    """The expected bytes are those of Python's encoder, of which ten characters have eight. The
    words that may be cut are those with as many bytes as the limit, if there may be more."""
    words = ["dog", "dogs", "do", "é語", "<S>", "</S>", "x" * 20]
    for n in (2, 8, 12):
        found = word_bytes(rows_of(words, 10), n).tolist()
        expected = [list(word.encode()[: min(n, 8)]) for word in words]
        assert found == [row + [-1] * (n - len(row)) for row in expected]
    assert long_words(rows_of(words, 10), WordLimit(3)) == ["dog", "dogs", "é語", "x" * 8]
    assert long_words(rows_of(words, 5), WordLimit(3)) == []
