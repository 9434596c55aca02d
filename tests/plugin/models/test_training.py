"""These tests train a `bilm` with AllenNLP's own trainer, from a config: it learns, and resuming is
bit-identical."""

import copy
import json
import math
import re
import shutil
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params, Tqdm
from allennlp.common.params import with_overrides
from allennlp.data import DataLoader
from allennlp.training.callbacks import ShouldValidateCallback, TrainerCallback
from allennlp.training.metric_tracker import MetricTracker

from elmo_plugin.checks import InputError
from elmo_plugin.modules import sampled_softmax
from elmo_plugin.plugin.callbacks.validate_every import ValidateEveryCallback, keep_if_best
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from tests.compare import assert_close
from tests.conftest import BLOCKS, ROOT, threads
from tests.plugin.models.running_text import language_model
from tests.plugin.training.toy_training import Killed

TEXT = ROOT / "fixtures" / "text"


@TrainerCallback.register("kill_for_test")
class KillCallback(TrainerCallback):
    """Stops the process once it has done a number of batches."""

    after: int | None = None
    done = 0

    def on_batch(self, *args: Any, is_training: bool, **kwargs: Any) -> None:
        if is_training:
            KillCallback.done += 1
            if KillCallback.done == KillCallback.after:
                raise Killed


def config(cache: Path) -> Params:
    """Return the config of a tiny biLM with frequent checkpoints, whose encoded corpora stay in the
    test's folder."""
    encoded = {"type": "bilm", "cache_dir": str(cache)}
    params = {
        "dataset_reader": {"type": "bilm"},
        "train_data_path": str(TEXT / "train.txt"),
        "validation_data_path": str(TEXT / "heldout.txt"),
        "vocabulary": {**encoded, "corpus": str(TEXT / "train.txt"), "min_count": 2},
        "data_loader": {**encoded, "batch_size": 4, "window": 8},
        "validation_data_loader": {**encoded, "batch_size": 2, "window": 8, "shuffle": None},
        "model": {
            "type": "bilm",
            "char_cnn": {"embedding": {"dim": 4}, "filters": [[1, 4], [2, 8]], "n_highway": 1},
            "lstm": BLOCKS["lstm"],
            "n_negative_samples": 20,
        },
        "trainer": {
            "optimizer": {"type": "adagrad", "lr": 0.2, "initial_accumulator_value": 1.0},
            "grad_norm": 10.0,
            "num_epochs": 2,
            "cuda_device": -1,
            "validation_metric": "-perplexity",
            "checkpointer": {"type": "bilm", "save_every_num_batches": 7},
            "callbacks": [{"type": "kill_for_test"}, {"type": "learning_curve", "interval": 5}],
        },
    }
    return Params(json.loads(json.dumps(params)))


def changed(folder: Path, *callbacks: dict[str, Any], **trainer: Any) -> dict[str, Any]:
    """Return this config with other options of the trainer, and callbacks in front."""
    params = config(folder / "cache").as_dict()
    params["trainer"] |= trainer
    params["trainer"]["callbacks"][:0] = callbacks
    return params


def train(
    folder: Path, params: dict[str, Any] | None = None, kill_after: int | None = None
) -> dict[str, Any]:
    """Train or, in a folder with a run, resume; return the weights."""
    KillCallback.done, KillCallback.after = 0, kill_after
    given = Params(copy.deepcopy(params or changed(folder.parent)))
    model = train_model(given, str(folder), recover=folder.exists())
    assert model is not None
    return model.state_dict()


def train_and_kill(folder: Path, after: int, params: dict[str, Any] | None = None) -> None:
    with pytest.raises(Killed):
        train(folder, params, kill_after=after)


def read(file: Path) -> Any:
    """Read metrics or weights."""
    if file.suffix == ".json":
        return json.loads(file.read_text())
    return torch.load(file, weights_only=True)


def assert_equal(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert found.keys() == expected.keys()
    assert [name for name in expected if not torch.equal(found[name], expected[name])] == []


def curve(folder: Path) -> list[dict[str, float]]:
    return list(map(json.loads, (folder / "learning_curve.jsonl").read_text().splitlines()))


def validated(folder: Path) -> list[float]:
    """The batches after which the curve has a validation."""
    return [line["batch"] for line in curve(folder) if "validation_perplexity" in line]


EVERY_20 = {"type": "validate_every", "num_batches": 20}
LOADER = "_validation_data_loader"


@pytest.fixture(scope="module")
def runs(tmp_path_factory) -> dict[str, Path]:
    """The folders of an uninterrupted run, and of one that validates every 20 batches too."""
    folder = tmp_path_factory.mktemp("runs")
    found = {"plain": folder / "plain", "watched": folder / "watched"}
    train(found["plain"])
    train(found["watched"], changed(folder, EVERY_20))
    return found


def test_it_learns(runs):
    """The held-out perplexity after two epochs is below that of guessing, which is the number of
    words."""
    folder = runs["plain"]
    metrics = read(folder / "metrics.json")
    n_words = len((folder / "vocabulary" / "words.txt").read_text().splitlines())
    assert metrics["best_validation_perplexity"] < n_words / 2
    forward, backward = (metrics[f"validation_{d}_perplexity"] for d in ("forward", "backward"))
    assert metrics["validation_perplexity"] == pytest.approx((forward * backward) ** 0.5)
    assert "training_sampled_loss" in metrics
    assert (folder / "learning_curve.png").stat().st_size > 0


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    "kind, kill_after", [("plain", 3), ("plain", 25), ("watched", 45), ("watched", 75)]
)
def test_a_killed_run_ends_with_the_same_bits(runs, tmp_path, kind, kill_after):
    """The expected files are those of the uninterrupted run, validations included. A run is killed
    before the first checkpoint, in the first epoch, and in the second; an epoch has some fifty
    batches."""
    expected, killed = runs[kind], tmp_path / "killed"
    params = changed(tmp_path, *([EVERY_20] if kind == "watched" else []))
    train_and_kill(killed, kill_after, params)
    train(killed, params)
    for name in ("best.th", "model_state_e2_b0.th"):
        assert_equal(read(killed / name), read(expected / name))
    assert curve(killed) == curve(expected)
    assert files_of_metrics(killed) == files_of_metrics(expected)


def files_of_metrics(run: Path) -> dict[str, dict[str, Any]]:
    """The files of metrics, without durations, sizes and the values of `training_`."""
    varies = re.compile("training_.*|.*_MB")
    return {
        file.name: {k: None if varies.fullmatch(k) else v for k, v in read(file).items()}
        for file in run.glob("metrics*.json")
    }


@pytest.mark.long
def test_another_number_of_threads_on_recovery(runs, tmp_path):
    """Expected: the weights of the uninterrupted run of one thread, up to rounding, because a
    matrix product may be divided in another way."""
    train_and_kill(tmp_path / "killed", 40)
    with threads(2):
        found = train(tmp_path / "killed")
    for name, tensor in read(runs["plain"] / "best.th").items():
        assert_close(found[name], tensor, atol=1e-4, what=name)


def test_validation_within_an_epoch(runs):
    """By hand: an epoch of 50 to 59 batches is validated after 20, 40 and all. Training is
    bit-identical with that of the run without."""
    plain, watched = runs.values()
    epoch = validated(plain)[0]
    assert 50 < epoch < 60
    assert validated(watched) == [20, 40, epoch, epoch + 20, epoch + 40, 2 * epoch]
    assert {"sampled_loss", "validation_perplexity"} <= {key for x in curve(watched) for key in x}
    assert [x for x in curve(watched) if x in curve(plain)] == curve(plain)
    assert_equal(*(read(run / "model_state_e2_b0.th") for run in (watched, plain)))


def find_perplexities(monkeypatch: pytest.MonkeyPatch, *values: float) -> Iterator[float]:
    """Let each validation find the next one of these, which are returned."""

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        found = unpatched(self, reset)
        if reset and not self.training:
            found["perplexity"] = next(perplexities)
        return found

    perplexities = iter(values)
    unpatched = BiLMModel.get_metrics
    monkeypatch.setattr(BiLMModel, "get_metrics", get_metrics)
    return perplexities


def test_a_best_by_the_clock_survives_a_kill(tmp_path, monkeypatch):
    """The first result, within the epoch, is the best by far; the run is killed after the next
    batch. The expected weights are those of the checkpoint that it leaves, and the expected
    metrics its result."""
    find_perplexities(monkeypatch, 20.0, *[25.0] * 9)
    monkeypatch.setattr(ValidateEveryCallback, "_is_time", lambda *x: x[-1] == (0, 13))
    params = changed(tmp_path, {"type": "validate_every", "num_seconds": 600})
    run = tmp_path / "run"
    train_and_kill(run, 14, params)
    expected = read(run / "model_state_e0_b13.th")
    train(run, params)
    assert_equal(read(run / "best.th"), expected)
    for name in ("metrics.json", "metrics_epoch_0.json"):
        metrics = read(run / name)
        assert (metrics["best_epoch"], metrics["best_validation_perplexity"]) == (0, 20.0)


def test_no_number_is_never_the_best(tmp_path):
    """A validation whose loss is NaN is not kept, as by the trainer at the end of an epoch. A loss
    that is lower is kept before and after it, and one that is higher is not. The epoch has improved
    although its end has not, so that one epoch of patience is not over."""
    trainer = SimpleNamespace(
        _metric_tracker=MetricTracker("-loss", patience=1),
        _primary=True,
        _serialization_dir=str(tmp_path),
        _total_batches_completed=1,
        _ddp_wrapped_model=None,
        model=torch.nn.Linear(1, 1),
    )
    kept = [keep_if_best(trainer, {"loss": x}) for x in (math.nan, 5.0, math.nan, 9.0, 4.0)]
    assert kept == [False, True, False, False, True]
    trainer._metric_tracker.add_metrics({"loss": 9.0})
    assert not trainer._metric_tracker.should_stop_early()


def test_another_validation_text_leaves_the_best_weights(tmp_path, monkeypatch):
    """A validation of the first batch after a resume would find the other text's result the best.
    The expected weights are those before."""
    text, run = tmp_path / "heldout.txt", tmp_path / "run"
    shutil.copy(TEXT / "heldout.txt", text)
    params = changed(tmp_path, {"type": "validate_every", "num_batches": 5})
    params["validation_data_path"] = str(text)
    find_perplexities(monkeypatch, 30.0, 40.0, 40.0, 20.0)
    train_and_kill(run, 15, params)  # after a checkpoint at 14
    before = (run / "best.th").read_bytes()
    text.write_text("the the .\n" * 40)
    with pytest.raises(InputError, match="validation_data_path: expected the text of the checkpo"):
        train(run, params)
    assert (run / "best.th").read_bytes() == before


@pytest.mark.parametrize("is_first", [True, False])
def test_the_curve_has_no_validation_that_did_not_run(tmp_path, is_first):
    """By hand: of two epochs, only the first is validated."""
    callbacks = [
        {"type": "learning_curve", "interval": 1000},
        {"type": "should_validate_callback", "validation_interval": 2},
    ]
    train(tmp_path / "run", changed(tmp_path, callbacks=callbacks[:: 1 if is_first else -1]))
    assert len(validated(tmp_path / "run")) == 1


@pytest.mark.parametrize(
    "last, checkpoint, full_softmax",
    [(25.0, "model_state_e0_b40.th", True), (15.0, "model_state_e1_b0.th", False)],
)
def test_the_best_within_an_epoch_is_kept(tmp_path, monkeypatch, last, checkpoint, full_softmax):
    """The results of the only epoch are those given here, of two validations within it and one at
    its end. The expected weights are those at the best: of the checkpoint of that moment. A best
    that is not the last is named, because the archive has not what was trained after it."""
    run = tmp_path / "run"
    params = changed(tmp_path, EVERY_20, num_epochs=1, patience=1)
    every_20 = {"save_every_num_batches": 20, "keep_most_recent_by_count": None}
    params["trainer"]["checkpointer"] |= every_20
    if full_softmax:
        params["model"]["n_negative_samples"] = None
    perplexities = find_perplexities(monkeypatch, 30.0, 20.0, last)
    train(run, params)
    assert_equal(read(run / "best.th"), read(run / checkpoint))
    metrics = read(run / "metrics.json")
    assert metrics["best_validation_perplexity"] == min(last, 20.0)
    assert metrics["best_validation_batch"] == (40 if last > 20.0 else curve(run)[-1]["batch"])
    assert (metrics["best_epoch"], next(perplexities, None)) == (0, None)
    if full_softmax:  # the mean over the epoch and not since a validation
        losses = [metrics[f"training_{d}_perplexity"] for d in ("forward", "backward")]
        assert metrics["training_perplexity"] == pytest.approx((losses[0] * losses[1]) ** 0.5)
        logarithm = math.log(metrics["training_perplexity"])
        assert logarithm == pytest.approx(metrics["training_loss"], rel=0.01)


@pytest.mark.parametrize("perplexities", [[20.0, 30.0, 25.0, 25.0], [30.0, 25.0, 20.0, 15.0]])
def test_a_run_with_nothing_left_to_train(tmp_path, monkeypatch, perplexities):
    """The expected metrics and curve are those of the run before it was recovered. With a best
    result within the epoch, `best_validation_batch` is its batch."""
    find_perplexities(monkeypatch, *perplexities)
    params, run = changed(tmp_path, {"type": "validate_every", "num_batches": 40}), tmp_path / "run"
    train(run, params)
    names = ("metrics.json", "learning_curve.jsonl", "learning_curve.png")
    before = {name: (run / name).read_bytes() for name in names}
    (run / "metrics.json").unlink()  # as if the run had been killed before it was written
    train(run, params)
    assert {name: (run / name).read_bytes() for name in names} == before


def test_validation_by_the_clock(tmp_path):
    """By hand: with no time in between, each batch is validated, the last one once."""
    params = changed(tmp_path, {"type": "validate_every", "num_seconds": 0}, num_epochs=1)
    params["data_loader"]["batch_size"] = 40
    train(tmp_path / "run", params)
    found = validated(tmp_path / "run")
    assert found == [*range(1, len(found) + 1)] and len(found) > 3


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"model": torch.nn.Linear(2, 2)}, 'a model of type "bilm"'),
        ({"_callbacks": [ShouldValidateCallback(".")]}, "should_validate_callback"),
        ({"_moving_average": object()}, "no moving_average"),
        ({LOADER: {"type": "bilm", "batch_size": 2}}, "without shuffle.*, found 'sentences'"),
        ({LOADER: {"shuffle": True, "batch_size": 4}}, "shuffle.*, found true"),
        ({LOADER: {"batch_sampler": {"type": "bucket", "batch_size": 4}}}, "_sampler.*<.*Bucket"),
    ],
)
def test_what_validate_every_needs(tmp_path, wrong, message):
    """The messages name what is missing. The trainer would not notice a best result within an epoch
    without a validation, and validates a moving average, and saves the weights."""
    right = {"model": language_model(), "_callbacks": [], "_moving_average": None}
    trainer = SimpleNamespace(**right, _checkpointer=None, _validation_data_loader=[])
    callback = ValidateEveryCallback(str(tmp_path), num_batches=1)
    callback.on_start(trainer)
    if loader := wrong.get(LOADER):
        cache = {"cache_dir": str(tmp_path)} if "type" in loader else {}
        given = {"reader": BiLMDatasetReader(), "data_path": str(TEXT / "heldout.txt")}
        wrong = {LOADER: DataLoader.from_params(Params({**loader, **cache}), **given)}
    vars(trainer).update(wrong)
    with pytest.raises(InputError, match=f"validate_every.*expected a .*{message}"):
        callback.on_start(trainer)


FEW = {"validation_dataset_reader": {"type": "bilm", "max_characters_per_token": 20}}


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"validation_data_path": None, "test_data_path": str(TEXT), **FEW}, "least 50.*found 20$"),
        ({"trainer.grad_norm": None}, "norm: expected a number or false, found null$"),
        ({"trainer.moving_average": {"type": "exponential"}}, "cannot save one"),
        ({"model.sparse_gradients": True}, r"expected .* \"clipped_adagrad\".* grad_norm: false"),
        ({"trainer.validation_metric": ["-loss", "+bleu"]}, "metric: .*'perplexity',.* 'bleu'$"),
        ({"trainer.callbacks": [{"type": "validate_every"}]}, "and num_seconds, found neither$"),
        ({"trainer.callbacks": [{**EVERY_20, "num_seconds": 1}]}, "and num_seconds, found both$"),
        ({"validation_data_path": None, "trainer.callbacks": [EVERY_20]}, "validation_data_path"),
    ],
)
def test_a_start_that_fails_leaves_no_folder(tmp_path, wrong, message):
    """What a validation or a test needs is checked before training."""
    with pytest.raises(InputError, match=message):
        train(tmp_path / "run", with_overrides(changed(tmp_path), wrong))
    assert not (tmp_path / "run").exists()


def test_the_bar_moves_after_skipped_batches(capsys):
    """By hand: after 100,000 skipped batches, each that takes longer than `mininterval` is shown.
    By default, tqdm waits for thousands of them."""
    for batch in Tqdm.tqdm(range(100_004), mininterval=0.01):
        if batch >= 100_000:
            time.sleep(0.02)
    shown = capsys.readouterr().err
    assert "100002/100004" in shown and "100003/100004" in shown


def test_a_nan_loss_stops_the_run_and_keeps_the_checkpoint(runs, tmp_path, monkeypatch):
    """The message names the batch. After --recover without the fault, the expected weights are
    those of the run that never had it."""
    calls = count(1)

    def broken(*args: Any) -> torch.Tensor:
        return unbroken(*args) / (next(calls) != 50)  # both directions of 25 batches

    unbroken = sampled_softmax.sampled_softmax_loss
    monkeypatch.setattr(sampled_softmax, "sampled_softmax_loss", broken)
    with pytest.raises(FloatingPointError, match=r"batch 25 .* inf"):
        train(tmp_path / "broken")
    monkeypatch.undo()
    assert_equal(train(tmp_path / "broken"), read(runs["plain"] / "best.th"))


def test_the_papers_trainer_trains(tmp_path, monkeypatch):
    """The trainer block of `bilm_1b.jsonnet`, which clips in the optimizer, trains a tiny model:
    the values of Adagrad's accumulators have grown from 1, except those of rows that were not
    read."""
    paper, params = published("bilm_1b", monkeypatch), changed(tmp_path)
    params["model"]["sparse_gradients"] = paper["model"]["sparse_gradients"]
    params["trainer"] = {**paper["trainer"], "num_epochs": 1, "cuda_device": -1}
    train(tmp_path / "run", params)
    (file,) = (tmp_path / "run").glob("training_state_*")
    state = read(file)["optimizer"]["state"]
    assert state and all((entry["sum"] > 1).any() for entry in state.values())


def published(name: str, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    for variable in ("BILM_TEXT", "BILM_DEV", "BILM_ARCHIVE"):
        monkeypatch.setenv(variable, "text")
    return Params.from_file(str(ROOT / "training_configs" / f"{name}.jsonnet")).as_dict()


@pytest.mark.parametrize(
    "name", sorted(file.stem for file in (ROOT / "training_configs").glob("bilm*.jsonnet"))
)
def test_configs_clip_gradients(name, monkeypatch):
    """A long training without it diverged."""
    trainer = published(name, monkeypatch)["trainer"]
    assert (trainer["grad_norm"] or trainer["optimizer"]["grad_norm"]) > 0


def test_the_papers_config(monkeypatch):
    """It differs from bilm_tf.jsonnet in its sizes and data, and clips in the optimizer."""
    paper, small = (published(name, monkeypatch) for name in ("bilm_1b", "bilm_tf"))
    assert sum(number for _, number in paper["model"]["char_cnn"]["filters"]) == 2048
    assert paper["vocabulary"]["corpus"] == paper["train_data_path"]
    clip = {"type": "clipped_adagrad", "grad_norm": small["trainer"]["grad_norm"]}
    assert paper["trainer"]["optimizer"] == {**small["trainer"]["optimizer"], **clip}
    assert paper["trainer"]["grad_norm"] is False
