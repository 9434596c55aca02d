from collections.abc import Mapping
from dataclasses import InitVar, asdict, dataclass
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from elmo_plugin.checks import check_choice, check_count, fail
from elmo_plugin.modules import BiLM, CharCNN
from elmo_plugin.modules.char_cnn import ACTIVATIONS
from elmo_plugin.options.blocks import read_block
from elmo_plugin.options.token_encoder import TokenEncoderOptions
from elmo_plugin.text.characters import (
    BEGIN_TOKEN,
    DEFAULT_MAX_CHARACTERS,
    END_TOKEN,
    NUM_CHARACTERS,
    check_max_characters,
    words_to_characters,
)


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
    module: ClassVar[type[CharCNN]] = CharCNN

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
            fail("char_cnn.filters", "a list of [width, number] pairs", filters)
        for pair in filters:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                fail("char_cnn.filters", "a list of [width, number] pairs", filters)
            check_count("char_cnn.filters: width", pair[0], most=length)
            check_count("char_cnn.filters: number", pair[1])
        object.__setattr__(self, "filters", tuple(map(tuple, filters)))

    @classmethod
    def from_json(cls, value: Any) -> Self:
        if isinstance(value, Mapping) and "embedding" in value:
            embedding = read_block(CharEmbeddingOptions, value["embedding"], "char_cnn.embedding")
            value = {**value, "embedding": embedding}
        return read_block(cls, value, cls.key)

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

    @property
    def n_layers(self) -> int:
        return 1 + len(self.filters) + self.n_highway

    def missing_for_allennlp(self, projection_dim: int) -> list[str]:
        reasons = []
        if projection_dim == self.n_filters:
            reasons.append("an lstm.projection_dim other than the number of filters")
        if self.max_characters_per_token != DEFAULT_MAX_CHARACTERS:
            reasons.append(f"a char_cnn.max_characters_per_token of {DEFAULT_MAX_CHARACTERS}")
        return reasons

    def n_parameters(self, projection_dim: int) -> int:
        c, f = self.embedding.dim, self.n_filters
        n = NUM_CHARACTERS * c + sum((width * c + 1) * number for width, number in self.filters)
        n += self.n_highway * 2 * (f + 1) * f
        return n if f == projection_dim else n + (f + 1) * projection_dim
