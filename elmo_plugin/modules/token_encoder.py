"""
The ways in which a biLM reads words: by the characters of their bytes (`CharCNN`), from a table of
words, or by their code points and a table. All take the character ids of words and return vectors,
and say what they read:

    max_characters  C, the number of character ids of a word, with its two marks, that show what its
                    vector depends on
    word_limit      the `WordLimit`, beyond which words are cut
    boundaries      the character ids of the tokens that begin and end a sentence, shape `(2, C)`
    check_spelled   raises an error for tokens that they cannot read
    has_lexicon     whether they look words or code points up

Below them are functions that prepare the words of a batch for an encoder.
"""

import sys

import torch
from torch import Tensor, nn

from elmo_plugin.modules.char_cnn import CharCNN, set_initial_values
from elmo_plugin.modules.lexicon import BOUNDARIES, CodePoints, WordList
from elmo_plugin.ops.linear import Linear, on_device
from elmo_plugin.options import BiLMOptions, WordOptions
from elmo_plugin.text.characters import (
    DEFAULT_MAX_CHARACTERS,
    NUM_CHARACTERS,
    UNKNOWN_TOKEN,
    WordLimit,
    boundary_characters,
    check_is_text,
    word_bytes,
)

FEWEST_WORDS = 8
"""
Minimum batch size of an encoder in words. Matrix products of fewer rows round differently on CPUs,
and a word's vector must not depend on which words were cached.
"""

UNKNOWN_OF_LEXICON = "<oov>"
"""The unknown word of a model that reads code points."""


def token_encoder(options: BiLMOptions) -> nn.Module:
    """The untrained token encoder of these options."""
    dim, char_cnn, words = options.lstm.projection_dim, options.char_cnn, options.words
    if char_cnn is None:
        assert words is not None
        return WordTable(words, unknown=UNKNOWN_TOKEN, projection_dim=dim)
    if options.reads_code_points:
        return CodePointEncoder(options)
    return CharCNN(n_characters=NUM_CHARACTERS, projection_dim=dim, **char_cnn.sizes())


class LexiconEncoder(nn.Module):
    """An encoder that looks words or code points up, and so reads only what a text can contain."""

    has_lexicon = True

    def check_spelled(self, tokens: Tensor) -> None:
        """Raise an `InputError` if a token is a character that no text has."""
        check_is_text(tokens)


class WordTable(LexiconEncoder):
    """
    A word's vector is a row of a table, the alternative of Peters et al. (2018), section 3.1.

    # Parameters

    options : `WordOptions`
        V and the size of a row.
    unknown : `str`
        The word whose row unknown words get.
    projection_dim : `int`
        P, the size of a word's vector. If rows have this size there is no projection.
    """

    word_limit = WordLimit(sys.maxsize)  # words that are longer than all of the table are unknown

    def __init__(self, options: WordOptions, *, unknown: str, projection_dim: int) -> None:
        super().__init__()
        self.words = WordList(n_words=options.n_words, n_bytes=options.n_bytes, unknown=unknown)
        self.embedding = nn.Embedding(options.n_words, options.dim)
        is_projected = options.dim != projection_dim
        self.projection = Linear(options.dim, projection_dim) if is_projected else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set initial values: those of the table are bilm-tf's, by TensorFlow's default."""
        nn.init.xavier_uniform_(self.embedding.weight)
        if self.projection is not None:
            set_initial_values(self.projection)

    @property
    def max_characters(self) -> int:
        return self.words.longest + 3  # one byte more than its longest word

    @property
    def boundaries(self) -> Tensor:
        return boundary_characters(DEFAULT_MAX_CHARACTERS)

    def forward(self, words: Tensor) -> Tensor:
        """
        Vectors of shape `(U, P)`. `words`: character ids, shape `(U, C)`, or numbers of words,
        shape `(U,)`.
        """
        if words.dim() > 1:
            words = self.words(word_bytes(words, words.size(1)))
        x = self.embedding(on_device(words, self.embedding.weight.device))
        return x if self.projection is None else self.projection(x)


class CodePointEncoder(LexiconEncoder):
    """
    A character CNN over the code points of a lexicon and, if there are `words`, a table of words,
    whose outputs are joined and projected, as in ELMoForManyLangs (Che et al. 2018).
    """

    def __init__(self, options: BiLMOptions) -> None:
        super().__init__()
        char_cnn, words, dim = options.char_cnn, options.words, options.lstm.projection_dim
        assert char_cnn is not None and char_cnn.n_code_points is not None
        self.code_points = CodePoints(
            n_code_points=char_cnn.n_code_points,
            max_characters_per_token=char_cnn.max_characters_per_token,
        )
        n_characters, n_filters = char_cnn.n_code_points + 1, char_cnn.n_filters
        self.characters = CharCNN(
            n_characters=n_characters, projection_dim=n_filters, **char_cnn.sizes()
        )
        self.table = None
        if words is not None:
            self.table = WordTable(words, unknown=UNKNOWN_OF_LEXICON, projection_dim=words.dim)
        joined = n_filters + (0 if words is None else words.dim)
        self.projection = Linear(joined, dim)

    @property
    def max_characters(self) -> int:
        return self.code_points.most_bytes + 3

    @property
    def word_limit(self) -> WordLimit:
        return WordLimit(self.code_points.max_characters_per_token - 2, in_bytes=False)

    @property
    def boundaries(self) -> Tensor:
        return boundary_characters(self.characters.max_characters, BOUNDARIES)

    def forward(self, words: Tensor) -> Tensor:
        """Vectors of shape `(U, P)`. `words`: character ids of bytes, shape `(U, C)`."""
        spelled = self.code_points.spelled(words)
        x = self.characters(self.code_points(spelled))
        if self.table is not None:
            numbers = on_device(self.table.words(spelled), x.device)
            x = torch.cat([self.table.embedding(numbers), x], dim=1)
        return self.projection(x)


def unique_words(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """
    Find the distinct words of a batch, in arbitrary order. Many times faster than `torch.unique`.

    `tokens`: character ids, shape `(B, T, C)`. Returns the distinct words, shape `(U, C)`, and each
    token's index among them, shape `(B, T)`.
    """
    n_rows, n_steps, n_characters = tokens.shape
    rows = tokens.reshape(-1, n_characters)
    # Sorting one number for each word is faster than sorting rows of characters.
    keys = (rows.long() * hash_weights(n_characters).to(tokens.device)).sum(dim=1)
    distinct, indices = torch.unique(keys, return_inverse=True)
    first = indices.new_full((len(distinct),), len(rows))
    first.scatter_reduce_(0, indices, torch.arange(len(rows), device=tokens.device), "amin")
    words = rows[first]
    if not torch.equal(words[indices], rows):  # two words have the same key
        words, indices = torch.unique(rows, dim=0, return_inverse=True)
    return words, indices.view(n_rows, n_steps)


def hash_weights(n: int) -> Tensor:
    """
    Fixed random 64-bit numbers. Sums of products with them overflow and wrap around, as in a hash.
    """
    generator = torch.Generator("cpu").manual_seed(n)
    return torch.randint(-(2**63), 2**63 - 1, (n,), generator=generator, device="cpu")


def rounded_up(n_words: int) -> int:
    """
    The batch size in which an encoder reads so many words: one of 16 for each power of two. oneDNN
    compiles a product for each number of rows that it has not seen, which takes 0.8 MB, and caches
    1,024 of them.
    """
    step = max(FEWEST_WORDS, 1 << max(0, n_words.bit_length() - 5))
    return -(-n_words // step) * step


def filled(words: Tensor, n_words: int | None = None) -> Tensor:
    """A batch of `n_words`, by default `rounded_up`, in which `words` are repeated."""
    n_words = n_words or rounded_up(len(words))
    if n_words == len(words):
        return words
    return torch.cat([words] * -(-n_words // len(words)))[:n_words]
