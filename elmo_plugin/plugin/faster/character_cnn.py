"""
AllenNLP's token embedder `character_encoding` computes the vector of each word of a batch, and of
the padding, with all its occurrences. With the encoder `cnn`, equal words have equal vectors.

On a CPU, this module computes the vector of each distinct word once (`python -m
benchmarks.task_modules`). An encoder with dropout has another vector for each occurrence, so others
than `cnn` stay as they are.
"""

from allennlp.modules.seq2vec_encoders import CnnEncoder
from allennlp.modules.token_embedders import TokenCharactersEncoder
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.modules.token_encoder import unique_words

allennlp_forward = TokenCharactersEncoder.forward


def forward(embedder: TokenCharactersEncoder, token_characters: Tensor) -> Tensor:
    """
    `token_characters`: character ids, shape `(B, T, C)`. Returns what AllenNLP's `forward` returns,
    the vectors of the words, shape `(B, T, D)`.
    """
    is_cnn = type(embedder._encoder._module) is CnnEncoder
    if not is_cnn or token_characters.device.type != "cpu":
        return allennlp_forward(embedder, token_characters)
    words, indices = unique_words(token_characters)  # (U, C), (B, T)
    words = words.unsqueeze(0)
    vectors = embedder._encoder(embedder._embedding(words), (words != 0).long()).squeeze(0)
    return embedder._dropout(F.embedding(indices, vectors))


def apply() -> None:
    TokenCharactersEncoder.forward = forward  # type: ignore[assignment, method-assign]
