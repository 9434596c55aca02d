"""
Patches for AllenNLP's trainer, so that a run that is resumed from a checkpoint ends as one that
was not interrupted. Importing this module applies them.

- The trainer draws and discards the batches of completed epochs, so that the generator that
  shuffles them is where it was. It forgets the validation batches, which by default are shuffled
  with the same generator, and so trains on in another order. Here they are drawn too, if the epoch
  was validated. If training had ended, no batch is drawn, because none is trained.
- `should_validate_callback` decides about the next epoch before the trainer has written the
  `best.th` of this one, so that another epoch's weights became the best. Here it decides when an
  epoch begins. A trainer whose last epoch was not validated returned, evaluated and exported the
  last weights and not the best; it now loads the best.
- In an epoch that is resumed from a checkpoint within it, the trainer adds up the losses since the
  checkpoint and divides by all batches of the epoch. Here it divides by those since the checkpoint.
- Checkpoints lack the metrics of the last epoch. A run that was recovered with nothing left to
  train has only those of the best epoch in its `metrics.json`, and an epoch that
  `should_validate_callback` does not validate lacks those of the last validation. Here they are
  saved in each checkpoint.
- `trainer: {…}` without `+`, in a config that imports another one, replaces the optimizer, the
  schedule and the checkpoints of a biLM by AllenNLP's defaults. Here a message is logged.
- The batches that the trainer skips go by so quickly that tqdm, which by default waits for a number
  of steps and not for a time, would not move the bar for as long as an hour afterwards. Here all
  bars move every `mininterval` seconds.
"""

import json
import logging
import os
from contextlib import suppress
from functools import partial
from inspect import signature
from typing import Any
from unittest.mock import patch

from allennlp.common import Tqdm
from allennlp.common.util import dump_metrics
from allennlp.data import DataLoader
from allennlp.training import Checkpointer, GradientDescentTrainer
from allennlp.training import util as training_util
from allennlp.training.callbacks import ShouldValidateCallback, TrainerCallback

from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.training.checkpointer import BiLMCheckpointer

logger = logging.getLogger(__name__)

_train_epoch = GradientDescentTrainer._train_epoch
_maybe_restore_checkpoint = GradientDescentTrainer._maybe_restore_checkpoint
_try_train = GradientDescentTrainer._try_train
_get_metrics = training_util.get_metrics


def _train_resumed_epoch(self: GradientDescentTrainer, epoch: int) -> dict[str, float]:
    start = self._start_after_epochs_completed
    if start >= self._num_epochs:
        return {}  # nothing is trained, so the order of the batches does not matter
    for callback in self._callbacks:
        if isinstance(callback, ShouldValidateCallback):
            self._should_validate_this_epoch = callback._should_validate(epoch)
    n_before = self._start_after_batches_in_epoch_completed if epoch == start else 0
    get_metrics = partial(_metrics_since, n_before, self._world_size)
    with patch.object(training_util, "get_metrics", get_metrics):
        metrics = _train_epoch(self, epoch)  # before the checkpoint, this only draws the batches
    if epoch < start:
        if self._should_validate_this_epoch and self._validation_data_loader is not None:
            _draw_validation_batches(self, self._validation_data_loader)
    elif not self._should_validate_this_epoch:
        self._metric_tracker._is_best_so_far = False
    return metrics


def _draw_validation_batches(trainer: GradientDescentTrainer, loader: DataLoader) -> None:
    if trainer._primary:  # it shows a progress bar, and some samplers shuffle to know their length
        with suppress(TypeError):  # a loader that does not know it
            len(loader)
    for _ in loader:
        pass


def _metrics_since(n_before: int, n_processes: int, *args: Any, **kwargs: Any) -> dict[str, float]:
    """
    `get_metrics`, whose mean losses leave out the `n_before` batches that each process trained on
    in the epoch before the checkpoint.
    """
    given = signature(_get_metrics).bind(*args, **kwargs).arguments
    if given["model"].training:  # and not in a validation within the epoch
        # The end of the epoch has no batch_loss, and counts the batches of all processes.
        given["num_batches"] -= n_before * (n_processes if given["batch_loss"] is None else 1)
    return _get_metrics(**given)


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
    is_default = self._learning_rate_scheduler is None and type(self._checkpointer) is Checkpointer
    if is_default and isinstance(self.data_loader, BiLMDataLoader):
        logger.warning(
            "trainer: expected a learning_rate_scheduler or the checkpointer bilm, found neither; "
            "trainer+: { … }, with +, keeps those of an imported config, and its optimizer"
        )
    # The last one, which writes what the others have added.
    self._callbacks = [*self._callbacks, _LastMetrics(self._serialization_dir)]  # type: ignore[has-type]
    _maybe_restore_checkpoint(self)
    if isinstance(self._checkpointer, BiLMCheckpointer):
        self._checkpointer.check_texts(self)  # also if nothing is left to train


def _try_train_with_metrics(self: GradientDescentTrainer) -> tuple[dict[str, Any], int]:
    metrics, epoch = _try_train(self)
    last = self._callbacks[-1]
    assert isinstance(last, _LastMetrics)
    if "epoch" in metrics or not last.metrics:
        return metrics, epoch
    self._total_batches_completed = last.n_batches  # no epoch was trained, and no batch drawn
    return last.metrics, last.metrics["epoch"]


ShouldValidateCallback.on_epoch = TrainerCallback.on_epoch  # type: ignore[method-assign]
GradientDescentTrainer._train_epoch = _train_resumed_epoch  # type: ignore[method-assign]
GradientDescentTrainer._maybe_restore_checkpoint = _restore_with_metrics  # type: ignore[method-assign]
GradientDescentTrainer._try_train = _try_train_with_metrics  # type: ignore[method-assign]
Tqdm.tqdm = staticmethod(partial(Tqdm.tqdm, miniters=1))  # type: ignore[method-assign]
