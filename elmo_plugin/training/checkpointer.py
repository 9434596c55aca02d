import logging
import os
import shutil
import sys
import time
from typing import Any, Optional, Union, cast

import torch
import torch.distributed as dist
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import hardlink_or_copy
from allennlp.common.util import is_distributed
from allennlp.models.model import Model
from allennlp.nn.util import dist_reduce
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.gradient_descent_trainer import GradientDescentTrainer
from allennlp.training.trainer import Trainer, TrainerCheckpoint

from elmo_plugin.checks import check_count, check_flag, check_number
from elmo_plugin.files.torch_file import DamagedFileError, check_torch_file
from elmo_plugin.training.checkpoint_files import CheckpointFiles, Point, remove
from elmo_plugin.training.moving_average_state import attach, averaged, without_parameters
from elmo_plugin.training.random_states import get_random_states, set_resting_random_states
from elmo_plugin.training.save_clock import SaveClock

logger = logging.getLogger(__name__)

MINUTES_5 = 300.0


@Checkpointer.register("bilm")
class BilmCheckpointer(Checkpointer):
    """
    A checkpointer from which AllenNLP's `GradientDescentTrainer` goes on exactly: a run that was
    killed, at whatever moment, and recovered ends with the same weights, to the bit on CPU, and
    the same `best.th` as one that was not.

    A checkpoint after E epochs and B batches of N processes consists of

    - `rank_state_eE_bB_wRofN.th`, one for each process R: the states of its random number
      generators and, where the model has a method `resume_state`, what that returns (such as
      the LSTM states that a language model carries from batch to batch);
    - `training_state_eE_bB.th`: what AllenNLP's trainer keeps;
    - `model_state_eE_bB.th`: the weights.

    They are written in this order, each moved into place whole. Recovery takes the newest
    checkpoint that every process has complete. Reading one runs no code.

    `resume_state()` returns a `dict[str, Tensor]`, which comes back under the key
    `"resume_state"` of the model's state: the model takes it from there in a `load_state_dict`
    pre-hook. Neither it nor `state_dict()` may communicate with other processes.

    Random states are restored at the model's first forward pass, when the trainer has drawn and
    thrown away the batches already done. So recovery is exact

    - with a data loader that uses no global random number generator, as `bilm`;
    - with one that uses a generator which nothing else uses, as AllenNLP's, which shuffle by
      Python's: drawing the batches again brings that one to its place. A validation loader that
      shuffles too makes recovery inexact, for validation is not repeated.

    What AllenNLP's trainer does not keep starts anew: the training loss and training metrics of
    an epoch recovered half way, and with `use_amp` the scale of the loss.

    # Parameters

    serialization_dir : `Union[str, os.PathLike]`
        AllenNLP passes it; it gets no entry in a configuration file.
    model : `Model`
        The model that is trained. AllenNLP passes it; it gets no entry in a configuration file.
    save_completed_epochs : `bool`, optional (default = `True`)
        Save a checkpoint after each epoch.
    save_every_num_seconds : `float`, optional (default = `300`)
        Save a checkpoint when the last is so old. With several processes the first one's clock
        counts. Saving takes 0.1 seconds for the model of `bilm.jsonnet`, and 1.5 seconds for each
        GB of weights in general; `null` saves at the other occasions alone.
    save_every_num_batches : `int`, optional (default = `None`)
        Save a checkpoint when the last is so many batches old.
    keep_most_recent_by_count : `int`, optional (default = `2`)
        How many checkpoints to keep. One stays in any case, and with several processes two,
        since another process may be writing its part of the last.
    keep_most_recent_by_age : `int`, optional (default = `None`)
        Keep, besides these, the checkpoints that are not older, in seconds. If this and
        `keep_most_recent_by_count` are `None`, all are kept.
    """

    def __init__(
        self,
        serialization_dir: Union[str, os.PathLike],
        model: Model,
        save_completed_epochs: bool = True,
        save_every_num_seconds: Optional[float] = MINUTES_5,
        save_every_num_batches: Optional[int] = None,
        keep_most_recent_by_count: Optional[int] = 2,
        keep_most_recent_by_age: Optional[int] = None,
    ) -> None:
        name = 'checkpointer of type "bilm": '
        check_flag(f"{name}save_completed_epochs", save_completed_epochs)
        if save_every_num_seconds is not None:
            check_number(f"{name}save_every_num_seconds", save_every_num_seconds, least=0)
        if save_every_num_batches is not None:
            check_count(f"{name}save_every_num_batches", save_every_num_batches)
        if keep_most_recent_by_count is not None:
            check_count(f"{name}keep_most_recent_by_count", keep_most_recent_by_count, least=0)
        if keep_most_recent_by_age is not None:
            check_number(f"{name}keep_most_recent_by_age", keep_most_recent_by_age, least=0)
        super().__init__(
            serialization_dir,
            save_completed_epochs=save_completed_epochs,
            save_every_num_seconds=None,  # AllenNLP's clock is each process's own
            save_every_num_batches=save_every_num_batches,
            keep_most_recent_by_count=keep_most_recent_by_count,
            keep_most_recent_by_age=keep_most_recent_by_age,
        )
        self._model = model
        self._world_size = dist.get_world_size() if is_distributed() else 1
        self._files = CheckpointFiles(self._serialization_dir, self._rank, self._world_size)
        self._clock = SaveClock(save_every_num_seconds)

    def maybe_save_checkpoint(
        self, trainer: Trainer, num_epochs_completed: int, num_batches_in_epoch_completed: int
    ) -> bool:
        saved = super().maybe_save_checkpoint(
            trainer, num_epochs_completed, num_batches_in_epoch_completed
        )
        point = Point(num_epochs_completed, num_batches_in_epoch_completed)
        if not saved and self._clock.is_time_to_save(point):
            self.save_checkpoint(trainer)
            saved = True
        if num_batches_in_epoch_completed == 0 and not saved and self._is_local_primary:
            self._detach_best()
        return saved

    def save_checkpoint(self, trainer: Trainer) -> None:
        """
        Saves this process's part of a checkpoint, without waiting for the others.

        # Raises

        `OSError`
            If a file can't be written. The checkpoints before this one stay.
        `ConfigurationError`
            If a state holds what could only be read back by running code.
        `FloatingPointError`
            If a weight is no finite number any more: recovering would find nothing else.
        """
        trainer = cast(GradientDescentTrainer, trainer)
        point = Point(trainer._epochs_completed, trainer._batches_in_epoch_completed)
        _check_finite(self._model, point)
        state = trainer.get_checkpoint_state()
        if state is None:
            # Trainer and model are the same in all processes; the first one's are saved.
            self._files.write(_rank_state(trainer), self._files.rank_state(point))
        else:
            # Weights left by a run killed here would make the new files look complete too soon.
            remove(self._files.model_state(point))
            self._files.write(_rank_state(trainer), self._files.rank_state(point))
            self._files.write(
                without_parameters(state.trainer_state), self._files.training_state(point)
            )
            self._files.write(state.model_state, self._files.model_state(point))
            self._remove_old_checkpoints(point)
        self._remember_saving(point)

    def find_latest_checkpoint(self) -> tuple[str, str] | None:
        """
        The model and training state files of the newest checkpoint that is complete as far as
        this process is concerned, or `None`.
        """
        complete = self._files.complete()
        if not complete:
            return None
        return self._files.model_state(complete[0]), self._files.training_state(complete[0])

    def load_checkpoint(self) -> TrainerCheckpoint | None:
        """
        Loads the newest checkpoint that every process can read, or `None`; every process must
        call this. Mends `best.th` if the run was killed before the trainer wrote it, and removes it
        if it is damaged: the trainer would load it at the end without noticing.

        # Raises

        `ConfigurationError`
            If the checkpoints were saved by another number of processes, or the model is
            sharded.
        """
        if self.state_is_sharded:
            raise ConfigurationError(
                "The checkpointer 'bilm' saves whole models and this one is sharded: expected the "
                "ddp_accelerator 'torch', or else the checkpointer 'default'."
            )
        self._files.check_world_size()
        loaded = self._load_newest()
        self._files.remove_leftovers(loaded[0] if loaded else None)
        if loaded is None:
            logger.info(
                "No checkpoint in %s: training starts from the beginning.", self._serialization_dir
            )
            return None
        point, rank_state, training_state, model_state = loaded
        self._remember_saving(point)
        logger.info(
            "Resuming training after %d epochs and %d batches, from %s.",
            point.epochs,
            point.batches,
            self._files.model_state(point),
        )

        averages = training_state.get("moving_average")
        if averages is not None:
            attach(averages, self._model)
        if self._is_local_primary:
            if rank_state["is_best"]:
                self._mend_best(point, model_state, averages)
            else:
                self._remove_damaged_best()
        if rank_state["is_best"] or training_state["best_model_filename"] is not None:
            training_state["best_model_filename"] = self._files.best()
        if rank_state["stopped_early"]:
            # The trainer asks for this only after an epoch trained, so it would train one more.
            training_state["epochs_completed"] = sys.maxsize
        if "resume_state" in rank_state:
            model_state["resume_state"] = rank_state["resume_state"]
        self._restore_random_states_at_first_forward(rank_state["random_states"])
        return TrainerCheckpoint(model_state, training_state)

    @property
    def _is_local_primary(self) -> bool:
        """Machines need not share a folder: the first process of each looks after its own."""
        processes = int(os.environ.get("ALLENNLP_PROCS_PER_NODE", self._world_size))
        return self._rank % processes == 0

    def _remember_saving(self, point: Point) -> None:
        self._clock.restart()
        self._last_save_num_epochs_completed = point.epochs
        self._last_save_num_batches_in_epoch_completed = point.batches

    def _remove_old_checkpoints(self, newest: Point) -> None:
        count, age = self._keep_most_recent_by_count, self._keep_most_recent_by_age
        if count is None and age is None:
            return
        # Processes that save have exchanged gradients since the checkpoint before, so that one is
        # complete everywhere; this one need not be.
        certain = 1 if self._world_size == 1 else 2
        complete = self._files.complete()
        keep = set(complete[: max(count or 0, certain)])
        if age is not None:
            oldest = time.time() - age
            keep.update(
                point
                for point in complete
                if os.path.getmtime(self._files.model_state(point)) >= oldest
            )
        self._files.remove_before(newest, keep)

    def _load_newest(self) -> tuple[Point, Any, Any, Any] | None:
        candidates, states = self._files.complete(), None
        while True:
            while candidates and states is None:
                states = self._files.read(candidates[0])
                if states is None:
                    candidates.pop(0)
            own = _number(candidates[0]) if candidates else -1
            newest = dist_reduce(own, dist.ReduceOp.MAX)
            common = dist_reduce(own, dist.ReduceOp.MIN)
            if newest == common:
                return (candidates[0], *states) if states is not None else None
            if own > common:
                candidates = [point for point in candidates if _number(point) <= common]
                states = None

    def _mend_best(
        self, point: Point, model_state: dict[str, Any], averages: dict[str, Any] | None
    ) -> None:
        """Makes `best.th` as the trainer does after the checkpoint of the best epoch so far."""
        best = self._files.best()
        if averages is not None:
            self._files.write(averaged(self._model, model_state, averages), best)
            return
        weights = self._files.model_state(point)
        # Moving a link over another link to the same file would do nothing and leave both.
        if not (os.path.exists(best) and os.path.samefile(weights, best)):
            hardlink_or_copy(weights, self._files.temporary(best))
            os.replace(self._files.temporary(best), best)

    def _remove_damaged_best(self) -> None:
        """It may come again: the run may have been killed while the trainer wrote it."""
        try:
            if os.path.exists(self._files.best()):
                check_torch_file(self._files.best())
        except DamagedFileError as error:
            logger.warning("Removing %s. Training will fail if no later epoch is better.", error)
            remove(self._files.best())

    def _detach_best(self) -> None:
        """
        After an epoch that is not saved the trainer writes into `best.th`: if that is a link to
        a checkpoint's weights, they would change under it.
        """
        best = self._files.best()
        if os.path.exists(best) and os.stat(best).st_nlink > 1:
            shutil.copyfile(best, self._files.temporary(best))
            os.replace(self._files.temporary(best), best)

    def _restore_random_states_at_first_forward(self, saved: dict[str, Any]) -> None:
        before = get_random_states()

        def restore(*_: Any) -> None:
            hook.remove()
            set_resting_random_states(saved, before)

        hook = self._model.register_forward_pre_hook(restore)


def _check_finite(model: Model, point: Point) -> None:
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise FloatingPointError(
                f"after {point.epochs} epochs and {point.batches} batches: {name}: expected finite "
                "numbers, found others. Nothing is saved, and the checkpoints before it stay"
            )


def _rank_state(trainer: GradientDescentTrainer) -> dict[str, Any]:
    tracker = trainer._metric_tracker
    end_of_epoch = trainer._batches_in_epoch_completed == 0
    state: dict[str, Any] = {
        "random_states": get_random_states(),
        # The trainer's own conditions for what it does next: write best.th, and stop.
        "is_best": end_of_epoch
        and trainer._should_validate_this_epoch
        and tracker.is_best_so_far(),
        "stopped_early": end_of_epoch and tracker.should_stop_early(),
    }
    resume_state = getattr(trainer.model, "resume_state", None)
    if resume_state is not None:
        state["resume_state"] = resume_state()
    return state


def _number(point: Point) -> int:
    """A point as one number of the same order, for processes to compare."""
    return (point.epochs << 32) + point.batches
