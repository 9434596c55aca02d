"""The oracle of nearly all tests here is a training run that is not disturbed."""

import io
import itertools
import json
import logging
import multiprocessing
import os
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import torch
import torch.distributed as dist
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, Vocabulary
from allennlp.data.data_loaders import SimpleDataLoader
from allennlp.data.fields import TensorField
from allennlp.training import TrainerCallback

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.training.checkpoint_files import CheckpointFiles, Point
from elmo_plugin.plugin.training.checkpointer import BiLMCheckpointer
from tests.conftest import Fuzz, file_size_limit
from tests.damage import damage
from tests.plugin.training.toy_training import (
    BATCHES,
    EPOCHS,
    Killed,
    Killer,
    ToyLoader,
    ToyModel,
    assert_identical,
    make_trainer,
    nothing,
    result,
)


class LastEpoch(TrainerCallback):
    """Stores what callbacks are told at the end of a run."""

    found: tuple[Any, ...]

    def on_end(self, trainer: Any, metrics: Any = None, epoch: Any = None, **_: Any) -> None:
        if metrics is not None:
            LastEpoch.found = epoch, trainer._total_batches_completed


TrainerCallback.register("last_epoch_for_test")(LastEpoch)
VARIANTS: dict[str, dict[str, Any]] = {
    "one_kept": {"checkpointer": {"keep_most_recent_by_count": 1}},
    # If training continued after it should have stopped, it would reach a better epoch.
    "early_stopping": {"patience": 1, "make_model": partial(ToyModel, scores=(0.5, 0.3, 0.9))},
    "unvalidated": {
        "callbacks": [{"type": "should_validate_callback", "validation_interval": 2}],
        "num_epochs": 2,
    },
}


def _train(folder: Path, each_batch: Callable[[], None] = nothing, **options: Any) -> Any:
    trainer = make_trainer(folder, each_batch, **options)
    trainer.train()
    return trainer


def _train_and_kill(
    monkeypatch: pytest.MonkeyPatch, folder: Path, after: int, **options: Any
) -> bool:
    """Return whether the training ended before it was killed."""
    with monkeypatch.context() as patch:
        try:
            _train(folder, Killer(patch, after), **options)
        except Killed:
            return False
    return True


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    """The result of a run that is not disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    return result(_train(folder), folder)


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_anywhere_and_recovered(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is killed before each batch, between any two file operations of the trainer and the
    checkpointer, and in the middle of each file; the last run was killed after all its files were
    written. Expected are the weights and the metrics of a run that is not disturbed, except
    `training_loss`, the mean since the checkpoint. Callbacks are told the same epoch and number of
    batches."""
    options = dict(VARIANTS[variant])
    options["callbacks"] = [{"type": "last_epoch_for_test"}, *options.get("callbacks", [])]

    def train(folder: Path) -> tuple[dict[str, torch.Tensor], dict[str, Any]]:
        trainer = make_trainer(folder, **options)
        metrics = trainer.train()
        for file in folder.glob("metrics_epoch_*.json"):
            metrics |= {f"{file.stem} {k}": v for k, v in json.loads(file.read_text()).items()}
        varies = ("training_duration", "training_loss", "_MB")
        metrics = {k: None if k.endswith(varies) else v for k, v in metrics.items()}
        return result(trainer, folder), {**metrics, "at the end": LastEpoch.found}

    weights, expected = train(tmp_path / "whole")
    assert {"epoch", "validation_score", "training_loss", "best_epoch"} <= expected.keys()
    for after in itertools.count():
        folder = tmp_path / str(after)
        is_finished = _train_and_kill(monkeypatch, folder, after, **options)
        found, metrics = train(folder)
        assert_identical(found, weights)
        assert metrics == expected
        if is_finished:
            break
    assert after > (40 if variant == "unvalidated" else 50)  # which has fewer epochs


@pytest.mark.parametrize("variant", ["one_kept", "early_stopping"])
def test_killed_again_and_again(
    variant: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every run is killed a little later than the one before, at different places."""
    options = VARIANTS[variant]
    expected = result(_train(tmp_path / "whole", **options), tmp_path / "whole")
    folder = tmp_path / "killed"
    for kills in itertools.count():
        if _train_and_kill(monkeypatch, folder, 15 + kills, **options):
            break
    assert kills > 5
    assert_identical(result(_train(folder, **options), folder), expected)


def test_the_archive_of_an_interrupted_run_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """AllenNLP writes an archive when a run is interrupted. A resumed run keeps it under another
    name, since nobody should take it for its own; a run from the beginning has none."""
    assert not _train_and_kill(monkeypatch, tmp_path, 30)
    (tmp_path / "model.tar.gz").write_text("of the interrupted run")
    _train(tmp_path)
    assert not (tmp_path / "model.tar.gz").exists()
    before = tmp_path / "model.before_resume.tar.gz"
    assert before.read_text() == "of the interrupted run"


def test_nan_weights_are_not_saved(expected: dict[str, torch.Tensor], tmp_path: Path) -> None:
    """A step makes the weights NaN right before the second checkpoint, although the loss is finite.
    Only the first checkpoint is saved, and the run that resumes from it ends as if nothing had
    happened."""
    folder, batches = tmp_path / "spoilt", itertools.count(1)
    trainer = make_trainer(folder)

    def spoil(*_: Any) -> None:
        if next(batches) == BATCHES:
            with torch.no_grad():
                trainer.model.linear.bias[0] = torch.inf

    trainer.optimizer.register_step_post_hook(spoil)
    with pytest.raises(FloatingPointError, match=r"after 1 epochs and 0 batches: linear\.bias"):
        trainer.train()
    assert CheckpointFiles(str(folder), rank=0, world_size=1).complete() == [Point(0, 3)]
    assert not (folder / "best.th").exists()
    assert_identical(result(_train(folder), folder), expected)


class LazyLoader(SimpleDataLoader):
    """Like AllenNLP's loader with `max_instances_in_memory`, it does not know its length."""

    def __len__(self) -> int:
        raise TypeError


@pytest.mark.parametrize(
    "validation, interval",
    [(None, 1), (SimpleDataLoader, 1), (LazyLoader, 1), (SimpleDataLoader, 2)],
)
def test_shuffled_by_pythons_generator(
    validation: type[SimpleDataLoader] | None,
    interval: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """AllenNLP's own loader draws its order from a global generator, also in the batches that the
    trainer discards, those of validation among them, which not every epoch has. The model here uses
    the other generators."""
    rows = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))

    def options() -> dict[str, Any]:
        instances = [Instance({"x": TensorField(row)}) for row in rows]
        loader = SimpleDataLoader(instances, 2, shuffle=True, vocab=Vocabulary())
        of_validation = None
        if validation is not None:
            of_validation = validation(instances, 2, shuffle=True, vocab=Vocabulary())
        return {
            "loader": loader,
            "validation_loader": of_validation,
            "make_model": partial(ToyModel, uses_python_random=False),
            "callbacks": [{"type": "should_validate_callback", "validation_interval": interval}],
        }

    expected = result(_train(tmp_path / "whole", **options()), tmp_path / "whole")
    for after in itertools.count(step=3):
        folder = tmp_path / str(after)
        if _train_and_kill(monkeypatch, folder, after, **options()):
            break
        assert_identical(result(_train(folder, **options()), folder), expected)
    assert after > 50


@pytest.mark.parametrize("patience", [None, 1])
def test_a_finished_run_draws_no_batches(patience: int | None, tmp_path: Path) -> None:
    """Nothing is trained, whether all epochs are done or the run stopped early, after two."""
    n_epochs = EPOCHS if patience is None else 9
    drawn: list[None] = []
    options = {
        "loader": ToyLoader(BATCHES, 40, lambda: drawn.append(None)),
        "make_model": partial(ToyModel, scores=(0.3, 0.1, 0.1)),
        "patience": patience,
        "num_epochs": n_epochs,
    }
    _train(tmp_path, **options)
    n_drawn = len(drawn)
    _train(tmp_path, **options)
    assert len(drawn) == n_drawn == BATCHES * (EPOCHS if patience is None else 2)


@pytest.mark.parametrize("is_corpus", [True, False])
def test_another_text_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_corpus: bool
) -> None:
    """The words of a fixed vocabulary do not show that the text has changed, and results on another
    validation text cannot be compared with the best one so far."""

    def loaders(train: str, validation: str) -> dict[str, ToyLoader]:
        loaders = {"loader": ToyLoader(BATCHES, 40), "validation_loader": ToyLoader(1, 50)}
        for loader, text in zip(loaders.values(), (train, validation)):
            if is_corpus:
                loader.corpus = SimpleNamespace(digests={"tokens": text})  # type: ignore[attr-defined]
            else:
                loader.data_path = str(tmp_path / text)  # type: ignore[attr-defined]
                Path(loader.data_path).write_text(text)  # type: ignore[attr-defined]
        return loaders

    assert not _train_and_kill(monkeypatch, tmp_path, 30, **loaders("one", "two"))
    before = {file: file.read_bytes() for file in tmp_path.glob("model_state_*.th")}
    for key, texts in (("train", ("other", "two")), ("validation", ("one", "other"))):
        with pytest.raises(InputError, match=f"{key}_data_path: expected the text of the"):
            _train(tmp_path, **loaders(*texts))
        assert {file: file.read_bytes() for file in tmp_path.glob("model_state_*.th")} == before
    _train(tmp_path, **loaders("one", "two"))


@pytest.mark.parametrize("num_epochs", [2, 3])
def test_the_best_of_the_validated_epochs(tmp_path: Path, num_epochs: int) -> None:
    """By hand: of three epochs, the first and the last are validated, and the first is the best.
    These are the weights that the trainer returns, also without the last epoch."""
    trainer = _train(
        tmp_path,
        make_model=partial(ToyModel, scores=(0.3, 0.9, 0.1)),
        num_epochs=num_epochs,
        callbacks=[{"type": "should_validate_callback", "validation_interval": 2}],
        checkpointer={"keep_most_recent_by_count": None},
    )
    best = torch.load(tmp_path / "best.th")
    assert_identical(best, torch.load(tmp_path / "model_state_e1_b0.th"))
    assert_identical(trainer.model.state_dict(), best)


@pytest.mark.parametrize("kind", ["rank_state", "training_state", "model_state"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut", "not_a_checkpoint", "code"])
def test_damaged_checkpoint_is_ignored(
    kind: str, damage: str, expected: dict[str, torch.Tensor], tmp_path: Path
) -> None:
    """The checkpoint before it leads to the same end, and the content of the file is not run."""
    folder = tmp_path / "damaged"
    trap = tmp_path / "trap"
    _train(folder)
    (path,) = folder.glob(f"{kind}_e3_b0*.th")
    content = path.read_bytes()
    path.unlink()  # and so leave best.th, a link to it, alone
    if damage == "empty":
        path.write_bytes(b"")
    elif damage == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif damage == "not_a_checkpoint":
        path.write_bytes(b"<html>")
    elif damage == "code":
        torch.save(_Trap(trap), path)
    assert_identical(result(_train(folder), folder), expected)
    assert not trap.exists()


class _Trap:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


def test_without_a_complete_checkpoint_training_starts_from_scratch(
    expected: dict[str, torch.Tensor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Without a complete checkpoint, training starts from the beginning and ends as an undisturbed
    run."""
    folder = tmp_path / "damaged"
    _train(folder)
    for path in folder.glob("model_state_*.th"):
        path.unlink()
    with caplog.at_level(logging.WARNING):
        assert_identical(result(_train(folder), folder), expected)
    assert "belongs to no complete checkpoint" in caplog.text


def test_parts_of_two_runs_never_meet(
    expected: dict[str, torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run is killed anywhere up to its first checkpoint, in a folder where another run has left
    a part of one."""
    other = tmp_path / "other"
    keep_all = {"keep_most_recent_by_count": None}
    _train(other, loader=ToyLoader(BATCHES, 99), checkpointer=keep_all)
    for after in range(16):
        folder = tmp_path / str(after)
        folder.mkdir()
        for path in other.glob("[mt]*_state_e0_b3.th"):
            shutil.copy(path, folder)
        assert not _train_and_kill(monkeypatch, folder, after)
        assert_identical(result(_train(folder), folder), expected)


def test_leftovers_are_removed(tmp_path: Path) -> None:
    """By hand: of all processes, the files after the checkpoint that is resumed, and the temporary
    files of killed processes."""
    kept = {
        "rank_state_e0_b9_w1of2.th",
        "rank_state_e1_b0_w1of2.th",
        "model_state_e1_b0.th",
        "best.th",
        ".notes",
    }
    removed = {
        "rank_state_e1_b10_w0of2.th",
        "rank_state_e1_b10_w1of2.th",
        "model_state_e2_b0.th",
        ".rank_state_e1_b0_w1of2.th.1a2b3c4d",
        ".model_state_e1_b0.th.1a2b3c4d",
        ".best.th.1a2b3c4d",
        ".learning_curve.png.1a2b3c4d",
    }
    for name in kept | removed:
        (tmp_path / name).touch()
    (tmp_path / ".vocabulary.1a2b3c4d").mkdir()
    CheckpointFiles(str(tmp_path), rank=0, world_size=2).remove_leftovers(Point(1, 0))
    assert set(os.listdir(tmp_path)) == kept


@pytest.mark.parametrize("size", [0, 4096, 9000])
def test_a_file_without_space_says_so(size: int, tmp_path: Path) -> None:
    """The system limits the size of files, and says EFBIG. PyTorch raises an error of its own while
    it closes the file, unless the limit is 0."""
    files = CheckpointFiles(str(tmp_path), rank=0, world_size=1)
    state = {str(k): torch.ones(100) for k in range(400)}
    message = r"a\.th: could not be written, .*File too large"
    with file_size_limit(size), pytest.raises(OSError, match=message):
        files.write(state, str(tmp_path / "a.th"))
    assert not list(tmp_path.iterdir())


def test_any_damage_is_noticed(tmp_path: Path, fuzz: Fuzz) -> None:
    """The states are those before the damage, or `None`, after which the checkpoint before is
    used."""
    _train(tmp_path)
    files = CheckpointFiles(str(tmp_path), rank=0, world_size=1)
    newest = files.complete()[0]
    expected = _bytes_of(files.read(newest))
    paths = sorted(tmp_path.glob("*_state_e3_b0*.th"))
    for random in fuzz.cases(120):
        path = random.choice(paths)
        data = path.read_bytes()
        description, damaged = damage(data, random)
        path.write_bytes(damaged)
        found = files.read(newest)
        assert found is None or _bytes_of(found) == expected, (path.name, description)
        path.write_bytes(data)


def _bytes_of(states: Any) -> bytes:
    """Return the same bytes for the same tensors and values."""
    file = io.BytesIO()
    torch.save(states, file)
    return file.getvalue()


@pytest.fixture
def fast_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make 100 seconds pass between two reads of the clock."""
    seconds = itertools.count(step=100)
    clock = SimpleNamespace(monotonic=lambda: next(seconds))
    monkeypatch.setattr("elmo_plugin.plugin.training.interval_clock.time", clock)


def test_saved_every_few_minutes_by_default(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    fast_clock: None,
) -> None:
    """Each batch takes 100 seconds. A run of one epoch that was killed before its last batch
    resumes after the third, and says so. It ends with the weights of the undisturbed run."""
    options: dict[str, Any] = {"num_epochs": 1, "checkpointer": {"save_every_num_batches": None}}
    caplog.set_level(logging.INFO)
    expected = result(_train(tmp_path / "whole", **options), tmp_path / "whole")
    assert f"No checkpoint in {tmp_path / 'whole'}: training starts from the" in caplog.text
    folder = tmp_path / "killed"
    batches = itertools.count(1)

    def kill_before_last() -> None:
        if next(batches) == BATCHES:
            raise Killed

    with pytest.raises(Killed):
        _train(folder, kill_before_last, **options)
    assert CheckpointFiles(str(folder), rank=0, world_size=1).complete() == [Point(0, 3)]
    assert_identical(result(_train(folder, **options), folder), expected)
    path = folder / "model_state_e0_b3.th"
    assert f"Resuming training after 0 epochs and 3 batches, from {path}" in caplog.text


def test_damaged_best_weights_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run was killed in its last epoch, and the one before was the best. The trainer, which
    would return the damaged weights, finds none."""
    batches = itertools.count(1)

    def kill_in_last_epoch() -> None:
        if next(batches) == 2 * (BATCHES + 1) + BATCHES:
            raise Killed

    with pytest.raises(Killed):
        _train(tmp_path, kill_in_last_epoch)
    best = tmp_path / "best.th"
    data = best.read_bytes()
    best.unlink()  # and so leave the checkpoint, a link to it, alone
    stored = torch.load(io.BytesIO(data))["linear.bias"].numpy().tobytes()
    best.write_bytes(data.replace(stored, stored[::-1]))
    with pytest.raises(FileNotFoundError, match=r"best\.th"):
        _train(tmp_path)
    assert f"Removing {best}: expected a whole file of torch.save, found damage" in caplog.text


def test_full_disk(
    expected: dict[str, torch.Tensor], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operating system refuses further writes in the middle of the run's third checkpoint."""
    folder = tmp_path / "full"
    save = torch.save

    def save_to_full_disk(state: Any, file: Any) -> None:
        is_full = "rank_state_e1_b3" in file.name
        with file_size_limit(1000) if is_full else nullcontext():
            save(state, file)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", save_to_full_disk)
        with pytest.raises(OSError, match=r"rank_state_e1_b3_w0of1.th: could not be written"):
            _train(folder)
    assert not list(folder.glob(".*.th.*"))
    assert not list(folder.glob("*_e1_b3*"))
    assert_identical(result(_train(folder), folder), expected)


@pytest.mark.parametrize("found", [pytest.param(print, id="function"), numpy.zeros(2)])
def test_state_that_only_code_could_read_is_refused(found: Any, tmp_path: Path) -> None:
    """A callback's state has an object that only running code can read back."""

    class Callback(TrainerCallback):
        def state_dict(self) -> dict[str, Any]:
            return {"found": found}

    trainer = make_trainer(tmp_path)
    trainer._callbacks.append(Callback(str(tmp_path)))
    with pytest.raises(InputError, match=r"training_state_e0_b3.th: expected tensors"):
        trainer.train()
    assert not list(tmp_path.glob("training_state_*"))


def test_numpys_scalars_come_back_as_pythons(tmp_path: Path) -> None:
    """NumPy's own `item()` is the oracle of the values."""
    values = {"a": numpy.float32(0.1), "b": [numpy.int64(3), (numpy.bool_(True), None)]}

    class Callback(TrainerCallback):
        def state_dict(self) -> dict[str, Any]:
            return values

    trainer = make_trainer(tmp_path)
    trainer._callbacks.append(Callback(str(tmp_path)))
    trainer.train()
    state = torch.load(tmp_path / "training_state_e3_b0.th", weights_only=True)
    assert state["callbacks"][0] == {"a": numpy.float32(0.1).item(), "b": [3, (True, None)]}
    assert type(state["callbacks"][0]["b"][1][0]) is bool
    assert type(state["metric_tracker"]["best_so_far"]) is float


@pytest.mark.parametrize(
    "keep, expected",
    [
        (0, {"e1_b0"}),
        (None, {"e1_b0", *(f"e0_b{i}" for i in range(1, 14))}),
        # The checkpoint b1 is removed, although the names of b10 to b13 begin with its name.
        (13, {"e1_b0", *(f"e0_b{i}" for i in range(2, 14))}),
    ],
)
def test_old_checkpoints_are_removed(keep: int | None, expected: set[str], tmp_path: Path) -> None:
    """The expected files follow from the documentation of `Checkpointer`, and at least one
    checkpoint is kept."""
    _train(
        tmp_path,
        loader=ToyLoader(13, 0),
        num_epochs=1,
        make_model=partial(ToyModel, scores=(0.1,) * 4),
        checkpointer={"save_every_num_batches": 1, "keep_most_recent_by_count": keep},
    )
    for kind, end in [
        ("rank_state", "_w0of1.th"),
        ("training_state", ".th"),
        ("model_state", ".th"),
    ]:
        found = {
            path.name.removeprefix(f"{kind}_").removesuffix(end)
            for path in tmp_path.glob(f"{kind}_*.th")
        }
        assert found == expected


def test_another_number_of_processes_is_refused(tmp_path: Path) -> None:
    """The message has the file and both numbers of processes."""
    _train(tmp_path)
    (path,) = tmp_path.glob("rank_state_e3_b0_*")
    path.rename(tmp_path / "rank_state_e3_b0_w0of2.th")
    with pytest.raises(InputError, match=r"w0of2.th was saved by .* 2 .* but found 1"):
        _train(tmp_path)


def test_a_folder_in_which_another_run_trains_is_refused(tmp_path: Path) -> None:
    """The other run is a process that waits in its first batch. Nothing of it is changed, and when
    it is killed, its folder is free."""
    context = multiprocessing.get_context("spawn")
    is_training = context.Event()
    run = context.Process(target=_train_for_a_minute, args=(tmp_path, is_training))
    run.start()
    try:
        assert is_training.wait(60)
        before = sorted(path.name for path in tmp_path.iterdir())
        with pytest.raises(InputError, match=f"{tmp_path}: expected no other run"):
            _train(tmp_path)
        assert sorted(path.name for path in tmp_path.iterdir()) == before
    finally:
        run.kill()
        run.join()
    _train(tmp_path)


def _train_for_a_minute(folder: Path, is_training: Any) -> None:
    def wait() -> None:
        is_training.set()
        time.sleep(60)

    _train(folder, wait)


def test_sharded_model_is_refused(tmp_path: Path) -> None:
    """Each process has only a part of a sharded model."""
    checkpointer = BiLMCheckpointer(tmp_path, ToyModel())
    checkpointer.state_is_sharded = True
    with pytest.raises(InputError, match="sharded"):
        checkpointer.load_checkpoint()


@pytest.mark.parametrize("key", ["save_completed_epochs", "keep_most_recent_by_age"])
def test_unknown_parameter_is_refused(key: str, tmp_path: Path) -> None:
    """The message names the parameter, which AllenNLP's own checkpointer has."""
    with pytest.raises(ConfigurationError, match=key):
        make_trainer(tmp_path, checkpointer={key: 1})


def test_a_moving_average_is_refused(tmp_path: Path) -> None:
    """The message has the name of the trainer's parameter, and nothing is saved."""
    with pytest.raises(InputError, match="cannot save a moving_average"):
        _train(tmp_path, moving_average={"type": "exponential"})
    assert not list(tmp_path.glob("*_state_*"))


def _distributed_worker(rank: int, folder: Path, run: int, kill_after: int | None) -> None:
    """Write the final state of the process to `folder`, or kill itself."""
    torch.set_num_threads(1)
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    store = f"file://{folder}/store_{run}"
    dist.init_process_group("gloo", init_method=store, rank=rank, world_size=2)
    save = torch.save

    def late_save(*args: Any) -> None:
        # A kill then finds the first process ahead of the second.
        time.sleep(0.01 * rank)
        save(*args)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "save", late_save)
        killer = Killer(patch, kill_after, lambda: os.kill(os.getpid(), signal.SIGKILL))
        trainer = _train(
            folder,
            killer,
            rank=rank,
            distributed=True,
            world_size=2,
            checkpointer={"keep_most_recent_by_count": 1},
        )
    found = result(trainer, folder)
    found["random"] = torch.get_rng_state()
    torch.save(found, folder / f"result_{rank}")
    # This skips the clean-up that the process has inherited from the tests.
    os._exit(0)


def _train_distributed(
    folder: Path, run: int, kill_rank: int | None = None, kill_after: int | None = None
) -> None:
    folder.mkdir(exist_ok=True)
    context = multiprocessing.get_context("fork")
    processes = [
        context.Process(
            target=_distributed_worker,
            args=(rank, folder, run, kill_after if rank == kill_rank else None),
        )
        for rank in range(2)
    ]
    for process in processes:
        process.start()
    if kill_rank is None:
        for process in processes:
            process.join(60)
            assert process.exitcode == 0
    else:
        processes[kill_rank].join(60)
        assert processes[kill_rank].exitcode == -signal.SIGKILL
        other = processes[1 - kill_rank]
        # It continues until it needs something from the killed process.
        other.join(1)
        other.kill()
        other.join()


def test_two_processes(tmp_path: Path) -> None:
    """One of two processes is killed by SIGKILL. After recovery each has its own carried and random
    states, as in an undisturbed run of two."""
    # This imports what each forked process would otherwise import on first use.
    _train(tmp_path / "alone")
    whole = tmp_path / "whole"
    _train_distributed(whole, 0)
    expected = [torch.load(whole / f"result_{rank}") for rank in range(2)]
    assert not torch.equal(expected[0]["carried"], expected[1]["carried"])
    assert not torch.equal(expected[0]["random"], expected[1]["random"])
    for kill_rank, kill_after in [(0, 8), (0, 22), (0, 35), (0, 48), (1, 5), (1, 9), (1, 28)]:
        folder = tmp_path / f"{kill_rank}_{kill_after}"
        _train_distributed(folder, 0, kill_rank, kill_after)
        if kill_after > 8:
            # The first checkpoint is complete, and one process has written its part of the second.
            seen = [set(CheckpointFiles(str(folder), rank, 2).complete()) for rank in range(2)]
            assert seen[0] & seen[1]
        _train_distributed(folder, 1)
        for rank in range(2):
            assert_identical(torch.load(folder / f"result_{rank}"), expected[rank])
