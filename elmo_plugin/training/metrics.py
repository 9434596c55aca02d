import math

import torch
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric


class TokenAverage(Metric):
    """
    The mean of a sum over tokens, each token of a data set weighing the same however the batches
    fall, and over all processes of a distributed run.
    """

    def __init__(self) -> None:
        self.total = 0.0
        self.count = 0

    def __call__(self, total: torch.Tensor, count: int) -> None:  # type: ignore[override]
        """`total`: the sum over `count` tokens, a scalar."""
        # One exchange for both, in numbers that hold counts of tokens exactly.
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
