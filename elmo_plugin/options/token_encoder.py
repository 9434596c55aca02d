from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

from torch import Tensor

from elmo_plugin.modules import BiLM
from elmo_plugin.modules.token_encoder import TokenEncoder


class TokenEncoderOptions(ABC):
    """The options of a token encoder: what differs between one architecture and another."""

    key: ClassVar[str]
    """The key of an options file that holds them."""
    module: ClassVar[type[TokenEncoder]]
    """The class that `build` makes."""

    @classmethod
    @abstractmethod
    def from_json(cls, value: Any) -> Self:
        """Reads the value of `key`, and raises a `InputError` if it is wrong."""

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

    @property
    def id_shape(self) -> tuple[int, ...]:
        """The shape of a token's ids: `(C,)` for C characters, `()` for a word's number."""
        return tuple(self.boundaries().shape[1:])

    @property
    def reads_characters(self) -> bool:
        """Whether a token is written in ids of characters, not in the number of its word."""
        return bool(self.id_shape)

    @property
    def n_layers(self) -> int:
        """The number of layers that have weights of their own."""
        return 1

    def missing_for_allennlp(self, projection_dim: int) -> list[str]:
        """The properties that AllenNLP's own ELMo needs and this encoder does not have."""
        return ["char_cnn, the only token encoder that it knows"]

    def with_vocabulary(self, n_words: int) -> Self:
        """The options of the same encoder for a vocabulary of `n_words`."""
        return self
