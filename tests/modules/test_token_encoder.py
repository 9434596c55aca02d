"""How words are told apart, found in a table and read as code points, compared with Python."""

from random import Random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from elmo_plugin.modules import token_encoder
from elmo_plugin.modules.lexicon import CodePoints, WordList
from elmo_plugin.modules.token_encoder import filled, rounded_up, unique_words
from elmo_plugin.options import word_text
from elmo_plugin.text.characters import word_bytes, words_to_characters
from tests.conftest import Fuzz
from tests.oracle import characters

ALPHABET = "ab\x00é語🙂\u3000"


def rows_of(words: list[str], length: int) -> Tensor:
    return torch.from_numpy(words_to_characters(words, length)).long()


def test_few_batch_sizes() -> None:
    """By definition: 16 sizes for each power of two from 128 on, at least 8, and at most a
    sixteenth or 7 more than the words, which are repeated."""
    sizes = {n: rounded_up(n) for n in range(1, 4097)}
    assert all(n <= size <= max(n + 7, n * 17 / 16) for n, size in sizes.items())
    assert len(set(sizes.values())) == 16 + 5 * 16
    assert filled(torch.tensor([4, 5, 6]), rounded_up(3)).tolist() == [4, 5, 6, 4, 5, 6, 4, 5]


def random_words(random: Random, n_words: int, longest: int) -> list[str]:
    return ["".join(random.choices(ALPHABET, k=random.randint(0, longest))) for _ in range(n_words)]


def list_of(words: list[str]) -> WordList:
    found = WordList(n_words=len(words), n_bytes=len(word_text(words)), unknown="<UNK>")
    found.fill(words)
    return found


def test_words_are_found_by_their_bytes(fuzz: Fuzz) -> None:
    """The oracle is a dictionary, in which the last of equal words counts."""
    for random in fuzz.cases(20):
        words = ["<S>", "</S>", "<UNK>", *random_words(random, 40, 3)]
        random.shuffle(words)
        numbers = {word: number for number, word in enumerate(words)}
        wanted = [*words, *random_words(random, 40, 4)]
        table, length = list_of(words), random.randint(20, 40)
        found = table(word_bytes(rows_of(wanted, length), length))
        assert found.tolist() == [numbers.get(word, numbers["<UNK>"]) for word in wanted]
        assert table.words() == words


def test_a_long_word() -> None:
    """By hand: it is found as others are, and a longer one is unknown. Of equal words, the last
    counts."""
    words = ["<UNK>", *map(str, range(500)), *[""] * 500, "x" * 999]
    wanted = ["17", "x" * 999, "y", "x" * 1000, ""]
    found = list_of(words)(word_bytes(rows_of(wanted, 1010), 1000))
    assert found.tolist() == [18, 1001, 0, 0, 1000]


def test_a_table_without_its_words() -> None:
    """By hand: the text has another number of words, or not the one for unknown words."""
    with pytest.raises(ValueError, match="expected the word <UNK> in the list, found none"):
        list_of(["a", "b"])
    table = list_of(["<UNK>", "a"])
    table.text[1] = ord("\n")
    with pytest.raises(ValueError, match="the text of 2 words, found 3"):
        table.load_state_dict(table.state_dict())


def test_code_points(fuzz: Fuzz) -> None:
    """The oracle is Python's own decoding. The two marks of a word are swapped, and `<bos>` is one
    character, as ELMoForManyLangs has them."""
    marks = {"<bow>": 3, "<eow>": 1, "<bos>": 4, "<eos>": 2, "<oov>": 0, "<pad>": 6}
    lexicon = {"a": 5, "é": 7, "語": 8, "🙂": 9, "\u3000": 10, "<": 11}
    for random in fuzz.cases(20):
        size = random.randint(8, 12)
        codes = CodePoints(n_code_points=12, max_characters_per_token=size)
        for character, number in lexicon.items():
            codes.code_points[number] = ord(character)
        order = ("<eow>", "<bow>", "<bos>", "<eos>", "<oov>", "<pad>")
        codes.marks.copy_(torch.tensor([marks[mark] for mark in order]))
        words = ["<bos>", "<eos>", "<bos", "<bos>a", *random_words(random, 20, 14)]
        expected = []
        for word in words:
            inside = [lexicon.get(character, marks["<oov>"]) for character in word[: size - 2]]
            if word in ("<bos>", "<eos>"):
                inside = [marks[word]]
            row = [marks["<eow>"], *inside, marks["<bow>"], *[marks["<pad>"]] * size]
            expected.append([number + 1 for number in row[:size]])
        found = codes(codes.spelled(rows_of(words, 80)))
        assert found.tolist() == expected


TOKEN = st.sampled_from(["a", "b", "ab", "ba", "", "the", "🙂", "aaaaaaaa", "\0"])


@settings(deadline=None)
@given(st.lists(st.lists(TOKEN, min_size=3, max_size=3), min_size=1, max_size=5), st.booleans())
def test_each_word_once_and_every_token_found(rows, as_int16):
    """The words, looked up by the tokens' indices, are the tokens, and their number is that of the
    different strings."""
    dtype = torch.int16 if as_int16 else torch.long
    tokens = torch.tensor([[characters(word, 10) for word in row] for row in rows], dtype=dtype)
    words, indices = unique_words(tokens)
    assert words.dtype == dtype and indices.shape == tokens.shape[:2]
    assert torch.equal(words[indices], tokens)
    assert len(words) == len({word for row in rows for word in row})


def test_words_with_one_key_stay_apart(monkeypatch):
    """Words whose keys are equal (here all keys are) are still distinguished."""
    monkeypatch.setattr(token_encoder, "hash_weights", lambda n: torch.zeros(n, dtype=torch.long))
    tokens = torch.tensor([[[1, 2], [3, 4]], [[1, 2], [1, 4]]])
    words, indices = unique_words(tokens)
    assert torch.equal(words[indices], tokens)
    assert len(words) == 3
