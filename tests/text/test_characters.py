import numpy as np
import pytest
import torch
from allennlp.data.token_indexers.elmo_indexer import ELMoCharacterMapper
from hypothesis import example, given
from hypothesis import strategies as st

from elmo_plugin.text.characters import (
    NO_TOKEN,
    NUM_CHARACTERS,
    bytes_to_characters,
    check_is_text,
    one_token,
    resize_characters,
    word_to_characters,
    words_to_characters,
)
from tests.conftest import Fuzz

ANY_TEXT = st.text(st.characters(exclude_categories=()), max_size=60)
ODD_WORDS = ["", "\0", "a\0b", "\ud800", "x\udfffy", "👩‍👩‍👧", "e\u0301", "ß" * 5000, "x" * 10_000]
ODD_WORDS += ["x" * 47, "x" * 48, "x" * 49, "<S>", "</S>", "<UNK>"]


@given(st.lists(ANY_TEXT | st.sampled_from(ODD_WORDS), max_size=8))
@example(ODD_WORDS)
def test_any_word_is_as_allennlp_maps_it(words: list[str]) -> None:
    """The oracle is AllenNLP's own mapper, of length 50. Lone surrogates are among the words."""
    mapper = ELMoCharacterMapper()
    expected = [mapper.convert_word_to_char_ids(word) for word in words]
    found = words_to_characters(words)
    assert found.dtype == np.int16
    assert found.shape == (len(words), 50)
    assert found.tolist() == expected
    assert [word_to_characters(word).tolist() for word in words] == expected


@pytest.mark.parametrize(
    "text, token",
    [("dog", "dog"), ("New York", "New_York"), ("1\u00a0000", "1_000"), ("\u3000", "_"), ("", "_")],
)
def test_one_token(text: str, token: str) -> None:
    """By definition: a token is not empty and has no whitespace."""
    assert one_token(text) == token
    assert one_token(f" {text}\n") == token


def test_words_of_a_short_length() -> None:
    """The expected ids are bilm-tf's numbers plus one, for bytes, the boundaries 256 and 257, the
    marks 258 and 259, and padding 260. With 5 characters a token, 3 bytes are kept."""
    rows = words_to_characters(["ab", "abcd", "é€", "<S>", "</S>"], 5)
    assert rows.tolist() == [
        [259, 98, 99, 260, 261],
        [259, 98, 99, 100, 260],
        [259, 0xC3 + 1, 0xA9 + 1, 0xE2 + 1, 260],
        [259, 257, 260, 261, 261],
        [259, 258, 260, 261, 261],
    ]


@given(ANY_TEXT, st.integers(3, 70))
def test_any_length_keeps_the_first_bytes(word: str, length: int) -> None:
    """By definition, a row has the bytes that fit between two marks, and then padding to the
    length."""
    if word in ("<S>", "</S>"):
        return
    expected = [259, *(byte + 1 for byte in word.encode("utf-8", "ignore")[: length - 2]), 260]
    expected += [261] * (length - len(expected))
    assert words_to_characters([word], length).tolist() == [expected]


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
        words = [*some, "<S>", "</S>"]
        found, wanted = random.randint(3, 30), random.randint(3, 30)
        tokens = torch.cat([rows_of(words, found), torch.zeros(1, found, dtype=torch.long)])
        if found < wanted and any(len(word.encode()) > found - 2 for word in words[:-2]):
            with pytest.raises(ValueError, match=rf"to {found - 2};.* to {wanted} or more"):
                resize_characters(tokens, wanted)
        elif found >= wanted or all(len(word.encode()) < found - 2 for word in words[:-2]):
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
