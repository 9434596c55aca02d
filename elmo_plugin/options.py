"""
The options of a biLM, under the keys that bilm-tf's options files and our configs share:

    lstm            {dim, projection_dim, n_layers, cell_clip, proj_clip, use_skip_connections}
    char_cnn        {embedding: {dim}, filters, n_highway, activation, max_characters_per_token}
    n_tokens_vocab  the number of words of a word table, which is built if there is no char_cnn

Each block has a dataclass whose fields are the block's keys and which checks its values. The block
of a token encoder is found by its key in `TOKEN_ENCODERS`.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import InitVar, asdict, dataclass, replace
from inspect import signature
from typing import Any, ClassVar, Self, TypeVar

import torch
from torch import Tensor

from elmo_plugin.checks import ParameterError, check_choice, check_count, check_flag, check_number
from elmo_plugin.checks import fail as _fail
from elmo_plugin.data.characters import (
    BEGIN_TOKEN,
    DEFAULT_MAX_CHARACTERS,
    END_TOKEN,
    NUM_CHARACTERS,
    check_max_characters,
    words_to_characters,
)
from elmo_plugin.modules import BiLM, BiLSTM, CharCNN, WordEmbedding
from elmo_plugin.modules.char_cnn import ACTIVATIONS
from elmo_plugin.modules.token_encoder import TokenEncoder

NULL_IS_ABSENT = ("n_highway", "use_skip_connections")
"""bilm-tf reads these with `.get(key)` and tests the result for truth."""

Options = TypeVar("Options")


class OptionsError(ParameterError):
    """A biLM's options are wrong. The message names the file or the config, and the key."""


@dataclass(frozen=True, kw_only=True)
class LSTMOptions:
    """The block `lstm`; see `BiLSTM`. A clip of 0 is none, as in bilm-tf."""

    dim: int
    projection_dim: int
    n_layers: int = 1
    cell_clip: float | None = None
    proj_clip: float | None = None
    use_skip_connections: bool = False

    def __post_init__(self) -> None:
        for key in ("dim", "projection_dim", "n_layers"):
            check_count(f"lstm.{key}", getattr(self, key))
        for key in ("cell_clip", "proj_clip"):
            clip = getattr(self, key)
            if clip is not None:
                check_number(f"lstm.{key}", clip, least=0)
                object.__setattr__(self, key, float(clip) or None)
        check_flag("lstm.use_skip_connections", self.use_skip_connections)

    @classmethod
    def of(cls, bilstm: BiLSTM) -> Self:
        return cls(
            dim=bilstm.dim,
            projection_dim=bilstm.projection_dim,
            n_layers=bilstm.n_layers,
            cell_clip=bilstm.layers[0].cell_clip,
            proj_clip=bilstm.layers[0].proj_clip,
            use_skip_connections=bilstm.use_skip_connections,
        )

    def build(self, dropout: float) -> BiLSTM:
        return BiLSTM(input_dim=self.projection_dim, dropout=dropout, **asdict(self))

    @property
    def n_parameters(self) -> int:
        """The number of parameters of all layers in both directions."""
        n = (2 * self.projection_dim + 1) * 4 * self.dim
        n += 0 if self.projection_dim == self.dim else self.dim * self.projection_dim
        return self.n_layers * 2 * n


class TokenEncoderOptions(ABC):
    """The options of a token encoder: what differs between one architecture and another."""

    key: ClassVar[str]
    """The key of an options file that holds them."""
    module: ClassVar[type[TokenEncoder]]
    """The class that `build` makes."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: Any) -> Self:
        """Reads the value of `key`, and raises a `ParameterError` if it is wrong."""

    @abstractmethod
    def to_json(self) -> Any:
        """The value of `key` in an options file for inference."""

    @classmethod
    @abstractmethod
    def of(cls, bilm: BiLM) -> Self:
        """The options from which the token encoder of `bilm` was built."""

    @abstractmethod
    def build(self, projection_dim: int) -> TokenEncoder:
        """The token encoder, with its initial weights."""

    @abstractmethod
    def boundaries(self) -> Tensor:
        """The ids of `<S>` and `</S>`; see `BiLM`."""

    @abstractmethod
    def n_parameters(self, projection_dim: int) -> int:
        """The number of parameters of the token encoder."""

    def with_vocabulary(self, n_words: int) -> Self:
        """The options of the same encoder for a vocabulary of `n_words`."""
        return self


@dataclass(frozen=True)
class CharEmbeddingOptions:
    dim: int

    def __post_init__(self) -> None:
        check_count("char_cnn.embedding.dim", self.dim)


@dataclass(frozen=True, kw_only=True)
class CharCNNOptions(TokenEncoderOptions):
    """
    The block `char_cnn`; see `CharCNN`. `max_characters_per_token` counts the two marks of a word.
    An options file says in `n_characters` whether it was written for training or for inference,
    which makes no difference here.
    """

    key: ClassVar[str] = "char_cnn"
    module: ClassVar[type[TokenEncoder]] = CharCNN

    embedding: CharEmbeddingOptions
    filters: tuple[tuple[int, int], ...]
    n_highway: int = 0
    activation: str = "relu"
    max_characters_per_token: int = DEFAULT_MAX_CHARACTERS
    n_characters: InitVar[int] = NUM_CHARACTERS

    def __post_init__(self, n_characters: int) -> None:
        check_count("char_cnn.n_highway", self.n_highway, least=0)
        check_choice("char_cnn.activation", self.activation, ACTIVATIONS)
        length = self.max_characters_per_token
        check_max_characters("char_cnn.max_characters_per_token", length)
        check_choice("char_cnn.n_characters", n_characters, (NUM_CHARACTERS - 1, NUM_CHARACTERS))
        filters = self.filters
        if not isinstance(filters, list | tuple) or not filters:
            _fail("char_cnn.filters", "a list of [width, number] pairs", filters)
        for pair in filters:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                _fail("char_cnn.filters", "a list of [width, number] pairs", filters)
            check_count("char_cnn.filters: width", pair[0], most=length)
            check_count("char_cnn.filters: number", pair[1])
        object.__setattr__(self, "filters", tuple(map(tuple, filters)))

    @classmethod
    def from_json(cls, value: Any) -> Self:
        if isinstance(value, Mapping) and "embedding" in value:
            embedding = _read(CharEmbeddingOptions, value["embedding"], "char_cnn.embedding")
            value = {**value, "embedding": embedding}
        return _read(cls, value, cls.key)

    def to_json(self) -> dict[str, Any]:
        filters = [list(pair) for pair in self.filters]
        block = asdict(self) | {"filters": filters, "n_characters": NUM_CHARACTERS}
        return dict(sorted(block.items()))

    @classmethod
    def of(cls, bilm: BiLM) -> Self:
        encoder = bilm.token_encoder
        assert isinstance(encoder, CharCNN)
        return cls(
            embedding=CharEmbeddingOptions(encoder.char_embedding.embedding_dim),
            filters=tuple(
                (conv.kernel_size[0], conv.out_channels) for conv in encoder.convolutions
            ),
            n_highway=len(encoder.highways),
            activation=encoder.activation,
            max_characters_per_token=bilm.boundaries.size(1),
        )

    def build(self, projection_dim: int) -> CharCNN:
        return CharCNN(
            n_characters=NUM_CHARACTERS,
            embedding_dim=self.embedding.dim,
            filters=self.filters,
            n_highway=self.n_highway,
            projection_dim=projection_dim,
            activation=self.activation,
        )

    def boundaries(self) -> Tensor:
        characters = words_to_characters([BEGIN_TOKEN, END_TOKEN], self.max_characters_per_token)
        return torch.from_numpy(characters).long()

    @property
    def n_filters(self) -> int:
        """F, the number of filters of all convolutions."""
        return sum(number for _, number in self.filters)

    def n_parameters(self, projection_dim: int) -> int:
        c, f = self.embedding.dim, self.n_filters
        n = NUM_CHARACTERS * c + sum((width * c + 1) * number for width, number in self.filters)
        n += self.n_highway * 2 * (f + 1) * f
        return n if f == projection_dim else n + (f + 1) * projection_dim


@dataclass(frozen=True, kw_only=True)
class WordTableOptions(TokenEncoderOptions):
    """The options of `WordEmbedding`: the number of words, without "no word"."""

    key: ClassVar[str] = "n_tokens_vocab"
    module: ClassVar[type[TokenEncoder]] = WordEmbedding

    n_words: int

    def __post_init__(self) -> None:
        check_count(self.key, self.n_words)

    @classmethod
    def from_json(cls, value: Any) -> Self:
        return cls(n_words=value)

    def to_json(self) -> int:
        return self.n_words

    @classmethod
    def of(cls, bilm: BiLM) -> Self:
        return cls(n_words=bilm.n_ids - 1)

    def build(self, projection_dim: int) -> WordEmbedding:
        return WordEmbedding(n_words=self.n_words + 1, projection_dim=projection_dim)

    def boundaries(self) -> Tensor:
        return torch.tensor([1, 2])  # <S> and </S> lead every vocabulary; 0 is "no word"

    def n_parameters(self, projection_dim: int) -> int:
        return (self.n_words + 1) * projection_dim

    def with_vocabulary(self, n_words: int) -> Self:
        return replace(self, n_words=n_words)


TOKEN_ENCODERS: dict[str, type[TokenEncoderOptions]] = {
    options.key: options for options in (CharCNNOptions, WordTableOptions)
}
"""The options of every token encoder by their key. The first key that is there counts."""


@dataclass(frozen=True, kw_only=True)
class BiLMOptions:
    """The options of a biLM: those of its token encoder and those of the LSTMs above it."""

    lstm: LSTMOptions
    token_encoder: TokenEncoderOptions

    @classmethod
    def from_dict(cls, options: Mapping[str, Any], *, source: str) -> Self:
        """
        # Parameters

        options : `Mapping[str, Any]`
            The block `lstm` and that of a token encoder. Null is as good as no block, and other
            keys are ignored.
        source : `str`
            The name of the options in error messages: a file's path, or `"model"`.

        # Raises

        `OptionsError`
            If a key is missing or unknown, or has a value of the wrong type or range.
        """
        keys = [key for key in TOKEN_ENCODERS if options.get(key) is not None]
        if not keys:
            raise OptionsError(f"{source}: expected {' or '.join(TOKEN_ENCODERS)}, found none")
        try:
            return cls(
                lstm=_read(LSTMOptions, options.get("lstm"), "lstm"),
                token_encoder=TOKEN_ENCODERS[keys[0]].from_json(options[keys[0]]),
            )
        except ParameterError as error:
            raise OptionsError(f"{source}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """The contents of an options file for inference, from which `from_dict` reads the same."""
        lstm = dict(sorted(asdict(self.lstm).items()))
        return {"lstm": lstm, self.token_encoder.key: self.token_encoder.to_json()}

    def with_vocabulary(self, n_words: int) -> Self:
        """The options of the same architecture for a vocabulary of `n_words`."""
        return replace(self, token_encoder=self.token_encoder.with_vocabulary(n_words))

    def difference(self, other: Self) -> tuple[str, Any, Any] | None:
        """The first key whose values differ, the value here and that of `other`."""
        ours, theirs = _flat(self.to_dict()), _flat(other.to_dict())
        for key in ours | theirs:
            if ours.get(key) != theirs.get(key):
                return key, ours.get(key), theirs.get(key)
        return None

    @property
    def char_cnn(self) -> CharCNNOptions | None:
        encoder = self.token_encoder
        return encoder if isinstance(encoder, CharCNNOptions) else None

    @property
    def n_parameters(self) -> int:
        """The number of parameters, without a softmax."""
        size = self.lstm.projection_dim
        return self.lstm.n_parameters + self.token_encoder.n_parameters(size)


def build_bilm(options: BiLMOptions, *, dropout: float = 0.0) -> BiLM:
    """
    Builds a biLM with its initial, untrained weights.

    # Parameters

    options : `BiLMOptions`
    dropout : `float`, optional (default=`0.0`)
        See `BiLSTM`.

    # Raises

    `OptionsError`
        If this machine has too little memory for the weights.
    """
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if 4 * options.n_parameters > memory:
        raise _too_large(options, f"a machine with {memory / 2**30:,.1f} GiB in all")
    try:
        return BiLM(
            token_encoder=options.token_encoder.build(options.lstm.projection_dim),
            bilstm=options.lstm.build(dropout),
            boundaries=options.token_encoder.boundaries(),
        )
    except (MemoryError, RuntimeError) as error:  # PyTorch's allocator raises the second
        raise _too_large(options, f"too little left ({error})") from error


def options_of(bilm: BiLM) -> BiLMOptions:
    """The options from which `build_bilm` makes such a biLM."""
    encoder = type(bilm.token_encoder)
    options = next(each for each in TOKEN_ENCODERS.values() if each.module is encoder)
    return BiLMOptions(lstm=LSTMOptions.of(bilm.bilstm), token_encoder=options.of(bilm))


def _too_large(options: BiLMOptions, found: str) -> OptionsError:
    return OptionsError(
        f"lstm and {options.token_encoder.key}: expected {4 * options.n_parameters / 2**30:,.1f} "
        f"GiB of memory for weights of these sizes, found {found}"
    )


def _read(options: type[Options], block: Any, name: str) -> Options:
    """Makes a dataclass from the block `name`, whose keys are its fields."""
    if not isinstance(block, Mapping):
        _fail(name, "a block {...}", block)
    block = {k: v for k, v in block.items() if v is not None or k not in NULL_IS_ABSENT}
    fields = signature(options).parameters
    for key, field in fields.items():
        if key not in block and field.default is field.empty:
            raise ParameterError(f"{name}: missing key {key}")
    if unknown := sorted(block.keys() - fields.keys()):
        plural = "s" * (len(unknown) > 1)
        raise ParameterError(f"{name}: unknown key{plural} {', '.join(unknown)}")
    return options(**block)


def _flat(block: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a nested block under keys such as `lstm.dim`."""
    flat: dict[str, Any] = {}
    for key, value in block.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
