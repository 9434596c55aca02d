"""
The sizes of a biLM, under the names that bilm-tf's options files and our configs share:

    lstm      {dim, projection_dim, n_layers, cell_clip, proj_clip, use_skip_connections}
    char_cnn  {embedding: {dim}, filters, n_highway, activation, max_characters_per_token}

A block may also say `n_characters`; it is checked where it is read. A bound, `n_highway` and
`use_skip_connections` may be null, which is as if they were left out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

import torch

from elmo_plugin.data.characters import (
    BEGIN_TOKEN,
    DEFAULT_MAX_CHARACTERS,
    END_TOKEN,
    NUM_CHARACTERS,
    words_to_characters,
)
from elmo_plugin.modules import BiLM, BiLSTM, CharCNN, WordEmbedding
from elmo_plugin.modules.char_cnn import ACTIVATIONS

# bilm-tf reads them with `.get(key)` and asks whether what it got is true.
NULL_IS_ABSENT = ("cell_clip", "n_highway", "proj_clip", "use_skip_connections")

MOST = 2**31 - 1
"""No size is larger, so that the product of any few of them can be computed and shown."""

MOST_CHARACTERS = 10_000
"""The most for `max_characters_per_token`, which is the one size that no weight has."""


class OptionsError(ValueError):
    """Something is wrong with a biLM's options; the message names the file or block and the key."""


@dataclass(frozen=True, kw_only=True)
class CharCNNOptions:
    """See `CharCNN`; `max_characters_per_token` is C, a word's two marks included."""

    embedding_dim: int
    filters: tuple[tuple[int, int], ...]
    n_highway: int
    activation: str
    max_characters_per_token: int

    @property
    def n_filters(self) -> int:
        """F, the sum of all convolutions' filters."""
        return sum(number for _, number in self.filters)

    def n_parameters(self, projection_dim: int) -> int:
        """The number of parameters of the CNN, which ends in P = `projection_dim` numbers."""
        n, f = NUM_CHARACTERS * self.embedding_dim, self.n_filters
        n += sum((width * self.embedding_dim + 1) * number for width, number in self.filters)
        n += self.n_highway * 2 * (f + 1) * f
        return n if f == projection_dim else n + (f + 1) * projection_dim


@dataclass(frozen=True, kw_only=True)
class LSTMOptions:
    """See `BiLSTM`."""

    dim: int
    projection_dim: int
    n_layers: int
    cell_clip: float | None
    proj_clip: float | None
    use_skip_connections: bool

    @property
    def n_parameters(self) -> int:
        """The number of parameters of all layers in both directions."""
        n = (2 * self.projection_dim + 1) * 4 * self.dim
        n += 0 if self.projection_dim == self.dim else self.dim * self.projection_dim
        return self.n_layers * 2 * n


@dataclass(frozen=True, kw_only=True)
class BiLMOptions:
    """A biLM reads characters (`char_cnn`) or else words out of a table of `n_words`."""

    lstm: LSTMOptions
    char_cnn: CharCNNOptions | None
    n_words: int | None = None

    @property
    def n_parameters(self) -> int:
        """The number of parameters, without a softmax."""
        size = self.lstm.projection_dim
        if self.char_cnn is not None:
            return self.lstm.n_parameters + self.char_cnn.n_parameters(size)
        assert self.n_words is not None
        return self.lstm.n_parameters + (self.n_words + 1) * size

    @classmethod
    def from_blocks(
        cls,
        lstm: Mapping[str, Any],
        char_cnn: Mapping[str, Any] | None,
        n_words: int | None = None,
        *,
        source: str,
    ) -> BiLMOptions:
        """
        From the two blocks above, as they stand in `source` (a file's path, or "the config").
        Without `char_cnn`, `n_words` is the number of words.

        # Raises

        `OptionsError`
            For a key that is missing, unknown, or of the wrong kind.
        """
        read = _Block(lstm, source, "lstm")
        lstm_options = LSTMOptions(
            dim=read.count("dim"),
            projection_dim=read.count("projection_dim"),
            n_layers=read.count("n_layers", default=1),
            cell_clip=read.bound("cell_clip"),
            proj_clip=read.bound("proj_clip"),
            use_skip_connections=read.flag("use_skip_connections", default=False),
        )
        read.finish()
        if char_cnn is None:
            if n_words is None:
                raise OptionsError(f"{source}: expected a block char_cnn, found none")
            if not _is_count(n_words):
                raise OptionsError(
                    f"{source}: n_tokens_vocab: expected a whole number of at least 1, "
                    f"found {n_words!r}"
                )
            return cls(lstm=lstm_options, char_cnn=None, n_words=n_words)

        read = _Block(char_cnn, source, "char_cnn")
        embedding = _Block(read.take("embedding", dict), source, "char_cnn.embedding")
        char_cnn_options = CharCNNOptions(
            embedding_dim=embedding.count("dim"),
            filters=read.filters("filters"),
            n_highway=read.count("n_highway", default=0, least=0),
            activation=read.choice("activation", ACTIVATIONS, default="relu"),
            max_characters_per_token=read.count(
                "max_characters_per_token",
                default=DEFAULT_MAX_CHARACTERS,
                least=3,
                most=MOST_CHARACTERS,
            ),
        )
        embedding.finish()
        length = char_cnn_options.max_characters_per_token
        if max(width for width, _ in char_cnn_options.filters) > length:
            read.fail(
                "filters",
                f"no width beyond max_characters_per_token, which is {length}",
                char_cnn["filters"],
            )
        n_characters = read.count("n_characters", default=NUM_CHARACTERS)
        if n_characters not in (NUM_CHARACTERS - 1, NUM_CHARACTERS):
            read.fail(
                "n_characters",
                f"{NUM_CHARACTERS - 1} (training) or {NUM_CHARACTERS} (inference)",
                n_characters,
            )
        read.finish()
        return cls(lstm=lstm_options, char_cnn=char_cnn_options)


def build_bilm(options: BiLMOptions, *, dropout: float = 0.0) -> BiLM:
    """
    A biLM of these sizes with its initial, untrained weights.

    # Parameters

    options : `BiLMOptions`
    dropout : `float`
        See `BiLSTM`.

    # Raises

    `OptionsError`
        Where this machine has no memory for these sizes.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 4 * options.n_parameters > memory:
        raise _too_large(options, f"a machine with {memory / 2**30:,.1f} GiB in all")
    try:
        return _build(options, dropout)
    except (MemoryError, RuntimeError) as error:  # the second is what PyTorch's allocator raises
        raise _too_large(options, f"too little left ({error})") from error


def _too_large(options: BiLMOptions, found: str) -> OptionsError:
    gibibytes = 4 * options.n_parameters / 2**30
    return OptionsError(
        f"lstm and char_cnn: expected {gibibytes:,.1f} GiB of memory, as much as the weights of "
        f"these sizes take, found {found}"
    )


def _build(options: BiLMOptions, dropout: float) -> BiLM:
    lstm, char_cnn = options.lstm, options.char_cnn
    token_encoder: CharCNN | WordEmbedding
    if char_cnn is not None:
        token_encoder = CharCNN(
            n_characters=NUM_CHARACTERS,
            embedding_dim=char_cnn.embedding_dim,
            filters=char_cnn.filters,
            n_highway=char_cnn.n_highway,
            projection_dim=lstm.projection_dim,
            activation=char_cnn.activation,
        )
        boundaries = torch.from_numpy(
            words_to_characters([BEGIN_TOKEN, END_TOKEN], char_cnn.max_characters_per_token)
        ).long()
    else:
        assert options.n_words is not None
        token_encoder = WordEmbedding(
            n_words=options.n_words + 1, projection_dim=lstm.projection_dim
        )
        boundaries = torch.tensor([1, 2])  # <S> and </S> lead every vocabulary; 0 is "no word"
    bilstm = BiLSTM(
        n_layers=lstm.n_layers,
        input_dim=lstm.projection_dim,
        dim=lstm.dim,
        projection_dim=lstm.projection_dim,
        cell_clip=lstm.cell_clip,
        proj_clip=lstm.proj_clip,
        use_skip_connections=lstm.use_skip_connections,
        dropout=dropout,
    )
    return BiLM(token_encoder=token_encoder, bilstm=bilstm, boundaries=boundaries)


def options_of(bilm: BiLM) -> BiLMOptions:
    """The options that `build_bilm` makes such a biLM from."""
    encoder, bilstm = bilm.token_encoder, bilm.bilstm
    char_cnn, n_words = None, None
    if isinstance(encoder, CharCNN):
        char_cnn = CharCNNOptions(
            embedding_dim=encoder.char_embedding.embedding_dim,
            filters=tuple(
                (conv.kernel_size[0], conv.out_channels) for conv in encoder.convolutions
            ),
            n_highway=len(encoder.highways),
            activation=encoder.activation,
            max_characters_per_token=bilm.boundaries.size(1),
        )
    elif encoder.word_table is not None:
        n_words = encoder.n_ids - 1
    lstm = LSTMOptions(
        dim=bilstm.dim,
        projection_dim=bilstm.projection_dim,
        n_layers=bilstm.n_layers,
        cell_clip=bilstm.layers[0].cell_clip,
        proj_clip=bilstm.layers[0].proj_clip,
        use_skip_connections=bilstm.use_skip_connections,
    )
    return BiLMOptions(lstm=lstm, char_cnn=char_cnn, n_words=n_words)


def _is_count(value: Any) -> bool:
    return type(value) is int and 1 <= value <= MOST


class _Block:
    """Reads one block key by key, so that every message can name the key and what was expected."""

    def __init__(self, block: Mapping[str, Any], source: str, name: str) -> None:
        if not isinstance(block, Mapping):
            raise OptionsError(f"{source}: {name}: expected a block {{...}}, found {block!r}")
        self.block = {
            key: value
            for key, value in block.items()
            if value is not None or key not in NULL_IS_ABSENT
        }
        self.source = source
        self.name = name

    def fail(self, key: str, expected: str, found: Any) -> NoReturn:
        where = f"{self.source}: {self.name}.{key}"
        raise OptionsError(f"{where}: expected {expected}, found {found!r}")

    def take(self, key: str, kind: type, default: Any = None) -> Any:
        if key not in self.block:
            if default is None:
                raise OptionsError(f"{self.source}: {self.name}: missing key {key}")
            return default
        value = self.block.pop(key)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            self.fail(key, f"{kind.__name__}", value)
        return value

    def count(self, key: str, default: int | None = None, least: int = 1, most: int = MOST) -> int:
        value = self.take(key, int, default)
        if value < least:
            self.fail(key, f"a whole number of at least {least}", value)
        if value > most:
            self.fail(key, f"a whole number of at most {most}", value)
        return value

    def flag(self, key: str, default: bool) -> bool:
        return self.take(key, bool, default)

    def bound(self, key: str) -> float | None:
        """A positive number; absent, null or 0 mean that there is no bound, as in bilm-tf."""
        value = self.block.pop(key, 0)
        if type(value) not in (int, float) or not 0 <= value <= sys.float_info.max:
            self.fail(key, "a positive number or null", value)
        return float(value) or None

    def choice(self, key: str, choices: Mapping[str, Any], default: str) -> str:
        value = self.take(key, str, default)
        if value not in choices:
            self.fail(key, " or ".join(f'"{choice}"' for choice in choices), value)
        return value

    def filters(self, key: str) -> tuple[tuple[int, int], ...]:
        filters = self.take(key, list)
        for pair in filters:
            whole = isinstance(pair, (list, tuple)) and all(map(_is_count, pair))
            if not whole or len(pair) != 2:
                self.fail(key, "a list of [width, number] pairs", filters)
        if not filters:
            self.fail(key, "a list of [width, number] pairs", filters)
        return tuple((width, number) for width, number in filters)

    def finish(self) -> None:
        if self.block:
            raise OptionsError(
                f"{self.source}: {self.name}: unknown key{'s' * (len(self.block) > 1)} "
                + ", ".join(sorted(self.block))
            )
