from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

Convolutions = Sequence[tuple[Tensor, Tensor]]
"""Weight of shape `(n, c, w)` and bias of shape `(n,)` of each convolution, as in `Conv1d`."""


def reference_max_of_convolutions(
    characters: Tensor, embedding: Tensor, convolutions: Convolutions
) -> Tensor:
    """The definition of `max_of_convolutions`."""
    x = F.embedding(characters, embedding, padding_idx=0).transpose(1, 2)  # (U, c, C)
    return torch.cat([F.conv1d(x, *convolution).amax(dim=2) for convolution in convolutions], 1)
