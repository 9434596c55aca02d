import math

import torch
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric


class TokenAverage(Metric):
    """
    The mean over all tokens of a data set and all processes of a distributed run. Each token has
    the same weight, regardless of batch sizes.
    """

    def __init__(self) -> None:
        self.reset()

    def __call__(self, total: torch.Tensor, count: int) -> None:  # type: ignore[override]
        """Add a batch. `total`: the sum over `count` tokens, a scalar."""
        # Both are exchanged together in float64, which represents token counts exactly.
        pair = torch.tensor([float(total), count], dtype=torch.float64)
        total_of_all, count_of_all = dist_reduce_sum(pair).tolist()
        self.total += total_of_all
        self.count += int(count_of_all)

    def get_metric(self, reset: bool = False) -> float:
        mean = self.total / self.count if self.count else math.nan
        if reset:
            self.reset()
        return mean

    def reset(self) -> None:
        self.total, self.count = 0.0, 0
