"""The vocabulary ids of a sentence's words, which a language model predicts."""

import torch
from allennlp.data import Field, Vocabulary

from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.plugin.data.vocabulary import word_ids
from elmo_plugin.text.corpus import UNKNOWN_TOKEN


class WordIdsField(Field[torch.Tensor]):
    """
    The ids of words in the namespace `words`. Unknown words become `<UNK>`, whatever the
    vocabulary's own OOV token is, which AllenNLP does not restore when it reads a vocabulary.

    The tensor is padded with -100. *Shape:* `(T,)` int64, `(B, T)` in a batch.

    # Parameters

    words : `List[str]`
        A sentence without boundaries.
    """

    __slots__ = ["_ids", "words"]

    def __init__(self, words: list[str]) -> None:
        self.words = words
        self._ids: list[int] | None = None

    def index(self, vocab: Vocabulary) -> None:
        ids = word_ids(vocab)
        unknown = ids[UNKNOWN_TOKEN]
        self._ids = [ids.get(word, unknown) for word in self.words]

    def get_padding_lengths(self) -> dict[str, int]:
        return {"num_tokens": len(self.words)}

    def as_tensor(self, padding_lengths: dict[str, int]) -> torch.Tensor:
        if self._ids is None:
            raise ValueError("WordIdsField: call index(vocab) before as_tensor")
        tensor = torch.full((padding_lengths["num_tokens"],), IGNORE)
        tensor[: len(self._ids)] = torch.tensor(self._ids)
        return tensor

    def empty_field(self) -> "WordIdsField":
        field = WordIdsField([])
        field._ids = []
        return field

    def human_readable_repr(self) -> list[str]:
        return self.words

    def __len__(self) -> int:
        return len(self.words)
