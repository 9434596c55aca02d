"""These tests compare the optimizer `clipped_adagrad` on row-sparse gradients with PyTorch's
Adagrad on dense ones, and `fused_adam` with AllenNLP's `adam`."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from allennlp.common import Params
from allennlp.training import GradientDescentTrainer
from allennlp.training.optimizers import Optimizer
from torch.nn.utils import clip_grad_norm_

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.training import optimizer
from tests.compare import assert_close
from tests.plugin.models.running_text import TEXT, batch, language_model, windows
from tests.plugin.models.test_training import assert_equal, changed, read, train, train_and_kill
from tests.plugin.training.test_distributed import (
    as_one,
    forked,  # noqa: F401 (a fixture)
    processes,
)
from tests.plugin.training.test_distributed import train as train_in_processes

N_STEPS = 6


class Tables(torch.nn.Module):
    """A table, a column and a dense layer, which are read at rows of which some occur twice."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.sparse = sparse
        self.table = torch.nn.Parameter(torch.randn(20, 3))
        self.column = torch.nn.Parameter(torch.randn(20))
        self.dense = torch.nn.Linear(3, 1)

    def forward(self, rows: torch.Tensor, scale: float) -> torch.Tensor:
        if self.sparse:
            vectors = torch.nn.functional.embedding(rows, self.table, sparse=True)
            numbers = torch.gather(self.column, 0, rows, sparse_grad=True)
        else:
            vectors, numbers = self.table[rows], self.column[rows]
        x = self.dense(vectors).squeeze(1) * numbers
        return scale * x.square().sum()


def optimizer_of(model: torch.nn.Module, **params: Any) -> Optimizer:
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    return Optimizer.from_params(
        Params({"type": "clipped_adagrad", **params}), model_parameters=named
    )


def rows_of(step: int) -> torch.Tensor:
    """Return rows of which some occur twice, and those from 15 on never."""
    return torch.randint(0, 15, (8,), generator=torch.Generator().manual_seed(step))


def groups_of(model: Tables, **options: dict[str, float]) -> list[dict[str, Any]]:
    """Return PyTorch's groups of parameters, with these options for some of them."""
    parts = {"table": [model.table], "column": [model.column], "dense": model.dense.parameters()}
    return [{"params": part, **options.get(name, {})} for name, part in parts.items()]


@pytest.mark.parametrize(
    ("scale", "options"),
    [
        (1e-3, {}),  # nothing to clip
        (10.0, {}),  # always something
        (10.0, {"table": {"lr": 0.05}}),
        (10.0, {"dense": {"weight_decay": 0.1}}),
    ],
)
def test_steps_are_the_dense_ones(scale, options):
    """The oracle is PyTorch's Adagrad after its `clip_grad_norm_`, on dense gradients, step by
    step, with the same groups. Rows that were never read do not change by a bit, nor does anything
    in a step without gradients."""
    sparse, dense = Tables(sparse=True), Tables(sparse=False)
    groups = [[[name], values] for name, values in options.items()]
    optimizer = optimizer_of(sparse, **({"parameter_groups": groups} if groups else {}))
    defaults = {"lr": 0.2, "initial_accumulator_value": 1.0, "foreach": False}
    reference = torch.optim.Adagrad(groups_of(dense, **options), **defaults)
    optimizer.step()
    before = Tables(sparse=True)
    assert all(map(torch.equal, sparse.parameters(), before.parameters()))
    read = torch.zeros(20, dtype=torch.bool)
    for step in range(N_STEPS):
        read[rows_of(step)] = True
        for model in (sparse, dense):
            model.zero_grad()
            model(rows_of(step), scale).backward()
        assert sparse.table.grad.is_sparse and sparse.column.grad.is_sparse
        norm = clip_grad_norm_(dense.parameters(), 10.0)
        assert (norm > 10.0) == (scale == 10.0)
        optimizer.step()
        reference.step()
        for (name, found), expected in zip(sparse.named_parameters(), dense.parameters()):
            assert_close(found, expected, atol=1e-6, what=f"{name} after step {step}")
    assert not read.all()
    assert torch.equal(sparse.table[~read], before.table[~read])


def test_another_optimizer_is_refused():
    """The message names the expected optimizer, and what to do with the trainer's grad_norm."""
    model = language_model(n_negative_samples=4, sparse_gradients=True)
    window = windows(TEXT, 4)[0]
    with pytest.raises(InputError, match=r"expected .* \"clipped_adagrad\".* grad_norm: false"):
        model(**batch(window))
    model.eval()(**batch(window))  # what no optimizer has to do with


def test_the_trainer_does_not_clip_rows_that_are_exchanged_later(monkeypatch):
    """In several processes, each would clip by the norm of its own rows; in one it may."""
    model = Tables(sparse=True)
    optimizer_of(model)
    model(rows_of(0), 1.0).backward()
    trainer: Any = SimpleNamespace(
        model=model, _grad_norm=0.1, _scaler=None, _ddp_wrapped_model=None
    )
    GradientDescentTrainer.rescale_gradients(trainer)
    monkeypatch.setattr(optimizer, "is_distributed", lambda: True)
    with pytest.raises(InputError, match="grad_norm: expected false in several processes"):
        GradientDescentTrainer.rescale_gradients(trainer)
    trainer._grad_norm = False
    GradientDescentTrainer.rescale_gradients(trainer)


def with_sparse_gradients(params: dict[str, Any]) -> dict[str, Any]:
    """Return the same training with row-sparse gradients."""
    params["model"]["sparse_gradients"] = True
    params["trainer"]["optimizer"].update(
        type="clipped_adagrad", grad_norm=params["trainer"].pop("grad_norm")
    )
    return params


def test_a_killed_run_ends_with_the_same_bits(tmp_path):
    """The expected weights are those of the uninterrupted run."""
    params = with_sparse_gradients(changed(tmp_path, num_epochs=1))
    expected = train(tmp_path / "whole", params)
    train_and_kill(tmp_path / "killed", 25, params)
    assert_equal(train(tmp_path / "killed", params), expected)


LONG = (pytest.param({"tied": tied}, marks=pytest.mark.long) for tied in (True, False))


@pytest.mark.parametrize("words", [None, *LONG])
def test_two_processes_follow_one_with_dense_gradients(tmp_path, words):
    """The expected weights, warm state, metrics and curve are those of one process with the
    optimizer `adagrad`, the trainer's `grad_norm` and all rows. Every process draws the same
    samples, and there is no dropout. Of a table of words, each process reads rows of its own. Both
    runs validate within epochs too, and evaluate on a text after training."""
    params = processes(tmp_path / "cache", 2)
    params |= {"test_data_path": params["train_data_path"], "evaluate_on_test": True}
    every = {"type": "validate_every", "num_batches": 40}
    callbacks = [every, {"type": "learning_curve", "interval": 1}]
    params["trainer"] |= {"callbacks": callbacks, "num_epochs": 2 if words else 1}
    params["model"]["dropout"] = 0.0
    if words is not None:
        del params["model"]["char_cnn"]
        size = params["model"]["lstm"]["projection_dim"]
        params["model"]["words"] = {"dim": size, **words}
    one = as_one(params)
    found = train_in_processes(with_sparse_gradients(params), tmp_path / "two")
    for name, expected in train_in_processes(one, tmp_path / "one").items():
        assert_close(found[name], expected, atol=1e-5, what=name)
    metrics, curves = [], []
    for run in ("one", "two"):
        values = read(tmp_path / run / "metrics.json").items()
        metrics.append({k: x for k, x in values if k.endswith(("loss", "perplexity"))})
        lines = (tmp_path / run / "learning_curve.jsonl").read_text().splitlines()
        curves.append([x for line in lines for x in json.loads(line).values()])
    assert metrics[1] == pytest.approx(metrics[0], rel=1e-5)
    assert curves[1] == pytest.approx(curves[0], rel=1e-5)


def test_numbers_are_those_of_adam():
    """The oracle is AllenNLP's `adam` with the same parameters and groups."""
    weights = []
    for kind in ("fused_adam", "adam"):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 1))
        groups = [[["^2"], {"lr": 0.1}]]
        params = {"type": kind, "lr": 0.01, "betas": [0.8, 0.95], "parameter_groups": groups}
        named = list(model.named_parameters())
        optimizer = Optimizer.from_params(Params(params), model_parameters=named)
        assert {bool(group["fused"]) for group in optimizer.param_groups} == {kind == "fused_adam"}
        for _ in range(20):
            optimizer.zero_grad()
            model(torch.randn(3, 5)).square().mean().backward()
            optimizer.step()
        weights.append(torch.nn.utils.parameters_to_vector(model.parameters()))
    assert_close(*weights, atol=1e-6, what="weights")


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"lr": -0.1}])
def test_options_of_groups_of_fused_adam(options):
    """The message names the option, which PyTorch would ignore, or whose value it would use."""
    params = Params({"type": "fused_adam", "parameter_groups": [[["^0"], options]]})
    named = list(torch.nn.Linear(1, 1).named_parameters())
    (option,) = options
    with pytest.raises(InputError, match=f"fused_adam.*: parameter_groups: .*{option}"):
        Optimizer.from_params(params, model_parameters=named)
