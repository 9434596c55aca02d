import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

from elmo_plugin.checks import InputError
from elmo_plugin.modules import BiLM
from elmo_plugin.options.blocks import flatten, read_block
from elmo_plugin.options.char_cnn import CharCNNOptions
from elmo_plugin.options.lstm import LSTMOptions
from elmo_plugin.options.token_encoder import TokenEncoderOptions
from elmo_plugin.options.word_table import WordTableOptions

TOKEN_ENCODERS: dict[str, type[TokenEncoderOptions]] = {
    options.key: options for options in (CharCNNOptions, WordTableOptions)
}
"""The options of every token encoder by their key. If several keys are there, the first counts."""


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
            The block `lstm` and that of a token encoder. A block that is null counts as none, and
            other keys are ignored.
        source : `str`
            The name of the options in error messages: a file's path, or `"model"`.

        # Raises

        `InputError`
            If a key is missing or unknown, or has a value of the wrong type or range.
        """
        keys = [key for key in TOKEN_ENCODERS if options.get(key) is not None]
        if not keys:
            raise InputError(f"{source}: expected {' or '.join(TOKEN_ENCODERS)}, found none")
        try:
            return cls(
                lstm=read_block(LSTMOptions, options.get("lstm"), "lstm"),
                token_encoder=TOKEN_ENCODERS[keys[0]].from_json(options[keys[0]]),
            )
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """The contents of an options file for inference, from which `from_dict` reads the same."""
        lstm = dict(sorted(asdict(self.lstm).items()))
        return {"lstm": lstm, self.token_encoder.key: self.token_encoder.to_json()}

    def with_vocabulary(self, n_words: int) -> Self:
        """The options of the same architecture for a vocabulary of `n_words`."""
        return replace(self, token_encoder=self.token_encoder.with_vocabulary(n_words))

    def difference(self, other: Self) -> tuple[str, Any, Any] | None:
        """The first key whose values differ, the value here and that of `other`."""
        ours, theirs = flatten(self.to_dict()), flatten(other.to_dict())
        for key in ours | theirs:
            if ours.get(key) != theirs.get(key):
                return key, ours.get(key), theirs.get(key)
        return None

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

    `InputError`
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


def _too_large(options: BiLMOptions, found: str) -> InputError:
    return InputError(
        f"lstm and {options.token_encoder.key}: expected {4 * options.n_parameters / 2**30:,.1f} "
        f"GiB of memory for weights of these sizes, found {found}"
    )
