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
from allennlp.models import Model
from allennlp.training.callbacks import TrainerCallback
from allennlp.training.metric_tracker import MetricTracker

from elmo_plugin.checks import InputError
from elmo_plugin.modules import sampled_softmax
from elmo_plugin.plugin.callbacks.validate_every import ValidateEveryCallback, keep_if_best
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from tests.compare import assert_close
from tests.conftest import BLOCKS, ROOT, file_size_limit, threads
from tests.plugin.training.toy_training import Killed

TEXT = ROOT / "fixtures" / "text"
MORE_TEXT = "see More text later, with new words in docs/training.md"
"""Where the errors about another text send to, a heading of the page."""


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


def train(
    folder: Path,
    kill_after: int | None = None,
    recover: bool = False,
    validate_every: dict[str, Any] | None = None,
) -> dict[str, Any]:
    KillCallback.done, KillCallback.after = 0, kill_after
    params = config(folder.parent / "cache").as_dict()
    if validate_every is not None:
        callback = {"type": "validate_every", **validate_every}
        params["trainer"]["callbacks"].insert(0, callback)
    model = train_model(Params(params), str(folder), recover=recover)
    assert model is not None
    return model.state_dict()


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> tuple[Path, dict[str, Any]]:
    """Return the folder and the weights of the uninterrupted run."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    return folder, train(folder)


def test_it_learns(whole):
    """The held-out perplexity after two epochs is below that of guessing, which is the number of
    words."""
    folder, _ = whole
    metrics = json.loads((folder / "metrics.json").read_text())
    n_words = len((folder / "vocabulary" / "words.txt").read_text().splitlines())
    assert metrics["best_validation_perplexity"] < n_words / 2
    forward, backward = (metrics[f"validation_{d}_perplexity"] for d in ("forward", "backward"))
    assert metrics["validation_perplexity"] == pytest.approx((forward * backward) ** 0.5)
    assert "training_sampled_loss" in metrics
    assert (folder / "learning_curve.png").stat().st_size > 0


@pytest.mark.parametrize("kill_after", [3, 25, 70])
def test_a_killed_run_ends_with_the_same_bits(whole, tmp_path, kill_after):
    """The expected weights are those of the uninterrupted run. A run is killed before the first
    checkpoint, in the first epoch, and in the second; an epoch has some fifty batches."""
    folder, expected = whole
    with pytest.raises(Killed):
        train(tmp_path / "killed", kill_after=kill_after)
    found = train(tmp_path / "killed", recover=True)
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name
    runs = (folder, tmp_path / "killed")
    curves = [(run / "learning_curve.jsonl").read_text() for run in runs]
    assert curves[0].splitlines()[:-1] == curves[1].splitlines()[:-1]


@pytest.mark.parametrize("sparse", [False, True])
def test_fewer_words_than_samples(tmp_path, sparse):
    """With the default of 8,192 samples, a small vocabulary is trained with the full softmax. The
    weights are those of `n_negative_samples: null`, also where row-sparse gradients are asked for,
    after a run was killed and recovered, and in the archive."""
    params = config(tmp_path / "cache").as_dict()
    params["trainer"].update(num_epochs=1, grad_norm=False)
    params["trainer"]["optimizer"] = {"type": "clipped_adagrad"}
    weights = []
    for name, n_samples in (("null", None), ("more", 8192)):
        params["model"].update(
            n_negative_samples=n_samples, sparse_gradients=bool(n_samples and sparse)
        )
        KillCallback.done, KillCallback.after = 0, 20
        with pytest.raises(Killed):
            train_model(Params(copy.deepcopy(params)), str(tmp_path / name))
        KillCallback.after = None
        model = train_model(Params(copy.deepcopy(params)), str(tmp_path / name), recover=True)
        archived = Model.from_archive(str(tmp_path / name / "model.tar.gz"))
        weights += [model.state_dict(), archived.state_dict()]
        metrics = json.loads((tmp_path / name / "metrics.json").read_text())
        assert metrics["training_perplexity"] < len(
            model.vocab.get_index_to_token_vocabulary("words")
        )
        assert "training_sampled_loss" not in metrics
    assert all(torch.equal(x[name], weights[0][name]) for x in weights for name in weights[0])
    lines = [
        (tmp_path / name / "out.log").read_text().count("full softmax") for name in ("null", "more")
    ]
    assert lines == [0, 3]  # the killed run, the resumed one, and the archive


@pytest.mark.long
def test_another_number_of_threads_on_recovery(whole, tmp_path):
    """Expected: the weights of the uninterrupted run of one thread, up to rounding, because a
    matrix product may be divided in another way."""
    _, expected = whole
    with pytest.raises(Killed):
        train(tmp_path / "killed", kill_after=40)
    with threads(2):
        found = train(tmp_path / "killed", recover=True)
    for name, tensor in expected.items():
        assert_close(found[name], tensor, atol=1e-4, what=name)


def curve(folder: Path) -> list[dict[str, float]]:
    return list(map(json.loads, (folder / "learning_curve.jsonl").read_text().splitlines()))


@pytest.fixture(scope="module")
def watched(tmp_path_factory) -> Path:
    """Returns the folder of a run that validates every 20 batches."""
    folder = tmp_path_factory.mktemp("watched") / "run"
    train(folder, validate_every={"num_batches": 20})
    return folder


def test_validation_within_an_epoch(whole, watched):
    """By hand: an epoch of 50 to 59 batches is validated after 20, 40 and all. Training is
    bit-identical with that of the run without."""
    epoch = next(line["batch"] for line in curve(whole[0]) if "validation_perplexity" in line)
    assert 50 < epoch < 60
    found = [line["batch"] for line in curve(watched) if "validation_perplexity" in line]
    assert found == [20, 40, epoch, epoch + 20, epoch + 40, 2 * epoch]
    assert {"sampled_loss", "validation_perplexity"} <= {key for x in curve(watched) for key in x}
    assert [x for x in curve(watched) if x in curve(whole[0])] == curve(whole[0])
    last = [next(run.glob("model_state_e2_b0.th")) for run in (whole[0], watched)]
    one, other = (torch.load(file, weights_only=True) for file in last)
    assert all(torch.equal(one[name], other[name]) for name in one)


def find_perplexities(monkeypatch: pytest.MonkeyPatch, perplexities: Iterator[float]) -> None:
    """Let each validation find the next one of these."""

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        found = unpatched(self, reset)
        if reset and not self.training:
            found["perplexity"] = next(perplexities)
        return found

    unpatched = BiLMModel.get_metrics
    monkeypatch.setattr(BiLMModel, "get_metrics", get_metrics)


def test_a_best_by_the_clock_survives_a_kill(tmp_path, monkeypatch):
    """The first result, within the epoch, is the best by far; the run is killed after the next
    batch. The expected weights are those of the checkpoint that it leaves, and the expected
    metrics its result."""
    find_perplexities(monkeypatch, iter([20.0, *[25.0] * 9]))
    monkeypatch.setattr(ValidateEveryCallback, "_is_time", lambda self, point: point == (0, 13))
    every, run = {"num_seconds": 600}, tmp_path / "run"
    with pytest.raises(Killed):
        train(run, kill_after=14, validate_every=every)
    expected = torch.load(run / "model_state_e0_b13.th", weights_only=True)
    train(run, recover=True, validate_every=every)
    found = torch.load(run / "best.th", weights_only=True)
    assert all(torch.equal(found[name], expected[name]) for name in found)
    for name in ("metrics.json", "metrics_epoch_0.json"):
        metrics = json.loads((run / name).read_text())
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
    losses = (math.nan, 5.0, math.nan, 9.0, 4.0)
    kept = [keep_if_best(trainer, {"loss": loss}) for loss in losses]
    assert kept == [False, True, False, False, True]
    trainer._metric_tracker.add_metrics({"loss": 9.0})
    assert not trainer._metric_tracker.should_stop_early()


def test_a_resumed_run_refuses_another_text(tmp_path):
    """Its vocabulary is of a third text, so that it is the same for both."""
    text = tmp_path / "train.txt"
    shutil.copy(TEXT / "train.txt", text)
    params = {**config(tmp_path / "cache").as_dict(), "train_data_path": str(text)}
    KillCallback.done, KillCallback.after = 0, 20
    with pytest.raises(Killed):
        train_model(Params(json.loads(json.dumps(params))), str(tmp_path / "run"))
    text.write_text("\n".join(text.read_text("utf-8").splitlines()[::-1]) + "\n", "utf-8")
    KillCallback.after = None
    with pytest.raises(InputError, match=f"train_data_path: expected the text .*{MORE_TEXT}"):
        train_model(Params(params), str(tmp_path / "run"), recover=True)


def test_another_validation_text_leaves_the_best_weights(tmp_path, monkeypatch):
    """A validation of the first batch after a resume would find the other text's result the best,
    which is refused only after that batch. The expected weights are those before."""
    text, run = tmp_path / "heldout.txt", tmp_path / "run"
    shutil.copy(TEXT / "heldout.txt", text)
    params = {**config(tmp_path / "cache").as_dict(), "validation_data_path": str(text)}
    params["trainer"]["callbacks"].insert(0, {"type": "validate_every", "num_batches": 5})
    find_perplexities(monkeypatch, iter([30.0, 40.0, 40.0, 20.0]))
    KillCallback.done, KillCallback.after = 0, 15  # after a checkpoint at 14
    with pytest.raises(Killed):
        train_model(Params(json.loads(json.dumps(params))), str(run))
    before = (run / "best.th").read_bytes()
    text.write_text("the the .\n" * 40)
    KillCallback.after = None
    with pytest.raises(InputError, match="validation_data_path: expected the text of the checkpo"):
        train_model(Params(params), str(run), recover=True)
    assert (run / "best.th").read_bytes() == before


def test_a_full_disk_within_an_epoch(tmp_path, monkeypatch):
    """The system limits the size of files, as where a disk is full. The message is that of all
    files, and not PyTorch's."""
    save = torch.save

    def save_to_full_disk(state, file):
        with file_size_limit(9000):
            save(state, file)

    monkeypatch.setattr(torch, "save", save_to_full_disk)
    with pytest.raises(OSError, match=r"best\.th: could not be written, the disk may be full"):
        train(tmp_path / "run", validate_every={"num_batches": 2})


def test_a_refused_text_leaves_the_runs_vocabulary(tmp_path):
    """AllenNLP saves the vocabulary before the checkpoint is read. The error names a section of the
    page on training."""
    page = (ROOT / "docs" / "training.md").read_text("utf-8")
    assert "## More text later, with new words\n" in page
    text = tmp_path / "train.txt"
    shutil.copy(TEXT / "train.txt", text)
    params = config(tmp_path / "cache").as_dict()
    params["train_data_path"] = params["vocabulary"]["corpus"] = str(text)
    KillCallback.done, KillCallback.after = 0, 20
    with pytest.raises(Killed):
        train_model(Params(json.loads(json.dumps(params))), str(tmp_path / "run"))
    saved = {file: file.read_bytes() for file in (tmp_path / "run" / "vocabulary").iterdir()}
    text.write_text("\n".join(text.read_text("utf-8").splitlines()[60:]) + "\n", "utf-8")
    KillCallback.after = None
    with pytest.raises(InputError, match=f"vocabulary: .* of the run in .*{MORE_TEXT}"):
        train_model(Params(params), str(tmp_path / "run"), recover=True)
    folder = tmp_path / "run" / "vocabulary"
    assert {file: file.read_bytes() for file in folder.iterdir()} == saved


def test_validate_every_refuses_a_moving_average(tmp_path):
    """The trainer validates the averages, and saves the weights."""
    params = config(tmp_path / "cache").as_dict()
    params["trainer"].update(
        callbacks=[{"type": "validate_every", "num_batches": 20}],
        moving_average={"type": "exponential"},
        checkpointer={"type": "default"},
    )
    with pytest.raises(InputError, match=r"validate_every.*with no moving_average"):
        train_model(Params(params), str(tmp_path / "run"))


def test_validate_every_refuses_epochs_without_a_validation(tmp_path):
    """The trainer would not notice a best result within such an epoch."""
    params = config(tmp_path / "cache").as_dict()
    params["trainer"]["callbacks"] = [
        {"type": "validate_every", "num_batches": 20},
        {"type": "should_validate_callback", "validation_interval": 2},
    ]
    with pytest.raises(InputError, match=r"validate_every.*no callback of type should_validate"):
        train_model(Params(params), str(tmp_path / "run"))


@pytest.mark.parametrize("is_first", [True, False])
def test_the_curve_has_no_validation_that_did_not_run(tmp_path, is_first):
    """By hand: of two epochs, only the first is validated."""
    params = config(tmp_path / "cache").as_dict()
    order = slice(None) if is_first else slice(None, None, -1)
    params["trainer"]["callbacks"] = [
        {"type": "learning_curve", "interval": 1000},
        {"type": "should_validate_callback", "validation_interval": 2},
    ][order]
    train_model(Params(params), str(tmp_path / "run"))
    lines = (tmp_path / "run/learning_curve.jsonl").read_text().splitlines()
    assert sum("perplexity" in line for line in lines) == 1


@pytest.mark.parametrize("full_softmax", [False, True])
@pytest.mark.parametrize("best", ["within", "end"])
def test_the_best_within_an_epoch_is_kept(tmp_path, monkeypatch, best, full_softmax):
    """The results of the only epoch are those given here, of two validations within it and one at
    its end. The expected weights are those at the best: of the checkpoint of that moment. A best
    that is not the last is named, because the archive has not what was trained after it."""
    perplexities = iter([30.0, 20.0, 25.0 if best == "within" else 15.0])
    params = config(tmp_path / "cache").as_dict()
    params["trainer"].update(num_epochs=1, patience=1)
    params["trainer"]["checkpointer"].update(
        save_every_num_batches=20, keep_most_recent_by_count=None
    )
    params["trainer"]["callbacks"] = [
        {"type": "validate_every", "num_batches": 20},
        {"type": "learning_curve"},
    ]
    if full_softmax:
        params["model"]["n_negative_samples"] = None
    find_perplexities(monkeypatch, perplexities)
    train_model(Params(params), str(tmp_path / "run"))
    expected = "model_state_e0_b40.th" if best == "within" else "model_state_e1_b0.th"
    one, other = (
        torch.load(tmp_path / "run" / name, weights_only=True) for name in ("best.th", expected)
    )
    assert all(torch.equal(one[name], other[name]) for name in other)
    metrics = json.loads((tmp_path / "run" / "metrics.json").read_text())
    assert metrics["best_validation_perplexity"] == (20.0 if best == "within" else 15.0)
    assert (metrics["best_epoch"], next(perplexities, None)) == (0, None)
    n_batches = max(line["batch"] for line in curve(tmp_path / "run"))
    assert metrics["best_validation_batch"] == (40 if best == "within" else n_batches)
    if full_softmax:  # the mean over the epoch and not since a validation
        losses = [metrics[f"training_{d}_perplexity"] for d in ("forward", "backward")]
        assert metrics["training_perplexity"] == pytest.approx((losses[0] * losses[1]) ** 0.5)
        assert math.log(metrics["training_perplexity"]) == pytest.approx(
            metrics["training_loss"], rel=0.01
        )


@pytest.mark.parametrize("kill_after", [30, 45, 75])
def test_a_killed_run_keeps_the_same_best(watched, tmp_path, kill_after):
    """The expected files are those of the run that was never killed, validations included."""
    killed = tmp_path / "killed"
    every = {"num_batches": 20}
    with pytest.raises(Killed):
        train(killed, kill_after=kill_after, validate_every=every)
    train(killed, recover=True, validate_every=every)
    one, other = (torch.load(run / "best.th", weights_only=True) for run in (watched, killed))
    assert all(torch.equal(one[name], other[name]) for name in one)
    assert curve(watched) == curve(killed)
    assert files_of_metrics(killed) == files_of_metrics(watched)


def files_of_metrics(run: Path) -> dict[str, dict[str, Any]]:
    """The files of metrics, without durations, sizes and the values of `training_`."""
    varies = re.compile("training_.*|.*_MB")
    return {
        file.name: {
            key: None if varies.fullmatch(key) else value
            for key, value in json.loads(file.read_text()).items()
        }
        for file in run.glob("metrics*.json")
    }


@pytest.mark.parametrize("perplexities", [[20.0, 30.0, 25.0, 25.0], [30.0, 25.0, 20.0, 15.0]])
def test_a_run_with_nothing_left_to_train(tmp_path, monkeypatch, perplexities):
    """The expected metrics and curve are those of the run before it was recovered. With a best
    result within the epoch, `best_validation_batch` is its batch."""
    find_perplexities(monkeypatch, iter(perplexities))
    every = {"num_batches": 40}
    run = tmp_path / "run"
    train(run, validate_every=every)
    names = ("metrics.json", "learning_curve.jsonl", "learning_curve.png")
    before = {name: (run / name).read_bytes() for name in names}
    (run / "metrics.json").unlink()  # as if the run had been killed before it was written
    train(run, recover=True, validate_every=every)
    assert {name: (run / name).read_bytes() for name in names} == before


def test_validation_by_the_clock(tmp_path):
    """By hand: with no time in between, each batch is validated."""
    params = config(tmp_path / "cache").as_dict()
    params["trainer"]["num_epochs"] = 1
    params["data_loader"]["batch_size"] = 40
    params["trainer"]["callbacks"] = [
        {"type": "validate_every", "num_seconds": 0},
        {"type": "learning_curve"},
    ]
    train_model(Params(params), str(tmp_path / "run"))
    found = [line["batch"] for line in curve(tmp_path / "run") if "validation_perplexity" in line]
    assert found == [*range(1, len(found)), len(found) - 1] and len(found) > 3


def test_validate_every_needs_a_bilm_and_a_text(tmp_path):
    """The messages name what is missing."""
    callback = ValidateEveryCallback(str(tmp_path), num_batches=1)
    others: dict[str, Any] = {"_callbacks": [], "_moving_average": None}
    trainer = SimpleNamespace(model=torch.nn.Linear(2, 2), _validation_data_loader=[], **others)
    with pytest.raises(InputError, match='expected a training with a model of type "bilm"'):
        callback.on_start(trainer)
    params = config(tmp_path / "cache").as_dict()
    params["trainer"]["callbacks"] = [{"type": "validate_every", "num_batches": 20}]
    del params["validation_data_path"], params["validation_data_loader"]
    with pytest.raises(InputError, match=r"validate_every.*with a validation_data_path"):
        train_model(Params(params), str(tmp_path / "run"))
    params = config(tmp_path / "cache").as_dict()
    params["trainer"]["callbacks"] = [{"type": "validate_every", "num_batches": 20}]
    del params["validation_data_loader"]
    with pytest.raises(InputError, match=r"validate_every.* without shuffle.*, found 'sentences'"):
        train_model(Params(params), str(tmp_path / "run2"))
    for loader, found in (
        ({"batch_size": 4, "shuffle": True}, "shuffle.*, found true"),
        (
            {"batch_sampler": {"type": "bucket", "batch_size": 4}},
            "batch_sampler.*, found <.*Bucket",
        ),
    ):
        params = config(tmp_path / "cache").as_dict()
        params["trainer"]["callbacks"] = [{"type": "validate_every", "num_batches": 20}]
        params["validation_data_loader"] = {"type": "multiprocess", **loader}
        with pytest.raises(InputError, match=f"validate_every.* without {found}"):
            train_model(Params(params), str(tmp_path / f"run_{found[:5]}"))
    for given, found in (({}, "neither"), ({"num_batches": 1, "num_seconds": 1}, "both")):
        with pytest.raises(InputError, match=f"one of num_batches and num_seconds, found {found}"):
            ValidateEveryCallback(str(tmp_path), **given)


def test_the_loss_of_a_resumed_epoch(tmp_path):
    """The expected loss is the mean of the batches since the checkpoint, which the model
    reports."""
    with pytest.raises(Killed):
        train(tmp_path / "killed", kill_after=45)
    train(tmp_path / "killed", recover=True)
    metrics = json.loads((tmp_path / "killed" / "metrics_epoch_0.json").read_text())
    assert metrics["training_loss"] == pytest.approx(metrics["training_sampled_loss"], rel=0.02)


def test_the_bar_moves_after_skipped_batches(capsys):
    """By hand: after 100,000 skipped batches, each that takes longer than `mininterval` is shown.
    By default, tqdm waits for thousands of them."""
    for batch in Tqdm.tqdm(range(100_004), mininterval=0.01):
        if batch >= 100_000:
            time.sleep(0.02)
    shown = capsys.readouterr().err
    assert "100002/100004" in shown and "100003/100004" in shown


def test_a_nan_loss_stops_the_run_and_keeps_the_checkpoint(whole, tmp_path, monkeypatch):
    """The message names the batch. After --recover without the fault, the expected weights are
    those of the run that never had it."""
    _, expected = whole
    calls = count(1)

    def broken(*args: Any) -> torch.Tensor:
        return unbroken(*args) / (next(calls) != 50)  # both directions of 25 batches

    unbroken = sampled_softmax.sampled_softmax_loss
    with (
        monkeypatch.context() as patch,
        pytest.raises(FloatingPointError, match=r"batch 25 .* inf"),
    ):
        patch.setattr(sampled_softmax, "sampled_softmax_loss", broken)
        train(tmp_path / "broken")
    found = train(tmp_path / "broken", recover=True)
    for name, tensor in expected.items():
        assert torch.equal(tensor, found[name]), name


def test_the_papers_trainer_trains(tmp_path, monkeypatch):
    """The trainer block of `bilm_1b.jsonnet`, which clips in the optimizer, trains a tiny model:
    the values of Adagrad's accumulators have grown from 1, except those of rows that were not
    read."""
    monkeypatch.setenv("BILM_TEXT", "text")
    params = config(tmp_path / "cache").as_dict()
    published = Params.from_file(str(ROOT / "training_configs" / "bilm_1b.jsonnet")).as_dict()
    params["model"]["sparse_gradients"] = published["model"]["sparse_gradients"]
    params["trainer"] = {**published["trainer"], "num_epochs": 1, "cuda_device": -1}
    train_model(Params(params), str(tmp_path / "run"))
    state = torch.load(next((tmp_path / "run").glob("training_state_*")))["optimizer"]["state"]
    assert state and all((entry["sum"] > 1).any() for entry in state.values())


@pytest.mark.parametrize(
    "name",
    [
        *("bilm", "bilm_1b", "bilm_finetune", "bilm_small", "bilm_tf", "bilm_tiny", "bilm_words"),
        "bilm_proteins",
        *("tagger", "tagger_elmo"),
    ],
)
def test_configs_are_read(name, monkeypatch):
    """The shipped configs evaluate. Those of a biLM clip gradients, because a long training without
    it diverged. The paper's differs from bilm_tf.jsonnet in its sizes and data."""
    for variable in ("BILM_TEXT", "BILM_DEV", "BILM_ARCHIVE"):
        monkeypatch.setenv(variable, "text")
    monkeypatch.setenv("ELMO_DIM", "128")
    monkeypatch.setenv("ELMO_ARCHIVE", "model.tar.gz")
    found = Params.from_file(str(ROOT / "training_configs" / f"{name}.jsonnet")).as_dict()
    trainer = found["trainer"]
    if found["model"]["type"] == "bilm":
        assert (trainer["grad_norm"] or trainer["optimizer"]["grad_norm"]) > 0
    else:
        assert found["model"]["type"] == "simple_tagger"
    if name == "bilm_1b":
        assert sum(number for _, number in found["model"]["char_cnn"]["filters"]) == 2048
        small = Params.from_file(str(ROOT / "training_configs" / "bilm_tf.jsonnet")).as_dict()
        norm = {"type": "clipped_adagrad", "grad_norm": small["trainer"]["grad_norm"]}
        assert trainer["optimizer"] == {**small["trainer"]["optimizer"], **norm}
        assert trainer["grad_norm"] is False
        assert found["vocabulary"]["corpus"] == found["train_data_path"]
