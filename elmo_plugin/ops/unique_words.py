import torch
from torch import Tensor


def unique_words(tokens: Tensor) -> tuple[Tensor, Tensor]:
    """
    Find the distinct words of a batch, in arbitrary order. Many times faster than `torch.unique`.

    `tokens`: character ids, shape `(B, T, C)`. Returns the distinct words, shape `(U, C)`, and each
    token's index among them, shape `(B, T)`.
    """
    n_rows, n_steps, n_characters = tokens.shape
    rows = tokens.reshape(-1, n_characters)
    # Sorting one number for each word is faster than sorting rows of characters.
    keys = (rows.long() * hash_weights(n_characters).to(tokens.device)).sum(dim=1)
    distinct, indices = torch.unique(keys, return_inverse=True)
    first = indices.new_full((len(distinct),), len(rows))
    first.scatter_reduce_(0, indices, torch.arange(len(rows), device=tokens.device), "amin")
    words = rows[first]
    if not torch.equal(words[indices], rows):  # two words have the same key
        words, indices = torch.unique(rows, dim=0, return_inverse=True)
    return words, indices.view(n_rows, n_steps)


def hash_weights(n: int) -> Tensor:
    """
    Fixed random 64-bit numbers. Sums of products with them overflow and wrap around, as in a hash.
    """
    generator = torch.Generator("cpu").manual_seed(n)
    return torch.randint(-(2**63), 2**63 - 1, (n,), generator=generator, device="cpu")
