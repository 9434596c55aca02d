"""
AllenNLP's trainer does not save the metrics of the epochs. A run that is recovered after its last
epoch has nothing left to train, so that its `metrics.json` had those of the best epoch alone; and
in a resumed run, an epoch that `should_validate_callback` does not validate lacked those of the
last validation, which it has in a run that was not interrupted. Importing this saves the metrics of
the last epoch in each checkpoint.
"""

import json
import os
from typing import Any

from allennlp.common.util import dump_metrics
from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import TrainerCallback

_maybe_restore_checkpoint = GradientDescentTrainer._maybe_restore_checkpoint
_try_train = GradientDescentTrainer._try_train


class _LastMetrics(TrainerCallback):
    """
    Keeps the metrics of the last epoch, because checkpoints contain the states of callbacks, and
    writes those that callbacks have added.
    """

    def __init__(self, serialization_dir: str) -> None:
        super().__init__(serialization_dir)
        self.metrics: dict[str, Any] = {}
        self.n_batches = 0

    def on_epoch(
        self, trainer: Any, metrics: Any, epoch: int, is_primary: bool = True, **_: Any
    ) -> None:
        for key, value in self.metrics.items():
            # Each epoch has its own metrics of training; a resumed one may have none.
            if not key.startswith("training_"):
                metrics.setdefault(key, value)
        if is_primary and self.serialization_dir:
            # The trainer has written it before this and other callbacks added to it.
            name = f"metrics_epoch_{epoch}.json"
            dump_metrics(os.path.join(self.serialization_dir, name), metrics)
        self.metrics, self.n_batches = metrics, trainer._total_batches_completed

    def state_dict(self) -> dict[str, Any]:
        # As JSON, because loading NumPy's numbers would execute code.
        return {"metrics": json.dumps(self.metrics), "n_batches": self.n_batches}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.metrics = json.loads(state_dict["metrics"])
        self.n_batches = state_dict["n_batches"]


def _restore_with_metrics(self: GradientDescentTrainer) -> None:
    # The last one, so that checkpoints without its state are still read.
    self._callbacks = [*self._callbacks, _LastMetrics(self._serialization_dir)]  # type: ignore[has-type]
    _maybe_restore_checkpoint(self)


def _try_train_with_metrics(self: GradientDescentTrainer) -> tuple[dict[str, Any], int]:
    metrics, epoch = _try_train(self)
    last = self._callbacks[-1]
    assert isinstance(last, _LastMetrics)
    if "epoch" in metrics or not last.metrics:
        return metrics, epoch
    self._total_batches_completed = last.n_batches  # no epoch was trained, and no batch drawn
    return last.metrics, last.metrics["epoch"]


GradientDescentTrainer._maybe_restore_checkpoint = _restore_with_metrics  # type: ignore[method-assign]
GradientDescentTrainer._try_train = _try_train_with_metrics  # type: ignore[method-assign]
