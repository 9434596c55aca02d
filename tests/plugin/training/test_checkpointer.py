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
    Weights,
    assert_identical,
    killed_before,
    make_trainer,
    nothing,
    result,
)


@TrainerCallback.register("last_epoch_for_test")
class LastEpoch(TrainerCallback):
    """Stores what callbacks are told at the end of a run."""

    found: tuple[Any, ...]

    def on_end(self, trainer: Any, metrics: Any = None, epoch: Any = None, **_: Any) -> None:
        if metrics is not None:
            LastEpoch.found = epoch, trainer._total_batches_completed


EVERY_SECOND = {"type": "should_validate_callback", "validation_interval": 2}
VARIANTS: dict[str, dict[str, Any]] = {
    "one_kept": {"checkpointer": {"keep_most_recent_by_count": 1}},
    # If training continued after it should have stopped, it would reach a better epoch.
    "early_stopping": {"patience": 1, "make_model": partial(ToyModel, scores=(0.5, 0.3, 0.9))},
    "unvalidated": {"callbacks": [EVERY_SECOND], "num_epochs": 2},
    "unfreezing": {
        "optimizer": {"type": "adam", "parameter_groups": [[["weight"], {}], [["bias"], {}]]},
        "learning_rate_scheduler": {"type": "slanted_triangular", "gradual_unfreezing": True},
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


def _result(folder: Path, **options: Any) -> Weights:
    return result(_train(folder, **options), folder)


def _files(folder: Path) -> CheckpointFiles:
    return CheckpointFiles(str(folder), rank=0, world_size=1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Weights]:
    """The folder and the result of a run that is not disturbed."""
    folder = tmp_path_factory.mktemp("whole")
    return folder, _result(folder)


@pytest.fixture
def expected(whole: tuple[Path, Weights]) -> Weights:
    return whole[1]


@pytest.fixture
def trained(whole: tuple[Path, Weights], tmp_path: Path) -> Path:
    """A copy of that folder."""
    return Path(shutil.copytree(whole[0], tmp_path / "trained"))


@pytest.mark.parametrize("variant", VARIANTS)
def test_killed_anywhere_and_recovered(variant, tmp_path, monkeypatch, pytestconfig):
    """A run is killed before each batch, between any two file operations of the trainer and the
    checkpointer, and in the middle of each file, or in `make test` at every seventh of these
    places; the last run was killed after all its files were written. Expected are the weights and
    the metrics of a run that is not disturbed, except `training_loss`, the mean since the
    checkpoint. Callbacks are told the same epoch and number of batches. A finished run draws no
    batches."""
    drawn: list[None] = []
    options = dict(VARIANTS[variant])
    options["callbacks"] = [{"type": "last_epoch_for_test"}, *options.get("callbacks", [])]

    def train(folder: Path) -> tuple[Weights, dict[str, Any]]:
        drawn.clear()
        trainer = make_trainer(folder, lambda: drawn.append(None), **options)
        metrics = trainer.train()
        for file in folder.glob("metrics_epoch_*.json"):
            metrics |= {f"{file.stem} {k}": v for k, v in json.loads(file.read_text()).items()}
        varies = ("training_duration", "training_loss", "_MB")
        metrics = {k: None if k.endswith(varies) else v for k, v in metrics.items()}
        return result(trainer, folder), {**metrics, "at the end": LastEpoch.found}

    weights, expected = train(tmp_path / "whole")
    assert {"epoch", "validation_score", "training_loss", "best_epoch"} <= expected.keys()
    for after in itertools.count(step=1 if pytestconfig.getoption("--long") else 7):
        folder = tmp_path / str(after)
        is_finished = _train_and_kill(monkeypatch, folder, after, **options)
        found, metrics = train(folder)
        assert_identical(found, weights)
        assert metrics == expected
        if is_finished:
            assert not drawn
            break
    assert after > (40 if variant == "unvalidated" else 50)  # which has fewer epochs


def test_the_archive_of_an_interrupted_run_is_set_aside(tmp_path: Path) -> None:
    """AllenNLP writes an archive when a run is interrupted. A resumed run keeps it under another
    name, since nobody should take it for its own; a run from the beginning has none."""
    with pytest.raises(Killed):
        _train(tmp_path, killed_before(6))
    (tmp_path / "model.tar.gz").write_text("of the interrupted run")
    _train(tmp_path)
    assert not (tmp_path / "model.tar.gz").exists()
    before = tmp_path / "model.before_resume.tar.gz"
    assert before.read_text() == "of the interrupted run"


def test_nan_weights_are_not_saved(expected: Weights, tmp_path: Path) -> None:
    """A step makes the weights NaN right before the second checkpoint, although the loss is finite.
    Only the first checkpoint is saved, and the run that resumes from it ends as if nothing had
    happened."""
    batches = itertools.count(1)
    trainer = make_trainer(tmp_path)

    def spoil(*_: Any) -> None:
        if next(batches) == BATCHES:
            trainer.model.linear.bias.data[0] = torch.inf

    trainer.optimizer.register_step_post_hook(spoil)
    with pytest.raises(FloatingPointError, match=r"1 epochs and 0 batches: linear\.bias"):
        trainer.train()
    assert _files(tmp_path).complete() == [Point(0, 3)]
    assert not (tmp_path / "best.th").exists()
    assert_identical(_result(tmp_path), expected)


class LazyLoader(SimpleDataLoader):
    """Like AllenNLP's loader with `max_instances_in_memory`, it does not know its length."""

    def __len__(self) -> int:
        raise TypeError


@pytest.mark.parametrize(
    "validation, interval",
    [(None, 1), (SimpleDataLoader, 1), (LazyLoader, 1), (SimpleDataLoader, 2)],
)
def test_shuffled_by_pythons_generator(validation, interval, tmp_path, monkeypatch, pytestconfig):
    """AllenNLP's own loader draws its order from a global generator, also in the batches that the
    trainer discards, those of validation among them, which not every epoch has. The model here uses
    the other generators."""
    rows = torch.randn(7, 3, generator=torch.Generator().manual_seed(0))
    instances = [Instance({"x": TensorField(row)}) for row in rows]

    def options() -> dict[str, Any]:
        kinds = {"loader": SimpleDataLoader, "validation_loader": validation}
        loader = {"batch_size": 2, "shuffle": True, "vocab": Vocabulary()}
        return {
            **{key: kind and kind([*instances], **loader) for key, kind in kinds.items()},
            "make_model": partial(ToyModel, uses_python_random=False),
            "callbacks": [{**EVERY_SECOND, "validation_interval": interval}],
        }

    expected = _result(tmp_path / "whole", **options())
    for after in itertools.count(step=3 if pytestconfig.getoption("--long") else 10):
        folder = tmp_path / str(after)
        if _train_and_kill(monkeypatch, folder, after, **options()):
            break
        assert_identical(_result(folder, **options()), expected)
    assert after > 50


@pytest.mark.parametrize("is_corpus", [True, False])
def test_another_text_is_refused(tmp_path: Path, is_corpus: bool) -> None:
    """The words of a fixed vocabulary do not show that the text has changed, and results on another
    validation text cannot be compared with the best one so far."""

    def loaders(train: str, validation: str) -> dict[str, ToyLoader]:
        found = {"loader": ToyLoader(BATCHES, 40), "validation_loader": ToyLoader(1, 50)}
        for loader, text in zip(found.values(), (train, validation)):
            (path := tmp_path / text).write_text(text)
            what = {"corpus": SimpleNamespace(digests={"tokens": text})}
            vars(loader).update(what if is_corpus else {"data_path": str(path)})
        return found

    _train(tmp_path, num_epochs=1, **loaders("one", "two"))
    before = {file: file.read_bytes() for file in tmp_path.glob("model_state_*.th")}
    for key, texts in (("train", ("other", "two")), ("validation", ("one", "other"))):
        for num_epochs in (1, EPOCHS):  # the first is complete
            with pytest.raises(InputError, match=f"{key}_data_path: expected the text of the"):
                _train(tmp_path, num_epochs=num_epochs, **loaders(*texts))
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
        callbacks=[EVERY_SECOND],
        checkpointer={"keep_most_recent_by_count": None},
    )
    best = torch.load(tmp_path / "best.th")
    assert_identical(best, torch.load(tmp_path / "model_state_e1_b0.th"))
    assert_identical(trainer.model.state_dict(), best)


@pytest.mark.parametrize("kind", ["rank_state", "training_state", "model_state"])
@pytest.mark.parametrize("damage", ["missing", "code"])
def test_damaged_checkpoint_is_ignored(kind, damage, expected, trained, tmp_path):
    """The checkpoint before it leads to the same end, and the content of the file is not run."""
    trap = tmp_path / "trap"
    (path,) = trained.glob(f"{kind}_e3_b0*.th")
    path.unlink()
    if damage == "code":
        torch.save(_Trap(trap), path)
    assert_identical(_result(trained), expected)
    assert not trap.exists()


class _Trap:
    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self._path),)


def test_without_a_complete_checkpoint_training_starts_from_scratch(expected, trained, caplog):
    """Training starts from the beginning and ends as an undisturbed run."""
    for path in trained.glob("model_state_*.th"):
        path.unlink()
    assert_identical(_result(trained), expected)
    assert "belongs to no complete checkpoint" in caplog.text


def test_parts_of_two_runs_never_meet(expected, tmp_path, monkeypatch):
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
        assert_identical(_result(folder), expected)


def test_leftovers_are_removed(tmp_path: Path) -> None:
    """By hand: of all processes, the files after the checkpoint that is resumed, and the temporary
    files of killed processes."""
    kept = {"rank_state_e0_b9_w1of2.th", "rank_state_e1_b0_w1of2.th", "model_state_e1_b0.th"}
    kept |= {"best.th", ".notes"}
    later = ["rank_state_e1_b10_w0of2.th", "rank_state_e1_b10_w1of2.th", "model_state_e2_b0.th"]
    temporary = ["rank_state_e1_b0_w1of2.th", "model_state_e1_b0.th", "best.th", "curve.png"]
    for name in [*kept, *later, *(f".{name}.1a2b3c4d" for name in temporary)]:
        (tmp_path / name).touch()
    (tmp_path / ".vocabulary.1a2b3c4d").mkdir()
    CheckpointFiles(str(tmp_path), rank=0, world_size=2).remove_leftovers(Point(1, 0))
    assert set(os.listdir(tmp_path)) == kept


def test_any_damage_is_noticed(trained: Path, fuzz: Fuzz) -> None:
    """The states are those before the damage, or `None`, after which the checkpoint before is
    used."""

    def states() -> bytes | None:
        """The same bytes for the same tensors and values."""
        found = _files(trained).read(Point(EPOCHS, 0))
        torch.save(found, file := io.BytesIO())
        return found and file.getvalue()

    expected = states()
    paths = sorted(trained.glob("*_state_e3_b0*.th"))
    assert expected and len(paths) == 3
    for random in fuzz.cases(120):
        path = random.choice(paths)
        data = path.read_bytes()
        description, damaged = damage(data, random)
        path.write_bytes(damaged)
        assert states() in (None, expected), (path.name, description)
        path.write_bytes(data)


def test_saved_every_few_minutes_by_default(tmp_path, caplog, monkeypatch):
    """Between two reads of the clock, 100 seconds pass. A run of one epoch that was killed before
    its last batch resumes after the third, and says so. It ends with the weights of the undisturbed
    run."""
    clock = SimpleNamespace(monotonic=partial(next, itertools.count(step=100)))
    monkeypatch.setattr("elmo_plugin.plugin.training.interval_clock.time", clock)
    options: dict[str, Any] = {"num_epochs": 1, "checkpointer": {"save_every_num_batches": None}}
    caplog.set_level(logging.INFO)
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    expected = _result(whole, **options)
    assert f"No checkpoint in {whole}: training starts from the" in caplog.text
    with pytest.raises(Killed):
        _train(folder, killed_before(BATCHES), **options)
    assert _files(folder).complete() == [Point(0, 3)]
    assert_identical(_result(folder, **options), expected)
    path = folder / "model_state_e0_b3.th"
    assert f"Resuming training after 0 epochs and 3 batches, from {path}" in caplog.text


def test_damaged_best_weights_are_removed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The run was killed in its last epoch, and the one before was the best. The trainer, which
    would return the damaged weights, finds none."""
    with pytest.raises(Killed):
        _train(tmp_path, killed_before(2 * (BATCHES + 1) + BATCHES))
    best = tmp_path / "best.th"
    data = best.read_bytes()
    best.unlink()  # and so leave the checkpoint, a link to it, alone
    stored = torch.load(io.BytesIO(data))["linear.bias"].numpy().tobytes()
    best.write_bytes(data.replace(stored, stored[::-1]))
    with pytest.raises(FileNotFoundError, match=r"best\.th"):
        _train(tmp_path)
    assert f"Removing {best}: " in caplog.text


def test_full_disk(expected: Weights, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operating system refuses further writes in the middle of the run's third checkpoint."""
    save = torch.save

    def save_to_full_disk(state: Any, file: Any) -> None:
        is_full = "rank_state_e1_b3" in file.name
        with file_size_limit(1000) if is_full else nullcontext():
            save(state, file)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", save_to_full_disk)
        with pytest.raises(OSError, match=r"rank_state_e1_b3_w0of1.th: .*File too large"):
            _train(tmp_path)
    assert not list(tmp_path.glob(".*.th.*")) and not list(tmp_path.glob("*_e1_b3*"))
    assert_identical(_result(tmp_path), expected)


def _train_with_state(folder: Path, state: dict[str, Any]) -> None:
    """Train with a callback that has this state."""
    trainer = make_trainer(folder, num_epochs=1)
    callback = TrainerCallback(str(folder))
    callback.state_dict = lambda: state  # type: ignore[method-assign]
    trainer._callbacks.append(callback)
    trainer.train()


@pytest.mark.parametrize("found", [pytest.param(print, id="function"), numpy.zeros(2)])
def test_state_that_only_code_could_read_is_refused(found: Any, tmp_path: Path) -> None:
    """The error names the file, which is not written."""
    with pytest.raises(InputError, match=r"training_state_e0_b3.th: expected tensors"):
        _train_with_state(tmp_path, {"found": found})
    assert not list(tmp_path.glob("training_state_*"))


def test_numpys_scalars_come_back_as_pythons(tmp_path: Path) -> None:
    """NumPy's own `item()` is the oracle of the values."""
    values = {"a": numpy.float32(0.1), "b": [numpy.int64(3), (numpy.bool_(True), None)]}
    _train_with_state(tmp_path, values)
    state = torch.load(tmp_path / "training_state_e1_b0.th", weights_only=True)
    assert state["callbacks"][0] == {"a": numpy.float32(0.1).item(), "b": [3, (True, None)]}
    assert type(state["callbacks"][0]["b"][1][0]) is bool
    assert type(state["metric_tracker"]["best_so_far"]) is float


@pytest.mark.parametrize(
    "keep, batches",
    [
        (0, []),
        (None, range(1, 14)),
        # The checkpoint b1 is removed, although the names of b10 to b13 begin with its name.
        (13, range(2, 14)),
    ],
)
def test_old_checkpoints_are_removed(keep: int | None, batches: Any, tmp_path: Path) -> None:
    """The expected files follow from the documentation of `Checkpointer`, and at least one
    checkpoint is kept."""
    _train(
        tmp_path,
        loader=ToyLoader(13, 0),
        num_epochs=1,
        make_model=partial(ToyModel, scores=(0.1,) * 4),
        checkpointer={"save_every_num_batches": 1, "keep_most_recent_by_count": keep},
    )
    points = ["e1_b0", *(f"e0_b{batch}" for batch in batches)]
    names = ("rank_state_{}_w0of1.th", "training_state_{}.th", "model_state_{}.th")
    expected = {name.format(point) for name in names for point in points}
    assert {path.name for path in tmp_path.glob("*_state_*.th")} == expected


def test_another_number_of_processes_is_refused(trained: Path) -> None:
    """The message has the file and both numbers of processes."""
    (path,) = trained.glob("rank_state_e3_b0_*")
    path.rename(trained / "rank_state_e3_b0_w0of2.th")
    with pytest.raises(InputError, match=r"w0of2.th was saved by .* 2 .* but found 1"):
        _train(trained)


def _wait(is_training: Any) -> None:
    is_training.set()
    time.sleep(60)


def test_a_folder_in_which_another_run_trains_is_refused(tmp_path: Path) -> None:
    """The other run is a process that waits in its first batch. Nothing of it is changed, and when
    it is killed, its folder is free."""
    context = multiprocessing.get_context("fork")
    is_training = context.Event()
    run = context.Process(target=_train, args=(tmp_path, partial(_wait, is_training)))
    run.start()
    try:
        assert is_training.wait(60)
        before = sorted(tmp_path.iterdir())
        with pytest.raises(InputError, match=f"{tmp_path}: expected no other run"):
            _train(tmp_path)
        assert sorted(tmp_path.iterdir()) == before
    finally:
        run.kill()
        run.join()
    _train(tmp_path)


def test_what_it_cannot_save_is_refused(tmp_path: Path) -> None:
    """Each process has only a part of a sharded model, and a moving average would be lost. Nothing
    is saved."""
    checkpointer = BiLMCheckpointer(tmp_path, ToyModel())
    checkpointer.state_is_sharded = True
    with pytest.raises(InputError, match="sharded"):
        checkpointer.load_checkpoint()
    with pytest.raises(InputError, match="moving_average"):
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

    options = {"distributed": True, "world_size": 2, **VARIANTS["one_kept"]}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "save", late_save)
        killer = Killer(patch, kill_after, lambda: os.kill(os.getpid(), signal.SIGKILL))
        trainer = _train(folder, killer, rank=rank, **options)
    torch.save({**result(trainer, folder), "random": torch.get_rng_state()}, folder / f"of_{rank}")
    # This skips the clean-up that the process has inherited from the tests.
    os._exit(0)


def _train_distributed(
    folder: Path, run: int, kill_rank: int | None = None, kill_after: int | None = None
) -> list[Weights]:
    """Return the final states, unless a process is killed."""
    folder.mkdir(exist_ok=True)
    context = multiprocessing.get_context("fork")
    processes = []
    for rank in range(2):
        args = (rank, folder, run, kill_after if rank == kill_rank else None)
        processes.append(context.Process(target=_distributed_worker, args=args))
        processes[-1].start()
    if kill_rank is not None:
        processes[kill_rank].join(60)
        assert processes[kill_rank].exitcode == -signal.SIGKILL
        other = processes[1 - kill_rank]
        # It continues until it needs something from the killed process.
        other.join(1)
        other.kill()
        other.join()
        return []
    for process in processes:
        process.join(60)
        assert process.exitcode == 0
    return [torch.load(folder / f"of_{rank}") for rank in range(2)]


def test_two_processes(tmp_path: Path) -> None:
    """One of two processes is killed by SIGKILL. After recovery each has its own carried and random
    states, as in an undisturbed run of two."""
    # This imports what each forked process would otherwise import on first use.
    _train(tmp_path / "alone")
    expected = _train_distributed(tmp_path / "whole", 0)
    for name in ("carried", "random"):
        assert not torch.equal(expected[0][name], expected[1][name])
    for kill_rank, kill_after in [(0, 8), (0, 22), (0, 35), (0, 48), (1, 5), (1, 9), (1, 28)]:
        folder = tmp_path / f"{kill_rank}_{kill_after}"
        _train_distributed(folder, 0, kill_rank, kill_after)
        if kill_after > 8:
            # The first checkpoint is complete, and one process has written its part of the second.
            seen = [set(CheckpointFiles(str(folder), rank, 2).complete()) for rank in range(2)]
            assert seen[0] & seen[1]
        for found, state in zip(_train_distributed(folder, 1), expected):
            assert_identical(found, state)
