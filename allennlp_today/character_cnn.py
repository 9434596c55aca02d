"""
AllenNLP's token embedder `character_encoding` computes the vector of each word of a batch, and of
the padding, with all its occurrences. With the encoder `cnn`, equal words have equal vectors.

On a CPU, this module computes the vector of each distinct word once (`python -m
benchmarks.task_modules`). An encoder with dropout has another vector for each occurrence, so others
than `cnn` stay as they are.
"""

import torch
from allennlp.modules.seq2vec_encoders import CnnEncoder
from allennlp.modules.token_embedders import TokenCharactersEncoder
from torch import Tensor
from torch.nn import functional as F

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


def unique_words(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """
    Find the distinct words of a batch, in arbitrary order. Many times faster than `torch.unique`.

    `tokens`: character ids, shape `(B, T, C)`. Returns the distinct words, shape `(U, C)`, and each
    token's index among them, shape `(B, T)`.
    """
    n_rows, n_steps, n_characters = tokens.shape
    rows = tokens.reshape(-1, n_characters)
    # A fixed random number for each column. Sums of products with them wrap around, as in a hash.
    generator = torch.Generator().manual_seed(n_characters)
    factors = torch.randint(-(2**63), 2**63 - 1, (n_characters,), generator=generator)
    # Sorting one number for each word is faster than sorting rows of characters.
    keys, indices = torch.unique((rows * factors).sum(dim=1), return_inverse=True)
    first = indices.new_full((len(keys),), len(rows))
    first.scatter_reduce_(0, indices, torch.arange(len(rows)), "amin")
    words = rows[first]
    if not torch.equal(words[indices], rows):  # two words have the same key
        words, indices = torch.unique(rows, dim=0, return_inverse=True)
    return words, indices.view(n_rows, n_steps)


def apply() -> None:
    TokenCharactersEncoder.forward = forward  # type: ignore[assignment, method-assign]
