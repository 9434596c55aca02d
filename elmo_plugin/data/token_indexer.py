"""Tokens to the character ids of ELMo."""

from typing import Optional

import numpy as np
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Token, TokenIndexer, Vocabulary
from allennlp.data.token_indexers.token_indexer import IndexedTokenList

from elmo_plugin.data.characters import (
    DEFAULT_MAX_CHARACTERS,
    FIRST_BYTE,
    NO_TOKEN,
    NUM_CHARACTERS,
    check_max_characters,
    single_character,
    word_to_characters,
)


@TokenIndexer.register("elmo")
class ElmoTokenIndexer(TokenIndexer):
    """
    Tokens to character ids, under the key `elmo_tokens`. *Shape:* `(T, C)` int64, 0 where there is
    no token. With 50 characters a token these are the ids of AllenNLP's `elmo_characters`.

    Registered as a `TokenIndexer` with name "elmo".

    # Parameters

    namespace : `str`, optional (default=`"elmo_characters"`)
        Names the indexer; there is nothing to look up in a vocabulary.
    tokens_to_add : `Dict[str, int]`, optional
        Tokens that are one character of their own, and bilm-tf's number of that character; unused
        ones, such as 1 to 31, serve for models that are trained already.
    max_characters_per_token : `int`, optional (default=`50`)
        C: the model's own `max_characters_per_token`.
    token_min_padding_length : `int`, optional (default=`0`)
        See `TokenIndexer`.
    """

    def __init__(
        self,
        namespace: str = "elmo_characters",
        # AllenNLP hands a plain dictionary over for `Optional`, but not for `|`.
        tokens_to_add: Optional[dict[str, int]] = None,
        max_characters_per_token: int = DEFAULT_MAX_CHARACTERS,
        token_min_padding_length: int = 0,
    ) -> None:
        super().__init__(token_min_padding_length)
        try:
            check_max_characters(max_characters_per_token)
        except ValueError as error:
            raise ConfigurationError(f'token indexer of type "elmo": {error}') from error
        self._namespace = namespace
        self._tokens_to_add = tokens_to_add or {}
        self.max_characters_per_token = max_characters_per_token
        for token, character in self._tokens_to_add.items():
            if not 0 <= character < NUM_CHARACTERS - FIRST_BYTE:
                raise ConfigurationError(
                    f'token indexer of type "elmo", tokens_to_add, {token!r}: expected a number '
                    f"from 0 to {NUM_CHARACTERS - FIRST_BYTE - 1}, found {character}"
                )

    def count_vocab_items(self, token: Token, counter: dict[str, dict[str, int]]) -> None:
        pass

    def get_empty_token_list(self) -> IndexedTokenList:
        return {"elmo_tokens": []}

    def tokens_to_indices(self, tokens: list[Token], vocabulary: Vocabulary) -> IndexedTokenList:
        return {"elmo_tokens": [self._row(token.ensure_text()) for token in tokens]}

    def as_padded_tensor_dict(
        self, tokens: IndexedTokenList, padding_lengths: dict[str, int]
    ) -> dict[str, torch.Tensor]:
        length = padding_lengths["elmo_tokens"]
        rows = np.full((length, self.max_characters_per_token), NO_TOKEN, dtype=np.int64)
        if kept := tokens["elmo_tokens"][:length]:
            rows[: len(kept)] = np.stack(kept)
        return {"elmo_tokens": torch.from_numpy(rows)}

    def _row(self, word: str) -> np.ndarray:
        if word in self._tokens_to_add:
            character = self._tokens_to_add[word] + FIRST_BYTE
            return single_character(character, self.max_characters_per_token)
        return word_to_characters(word, self.max_characters_per_token)
