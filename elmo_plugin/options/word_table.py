from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import torch
from torch import Tensor

from elmo_plugin.checks import check_count
from elmo_plugin.modules import BiLM, WordEmbedding
from elmo_plugin.options.token_encoder import TokenEncoderOptions


@dataclass(frozen=True, kw_only=True)
class WordTableOptions(TokenEncoderOptions):
    """The options of `WordEmbedding`: the number of words, without "no word"."""

    key: ClassVar[str] = "n_tokens_vocab"
    module: ClassVar[type[WordEmbedding]] = WordEmbedding

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
