import json
import logging
import os
import shutil
import sys
from pathlib import Path
from typing import Any, Optional, Union

import torch
import torch.distributed as dist
from allennlp.common.util import is_distributed
from allennlp.models.model import Model
from allennlp.nn.util import dist_reduce
from allennlp.training.checkpointer import Checkpointer
from allennlp.training.gradient_descent_trainer import GradientDescentTrainer
from allennlp.training.trainer import TrainerCheckpoint

from elmo_plugin.checks import InputError, check_number, optional_count
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.digest import digest, file_digest
from elmo_plugin.files.file_lock import FileLock
from elmo_plugin.files.torch_file import DamagedFileError, check_torch_file
from elmo_plugin.plugin.training.checkpoint_files import KINDS, CheckpointFiles, Point
from elmo_plugin.plugin.training.gradient_order import (
    GRADIENT_ORDER,
    ResumableDistributedDataParallel,
)
from elmo_plugin.plugin.training.interval_clock import IntervalClock
from elmo_plugin.plugin.training.random_states import get_random_states, restore_unused_generators

logger = logging.getLogger(__name__)


@Checkpointer.register("bilm")
class BiLMCheckpointer(Checkpointer):
    """
    A checkpointer for exact recovery with AllenNLP's `GradientDescentTrainer`: a run that was
    killed at any moment and recovered ends with the same weights and the same `best.th` as an
    uninterrupted run, bit-identical on a CPU.

    A checkpoint after E epochs and B batches of N processes consists of

    - `rank_state_eE_bB_wRofN.th`, one per process R: the states of its random number generators and
      the results of the `resume_state` methods of the model's modules (such as carried LSTM
      states), digests of the texts, and the order in which processes sum their gradients;
    - `training_state_eE_bB.th`: the state of AllenNLP's trainer;
    - `model_state_eE_bB.th`: the weights.

    The files are written in this order, each atomically. Recovery uses the newest checkpoint of
    which every process has all files. Loading a checkpoint never executes code.

    `resume_state()` returns a `dict[str, Tensor]`. On recovery the model's state contains it under
    the module's key `"resume_state"`, and a `load_state_dict` pre-hook of the module removes it.
    Neither `resume_state()` nor `state_dict()` may communicate with other processes.

    Random states are restored at the model's first forward pass, after the trainer has drawn and
    discarded the batches that were already trained on. Recovery is exact

    - with a data loader that uses no global random number generator, such as `bilm`;
    - with one that uses a generator which nothing else uses, such as AllenNLP's, which shuffles
      with Python's: drawing the batches again, including those of validation
      (`resume.py`), brings that generator to the same state.

    AllenNLP's trainer does not save the training loss and metrics of a partial epoch, nor, with
    `use_amp`, the scale of the loss. These restart.

    # Parameters

    save_every_num_seconds : `float`, optional (default = `300.0`)
        Seconds between two checkpoints, by the clock of the first process. Saving took 0.06 to 0.10
        seconds for the model of `bilm.jsonnet`. `null` disables this. A checkpoint is always saved
        after each epoch.
    save_every_num_batches : `int`, optional
        Number of batches between two checkpoints.
    keep_most_recent_by_count : `int`, optional (default = `2`)
        Number of checkpoints to keep. At least one is kept, and two with several processes, because
        another process may still be writing its part of the last. `null` keeps all.
    """

    def __init__(
        self,
        serialization_dir: Union[str, os.PathLike],
        model: Model,
        save_every_num_seconds: Optional[float] = 300.0,
        save_every_num_batches: Optional[int] = None,
        keep_most_recent_by_count: Optional[int] = 2,
    ) -> None:
        name = 'checkpointer of type "bilm": '
        if save_every_num_seconds is not None:
            check_number(f"{name}save_every_num_seconds", save_every_num_seconds, least=0)
        every = optional_count(f"{name}save_every_num_batches", save_every_num_batches)
        name += "keep_most_recent_by_count"
        kept = optional_count(name, keep_most_recent_by_count, least=0)
        super().__init__(
            serialization_dir, save_every_num_batches=every, keep_most_recent_by_count=kept
        )
        self._model = model
        self._world_size = dist.get_world_size() if is_distributed() else 1
        self._files = CheckpointFiles(self._serialization_dir, self._rank, self._world_size)
        # AllenNLP's clock differs between processes.
        self._clock = IntervalClock(save_every_num_seconds, "elmo_plugin/next_save")
        self._is_asked = False
        self._texts: dict[str, str] | None = None
        self._resumed_texts: dict[str, str] = {}
        # A singleton, so that a run which failed can be recovered in the same process.
        self._lock = FileLock(
            os.path.join(self._serialization_dir, ".training.lock"), timeout=0, is_singleton=True
        )

    def maybe_save_checkpoint(self, trainer: Any, *completed: int) -> bool:
        """Save a checkpoint if it is time. `completed`: the numbers of epochs and of batches."""
        self.check_trainer(trainer)
        is_saved = super().maybe_save_checkpoint(trainer, *completed)
        if not is_saved and (self._is_asked or self._clock.is_due(Point(*completed))):
            self.save_checkpoint(trainer)
            is_saved = True
        return is_saved

    def check_trainer(self, trainer: Any) -> None:
        """Raise an `InputError` if the trainer has a state that checkpoints do not have."""
        if trainer._moving_average is not None:
            raise InputError(
                "trainer.moving_average: the checkpointer 'bilm' cannot save one; expected a "
                "trainer without it, or else the checkpointer 'default'"
            )

    def check_texts(self, trainer: GradientDescentTrainer) -> None:
        """
        Raise an `InputError` if a text is not that of the checkpoint that was resumed. The trainer
        calls it as soon as it has loaded a checkpoint (`resume.py`).
        """
        if self._texts is not None:
            return
        found = _text_digests(trainer)
        for key, text in found.items():
            if self._resumed_texts.get(key, text) != text:
                raise InputError(
                    f"{key}: expected the text of the checkpoint that was resumed from "
                    f"{self._serialization_dir}, found another; restore the text to resume, or see "
                    "More text later, with new words in docs/training.md"
                )
        self._texts = found

    def save_after_this_batch(self) -> None:
        """Save a checkpoint at the end of the running batch. Every process must call this."""
        self._is_asked = True

    def save_checkpoint(self, trainer: GradientDescentTrainer) -> None:  # type: ignore[override]
        """
        Save this process's part of a checkpoint, without waiting for the others. Raises an
        `OSError` if a file cannot be written, an `InputError` if loading an object of a state would
        execute code, and a `FloatingPointError` if a weight is NaN or infinite, because a run that
        recovers it could not continue. Earlier checkpoints are kept.
        """
        point = Point(trainer._epochs_completed, trainer._batches_in_epoch_completed)
        _check_finite(self._model, point)
        self.check_texts(trainer)
        states = [{**_rank_state(trainer), "texts": self._texts}]
        # Trainer and model are the same in all processes; the first one's are saved.
        if (state := trainer.get_checkpoint_state()) is not None:
            states += [state.trainer_state, state.model_state]
        for kind, content in zip(KINDS, states):
            self._files.write(content, self._files.path(kind, point))
        if state is not None and self._keep_most_recent_by_count is not None:
            # Processes have exchanged gradients since the previous checkpoint, so it is complete in
            # all of them; this one may not be.
            certain = 1 if self._world_size == 1 else 2
            count = max(self._keep_most_recent_by_count, certain)
            self._files.remove_before(self._files.complete()[:count][-1])
        self._set_last_save(point)

    def load_checkpoint(self) -> TrainerCheckpoint | None:
        """
        Load the newest checkpoint that every process can read, or `None`. Every process must call
        this. If the run was killed before the trainer wrote `best.th`, this method writes it. A
        damaged `best.th` is removed, because the trainer would silently load it at the end. Raises
        an `InputError` if another run trains in this folder, if the checkpoints were saved by a
        different number of processes, or if the model is sharded.
        """
        self._open_folder()
        point, states = self._load_newest()
        if self._is_local_primary:
            self._files.remove_leftovers(point)
        if is_distributed():
            dist.barrier()  # before any process writes files
        if point is None:
            logger.info(
                "No checkpoint in %s: training starts from the beginning.", self._serialization_dir
            )
            return None
        own, file, (epochs, batches) = states[0], self._files.path("model_state", point), point
        logger.info(f"Resuming training after {epochs} epochs and {batches} batches, from {file}.")
        self._set_last_save(point)
        self._resumed_texts = own["texts"]  # `check_texts` compares them
        if self._is_local_primary:
            self._set_archive_aside()
            self._restore_best(file, own["is_best"])
        self._restore_random_states_at_first_forward(own["random_states"])
        return self._checkpoint(*states)

    def _open_folder(self) -> None:
        """
        Keep other runs out of the folder, until this object or its process ends. Raises the errors
        of `load_checkpoint`.
        """
        if self.state_is_sharded:
            raise InputError(
                "The checkpointer 'bilm' cannot save a sharded model: expected the ddp_accelerator "
                "'torch', or else the checkpointer 'default'."
            )
        try:
            if self._rank == 0:
                self._lock.acquire()
        except TimeoutError:
            raise InputError(
                f"{self._serialization_dir}: expected no other run that trains in this folder, "
                "found one; stop it or wait for its end"
            ) from None
        self._files.check_world_size()

    @property
    def _is_local_primary(self) -> bool:
        """Whether this is the machine's first process. Machines need not share a folder."""
        processes = int(os.environ.get("ALLENNLP_PROCS_PER_NODE", self._world_size))
        return self._rank % processes == 0

    def _set_last_save(self, point: Point) -> None:
        self._is_asked = False
        self._clock.restart()
        self._last_save_num_epochs_completed = point.epochs
        self._last_save_num_batches_in_epoch_completed = point.batches

    def _load_newest(self) -> tuple[Point | None, Any]:
        """The newest checkpoint that every process can read, with its states."""
        candidates = self._files.complete()
        while True:
            states = None
            while candidates and (states := self._files.read(candidates[0])) is None:
                candidates.pop(0)
            own = _number(candidates[0]) if candidates else -1
            common = dist_reduce(own, dist.ReduceOp.MIN)
            if common == dist_reduce(own, dist.ReduceOp.MAX):
                return (candidates[0] if candidates else None), states
            candidates = [point for point in candidates if _number(point) <= common]

    def _set_archive_aside(self) -> None:
        """
        Rename the archive that AllenNLP wrote when the run was interrupted, so that nobody takes
        it for that of the resumed run, which writes its own at the end.
        """
        archive = Path(self._serialization_dir) / "model.tar.gz"
        if archive.exists():
            before = archive.with_name("model.before_resume.tar.gz")
            os.replace(archive, before)
            logger.info(
                f"{archive} has the weights of the run before; it is now {before.name}, and "
                "training writes another at its end."
            )

    def _restore_best(self, file: str, is_best: bool) -> None:
        """
        Write `best.th` if the weights in `file` are the best, because the trainer may not have
        written it. Otherwise remove it if it is damaged; a better later epoch writes it again.
        """
        if is_best:
            with atomic_write(self._files.best()) as temporary:
                shutil.copyfile(file, temporary)
            return
        try:
            if os.path.exists(self._files.best()):
                check_torch_file(self._files.best())
        except DamagedFileError as error:
            logger.warning("Removing %s. Training will fail if no later epoch is better.", error)
            os.remove(self._files.best())

    def _checkpoint(self, own: Any, trainer: Any, model: Any) -> TrainerCheckpoint:
        """The states of the trainer and the model, completed by what this process's `own` has."""
        if own["is_best"] or trainer["best_model_filename"] is not None:
            trainer["best_model_filename"] = self._files.best()
        if own["stopped_early"]:
            # The trainer checks this only after an epoch, so it would train one more.
            trainer["epochs_completed"] = sys.maxsize
        # A scheduler that unfreezes the parameters does so only after an epoch.
        for name, parameter in self._model.named_parameters():
            parameter.requires_grad_(name in own["trained"])
        model.update(own["resume_states"])
        if (order := own.get(GRADIENT_ORDER)) is not None:
            model[GRADIENT_ORDER] = order
        return TrainerCheckpoint(model, trainer)

    def _restore_random_states_at_first_forward(self, saved: dict[str, Any]) -> None:
        before = get_random_states()

        def restore(*_: Any) -> None:
            hook.remove()
            restore_unused_generators(saved, before)

        hook = self._model.register_forward_pre_hook(restore)


def _check_finite(model: Model, point: Point) -> None:
    for name, parameter in model.named_parameters():
        if not torch.isfinite(parameter).all():
            raise FloatingPointError(
                f"after {point.epochs} epochs and {point.batches} batches: {name}: expected finite "
                "numbers, found others. Nothing is saved, and earlier checkpoints are kept"
            )


def _rank_state(trainer: GradientDescentTrainer) -> dict[str, Any]:
    tracker = trainer._metric_tracker
    end_of_epoch = trainer._batches_in_epoch_completed == 0
    is_validated = end_of_epoch and trainer._should_validate_this_epoch
    parallel = trainer._pytorch_model
    is_parallel = isinstance(parallel, ResumableDistributedDataParallel)
    return {
        GRADIENT_ORDER: parallel.gradient_order() if is_parallel else None,
        "random_states": get_random_states(),
        "trained": [name for name, x in trainer.model.named_parameters() if x.requires_grad],
        # These are the trainer's own conditions for its next steps: write best.th, and stop.
        "is_best": is_validated and tracker.is_best_so_far(),
        "stopped_early": end_of_epoch and tracker.should_stop_early(),
        "resume_states": {
            f"{name}.resume_state".lstrip("."): module.resume_state()
            # A module with two names is loaded under both. A compiled module has its own methods.
            for name, module in trainer.model.named_modules(remove_duplicate=False)
            if hasattr(type(module), "resume_state")
        },
    }


def _text_digests(trainer: GradientDescentTrainer) -> dict[str, str]:
    """
    A digest of the text of each data loader by the key of its path, for a loader `bilm`, and for
    others if the text is a file.
    """
    found = {}
    loaders = {"train": trainer.data_loader, "validation": trainer._validation_data_loader}
    for name, loader in loaders.items():
        key, path = f"{name}_data_path", getattr(loader, "data_path", None)
        if (corpus := getattr(loader, "corpus", None)) is not None:
            found[key] = digest(json.dumps(corpus.digests, sort_keys=True).encode("utf-8"))
        elif isinstance(path, str) and os.path.isfile(path):
            found[key] = file_digest(path)
    return found


def _number(point: Point) -> int:
    """A point as a number with the same order, so that processes can compare points."""
    return (point.epochs << 32) + point.batches
