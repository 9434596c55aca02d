from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from elmo_plugin.modules.sampled_softmax import CHUNK_NUMBERS, IGNORE

SHRINKING = 4
"""Each cluster's vectors are this much shorter than those of the one before it."""


class AdaptiveSoftmax(nn.Module):
    """
    The language model's softmax over V words in two levels (Grave et al. 2017): a first one over
    the frequent words and the clusters of the others, a second one within each cluster, where
    vectors are shorter. It costs little because most words are frequent, and it is exact: training
    and evaluation give the same numbers. PyTorch's `AdaptiveLogSoftmaxWithLoss`, with a bias for
    the first level. Words must be numbered by falling frequency.

    # Parameters

    n_words : `int`
        V.
    dim : `int`
        P, the size of a hidden vector.
    cutoffs : `list[int]`
        How many words come before each cluster, in rising order.

    # Raises

    `ValueError`
        Where the cutoffs do not rise between 1 and V - 1, or are too many for P.
    """

    n_negative_samples = None

    def __init__(self, *, n_words: int, dim: int, cutoffs: list[int]) -> None:
        super().__init__()
        if not cutoffs or sorted({0, *cutoffs, n_words}) != [0, *cutoffs, n_words]:
            raise ValueError(
                "adaptive_cutoffs: expected one or more numbers, rising, at least 1 and less than "
                f"the {n_words} words of the vocabulary, found {cutoffs}"
            )
        if dim < SHRINKING ** len(cutoffs):
            raise ValueError(
                f"adaptive_cutoffs: expected so few that the last cluster's vectors, {dim} / "
                f"{SHRINKING}^n numbers, have one at least, found n = {len(cutoffs)}"
            )
        self.n_words = n_words
        self.largest_cluster = max(b - a for a, b in pairwise([0, *cutoffs, n_words]))
        self.levels = nn.AdaptiveLogSoftmaxWithLoss(
            dim, n_words, cutoffs, div_value=SHRINKING, head_bias=True
        )

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """
        # Parameters

        hidden : `Tensor`
            Shape `(..., P)`.
        targets : `Tensor`
            Shape `(...)`, word numbers; `IGNORE` where there is nothing to predict.

        # Returns

        `Tensor`
            The sum of the negative log likelihoods, a scalar.
        """
        return -self.log_probabilities(hidden, targets).sum()

    def log_probabilities(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The log probability of each target, 0 where it is `IGNORE`. Shapes as in `forward`;
        returns shape `(...)`, in the weights' type. Bounded memory: rows are taken a chunk at a
        time, and its logits are computed again for the gradient."""
        hidden = hidden.to(self.levels.head.weight.dtype)
        real = targets != IGNORE
        n_rows = max(1, CHUNK_NUMBERS // self.largest_cluster)
        chunks = [
            checkpoint(self._chunk, h, t, use_reentrant=False, preserve_rng_state=False)
            for h, t in zip(hidden[real].split(n_rows), targets[real].split(n_rows))
            if len(t)  # PyTorch's would take the mean of nothing
        ]
        found = hidden.new_zeros(targets.shape) + 0 * hidden.sum()
        return found.masked_scatter(real, torch.cat(chunks)) if chunks else found

    def _chunk(self, hidden: Tensor, targets: Tensor) -> Tensor:
        # PyTorch's puts its parts into the input's type, which autocast would make another.
        with torch.autocast(hidden.device.type, enabled=False):
            return self.levels(hidden, targets).output

    def logits(self, hidden: Tensor) -> Tensor:
        """`hidden`: shape `(..., P)`. Returns shape `(..., V)`: the log probabilities."""
        flat = self.levels.log_prob(hidden.reshape(-1, hidden.size(-1)))
        return flat.view(*hidden.shape[:-1], self.n_words)
