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
        self.total += dist_reduce_sum(float(total))
        self.count += dist_reduce_sum(count)

    def get_metric(self, reset: bool = False) -> float:
        mean = self.total / self.count if self.count else math.nan
        if reset:
            self.reset()
        return mean

    def reset(self) -> None:
        self.total, self.count = 0.0, 0
