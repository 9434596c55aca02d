"""
A run that is resumed draws and discards the batches of completed epochs, so that the generator that
shuffles them is where it was. AllenNLP's trainer forgets the validation batches, which by default
are shuffled with the same generator, and so trains on in another order. Importing this draws them
too, if the epoch was validated: the trainer also forgets what `should_validate_callback` decided.
That callback decides about the next epoch before the trainer has written the `best.th` of this one,
so that another epoch's weights became the best. It now decides when an epoch begins. And a trainer
whose last epoch was not validated returned, evaluated and exported the last weights and not the
best; it now loads the best.

If training had ended, the trainer draws the batches of all epochs only to write the archive.
Importing this draws none of them.

In an epoch that is resumed from a checkpoint within it, the trainer adds up the losses since the
checkpoint and divides by all batches of the epoch, so that the progress bar shows contradictory
losses. Importing this divides by the batches since the checkpoint. The bar shows one loss,
`sampled_loss`, where a model has it.

The batches within that epoch that the trainer skips go by so quickly that tqdm, which by default
waits for a number of steps and not for a time, would not move the bar for as long as an hour
afterwards. Importing this makes all bars move every `mininterval` seconds.
"""

from contextlib import suppress
from functools import partial
from inspect import signature
from typing import Any
from unittest.mock import patch

import torch.distributed as dist
from allennlp.common import Tqdm
from allennlp.common.util import is_distributed
from allennlp.training import GradientDescentTrainer
from allennlp.training import util as training_util
from allennlp.training.callbacks import ShouldValidateCallback, TrainerCallback

_train_epoch = GradientDescentTrainer._train_epoch
_get_metrics = training_util.get_metrics
_description_from_metrics = training_util.description_from_metrics


def _train_resumed_epoch(self: GradientDescentTrainer, epoch: int) -> dict[str, float]:
    if self._start_after_epochs_completed >= self._num_epochs:
        return {}  # nothing is trained, so the order of the batches does not matter
    is_resumed = self._epochs_completed == self._start_after_epochs_completed
    skipped = self._start_after_batches_in_epoch_completed if is_resumed else 0
    n_processes = dist.get_world_size() if is_distributed() else 1
    for callback in self._callbacks:
        if isinstance(callback, ShouldValidateCallback):
            self._should_validate_this_epoch = callback._should_validate(epoch)

    def get_metrics(*args: Any, **kwargs: Any) -> dict[str, float]:
        given = signature(_get_metrics).bind(*args, **kwargs).arguments
        if given["model"].training:  # and not in a validation within the epoch
            # The end of the epoch has no batch_loss, and counts the batches of all processes.
            given["num_batches"] -= skipped * (
                1 if given["batch_loss"] is not None else n_processes
            )
        return _get_metrics(**given)

    with patch.object(training_util, "get_metrics", get_metrics):
        metrics = _train_epoch(self, epoch)
    is_skipped = self._epochs_completed < self._start_after_epochs_completed
    if is_skipped and self._should_validate_this_epoch:
        _draw_validation_batches(self)
    if not is_skipped and not self._should_validate_this_epoch:
        self._metric_tracker._is_best_so_far = False
    return metrics


def _draw_validation_batches(trainer: GradientDescentTrainer) -> None:
    loader = trainer._validation_data_loader
    if loader is None:
        return
    if trainer._primary:  # it shows a progress bar, and some samplers shuffle to know their length
        with suppress(TypeError):  # a loader that does not know it
            len(loader)
    for _ in loader:
        pass


def _description_with_one_loss(metrics: dict[str, Any]) -> str:
    others = {"loss", "batch_loss"} if "sampled_loss" in metrics else set()
    return _description_from_metrics({k: v for k, v in metrics.items() if k not in others})


ShouldValidateCallback.on_epoch = TrainerCallback.on_epoch  # type: ignore[method-assign]
GradientDescentTrainer._train_epoch = _train_resumed_epoch  # type: ignore[method-assign]
training_util.description_from_metrics = _description_with_one_loss
Tqdm.tqdm = staticmethod(partial(Tqdm.tqdm, miniters=1))  # type: ignore[method-assign]
