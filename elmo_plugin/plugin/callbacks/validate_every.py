import logging
import math
import os
from typing import Any, Optional

from allennlp.data import DataLoader
from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import ShouldValidateCallback, TrainerCallback
from allennlp.training.metric_tracker import MetricTracker

from allennlp_today.distributed import validate
from elmo_plugin.checks import InputError, check_number, fail, optional_count
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.torch_file import save_torch_file
from elmo_plugin.plugin.callbacks.learning_curve import LearningCurveCallback
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.plugin.training.checkpoint_files import Point
from elmo_plugin.plugin.training.checkpointer import BiLMCheckpointer
from elmo_plugin.plugin.training.interval_clock import IntervalClock

logger = logging.getLogger(__name__)

NAME = 'callback of type "validate_every"'


@TrainerCallback.register("validate_every")
class ValidateEveryCallback(TrainerCallback):
    """
    Validates a `bilm` within an epoch too, and not only at its end. If a result is the best so far,
    by the trainer's `validation_metric`, the weights become `best.th`, which the archive gets. The
    metric `best_validation_batch` is the number of batches trained by then. The callback
    `learning_curve` draws each result. The weights that are trained do not change.

    With `num_batches`, a recovered run ends with the same `best.th` as one that was not stopped;
    with `num_seconds`, the checkpointer `bilm` saves a checkpoint with each `best.th`.
    For `patience`, an epoch has improved if any of its results has.

    Registered as a `TrainerCallback` with name "validate_every".

    # Parameters

    num_batches : `int`, optional
        Number of batches between two validations, counted from the start of each epoch.
    num_seconds : `float`, optional
        Seconds between two validations, by the clock of the first process. Exactly one of the two
        parameters is required.
    """

    def __init__(
        self,
        serialization_dir: str,
        num_batches: Optional[int] = None,
        num_seconds: Optional[float] = None,
    ) -> None:
        super().__init__(serialization_dir)
        if (num_batches is None) == (num_seconds is None):
            found = "neither" if num_batches is None else "both"
            raise InputError(f"{NAME}: expected one of num_batches and num_seconds, found {found}")
        if num_seconds is not None:
            check_number(f"{NAME}: num_seconds", num_seconds, least=0)
        self._num_batches = optional_count(f"{NAME}: num_batches", num_batches)
        self._clock = IntervalClock(num_seconds, "elmo_plugin/next_validation")

    def on_start(self, trainer: Any, *_: Any, **__: Any) -> None:
        needed = {
            'a model of type "bilm"': isinstance(trainer.model, BiLMModel),
            "a validation_data_path": trainer._validation_data_loader is not None,
            # Epochs without a validation would hide the best result within them.
            "no callback of type should_validate_callback": not any(
                isinstance(callback, ShouldValidateCallback) for callback in trainer._callbacks
            ),
            "no moving_average": trainer._moving_average is None,
        }
        for what, is_given in needed.items():
            if not is_given:
                raise InputError(f"{NAME}: expected a training with {what}, found another")
        _check_order(trainer._validation_data_loader)
        self._clock.restart()

    def on_batch(
        self, trainer: Any, *batch: Any, is_training: bool = True, is_primary: bool = True, **_: Any
    ) -> None:
        epoch, batch_number = batch[-2:]
        if is_training and self._is_time(trainer, Point(epoch, batch_number)):
            metrics = validate(trainer, epoch)
            trainer._pytorch_model.train()
            self._clock.restart()
            is_best = keep_if_best(trainer, metrics)
            if is_best and self._num_batches is None:  # not repeated at the same moment
                if isinstance(trainer._checkpointer, BiLMCheckpointer):
                    trainer._checkpointer.save_after_this_batch()
            if is_primary:
                numbers = ", ".join(f"{key} {value:.4g}" for key, value in metrics.items())
                logger.info("batch %d: validation: %s", trainer._total_batches_completed, numbers)
                for callback in trainer._callbacks:
                    if isinstance(callback, LearningCurveCallback):
                        found = {f"validation_{key}": value for key, value in metrics.items()}
                        callback.add_validation(trainer, found)

    def on_epoch(self, trainer: Any, metrics: Any, epoch: int, *_: Any, **__: Any) -> None:
        """The trainer reports as best what it finds at the ends of epochs."""
        tracker = trainer._metric_tracker
        if tracker.best_epoch == epoch:
            if tracker.is_best_so_far():
                _set_best(trainer, tracker.best_epoch_metrics)
            metrics["best_epoch"] = epoch
            for key, value in tracker.best_epoch_metrics.items():
                metrics[f"best_validation_{key}"] = value

    def _is_time(self, trainer: GradientDescentTrainer, point: Point) -> bool:
        # Other loaders may have another length in each process, and all validate together.
        if isinstance(loader := trainer.data_loader, BiLMDataLoader):
            groups = len(loader) / trainer._num_gradient_accumulation_steps
            if point.batches == math.ceil(groups):  # validated at the end of the epoch
                return False
        if self._num_batches is not None:
            return point.batches % self._num_batches == 0
        return self._clock.is_due(point)


def _check_order(loader: DataLoader) -> None:
    """Raise an `InputError` if a data loader of validation does not keep the order of the text."""
    for key in ("shuffle", "batch_sampler", "num_workers"):
        if found := getattr(loader, key, None):
            expected = f"a validation_data_loader without {key}, which keeps the order of the text"
            fail(NAME, expected, found)


def keep_if_best(trainer: GradientDescentTrainer, metrics: dict[str, float]) -> bool:
    """
    If a result within an epoch is the best so far, do what the trainer does at the end of an epoch:
    record it and write `best.th`.
    """
    is_best = _improves(trainer._metric_tracker, metrics)
    if is_best:
        _set_best(trainer, metrics)
        _save_best(trainer)
    return is_best


def _improves(tracker: MetricTracker, metrics: dict[str, float]) -> bool:
    """
    Whether a result is better than all before. If so, it becomes the best one of the running epoch.
    `MetricTracker.add_metrics` would count an epoch, and so each result for `patience`.
    """
    score = tracker.combined_score(metrics)
    best = -math.inf if tracker._best_so_far is None else tracker._best_so_far
    if not score > best:  # also if the score is NaN
        return False
    tracker._best_so_far = score
    tracker.best_epoch = tracker._epoch_number
    tracker._epochs_with_no_improvement = -1  # the end of the epoch adds 1 if it is not better
    return True


def _save_best(trainer: GradientDescentTrainer) -> None:
    folder = trainer._serialization_dir  # type: ignore[has-type]
    trainer._best_model_filename = os.path.join(folder, "best.th")  # loaded after the last epoch
    if trainer._primary:
        with atomic_write(trainer._best_model_filename) as temporary:
            model = trainer._ddp_wrapped_model or trainer.model
            save_torch_file(model.state_dict(), temporary)


def _set_best(trainer: GradientDescentTrainer, metrics: dict[str, float]) -> None:
    n_batches = trainer._total_batches_completed
    trainer._metric_tracker.best_epoch_metrics = {**metrics, "batch": n_batches}
