"""Converts tokens to ELMo's character ids."""

from array import array
from typing import Optional

import numpy as np
import torch
from allennlp.data import Token, TokenIndexer, Vocabulary
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer
from allennlp.data.token_indexers.token_indexer import IndexedTokenList

from elmo_plugin.checks import check_count
from elmo_plugin.text.advice import OF_PROCESS
from elmo_plugin.text.characters import (
    DEFAULT_MAX_CHARACTERS,
    FIRST_BYTE,
    NO_TOKEN,
    NUM_CHARACTERS,
    WordLimit,
    check_max_characters,
    one_token,
    single_character,
    word_to_characters,
)

NAME = 'token indexer of type "elmo"'


@TokenIndexer.register("elmo")
class ElmoTokenIndexer(ELMoTokenCharactersIndexer):
    """
    Converts tokens to character ids, shape `(T, C)`, int64, 0 at padding, under the key
    `elmo_tokens`. With 50 characters per token the ids are those of AllenNLP's `elmo_characters`,
    which this class extends because AllenNLP's HotFlip requires it, except that a space inside a
    token is read as an underscore, as everywhere here (`text.characters.one_token`).

    Registered as a `TokenIndexer` with name "elmo".

    # Parameters

    namespace : `str`, optional (default = `"elmo_characters"`)
        As in AllenNLP; it has no effect, because no vocabulary is used.
    tokens_to_add : `Dict[str, int]`, optional
        Tokens to represent by a single character, and its id in bilm-tf, from -1 (which has no
        weights) to 260. For a trained model, use ids of unused characters, such as 1 to 31.
    max_characters_per_token : `int`, optional (default = `50`)
        C, the model's `max_characters_per_token`.
    token_min_padding_length : `int`, optional (default = `0`)
        See `TokenIndexer`.
    """

    def __init__(
        self,
        namespace: str = "elmo_characters",
        # AllenNLP passes a plain dictionary for `Optional`, but not for `|`.
        tokens_to_add: Optional[dict[str, int]] = None,
        max_characters_per_token: int = DEFAULT_MAX_CHARACTERS,
        token_min_padding_length: int = 0,
    ) -> None:
        length = check_max_characters(f"{NAME}: max_characters_per_token", max_characters_per_token)
        limits = {"least": NO_TOKEN - FIRST_BYTE, "most": NUM_CHARACTERS - FIRST_BYTE - 1}
        tokens_to_add = {
            token: check_count(f"{NAME}: tokens_to_add, {token!r}", character, **limits)
            for token, character in (tokens_to_add or {}).items()
        }
        super().__init__(namespace, tokens_to_add, token_min_padding_length)
        self.max_characters_per_token = length
        self._added = {
            one_token(token): array("h", single_character(character + FIRST_BYTE, length))
            for token, character in tokens_to_add.items()
        }

    def tokens_to_indices(self, tokens: list[Token], vocabulary: Vocabulary) -> IndexedTokenList:
        length, words = self.max_characters_per_token, [one_token(x.ensure_text()) for x in tokens]
        OF_PROCESS.of_cut_words(words, len(words), WordLimit(length - 2))
        OF_PROCESS.of_characters([words], self._added.__contains__)
        OF_PROCESS.say()
        return {"elmo_tokens": [self._added.get(w) or word_to_characters(w, length) for w in words]}

    def as_padded_tensor_dict(
        self, tokens: IndexedTokenList, padding_lengths: dict[str, int]
    ) -> dict[str, torch.Tensor]:
        length = padding_lengths["elmo_tokens"]
        rows = np.full((length, self.max_characters_per_token), NO_TOKEN, dtype=np.int64)
        kept = np.frombuffer(b"".join(tokens["elmo_tokens"][:length]), dtype=np.int16)
        rows.reshape(-1)[: len(kept)] = kept
        return {"elmo_tokens": torch.from_numpy(rows)}
