"""These tests compare the optimizer `clipped_adagrad` on row-sparse gradients with PyTorch's
Adagrad on dense ones, and `fused_adam` with AllenNLP's `adam`."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.training import GradientDescentTrainer
from allennlp.training.optimizers import Optimizer
from torch.nn.utils import clip_grad_norm_

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.training import optimizer
from tests.compare import assert_close
from tests.plugin.models.running_text import TEXT, batch, language_model, windows
from tests.plugin.models.test_training import KillCallback, config
from tests.plugin.training.test_distributed import forked, processes  # noqa: F401 (a fixture)
from tests.plugin.training.test_distributed import train as train_in_processes
from tests.plugin.training.toy_training import Killed

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


def dense_adagrad(model: torch.nn.Module, groups: Any = None) -> torch.optim.Adagrad:
    return torch.optim.Adagrad(
        groups or model.parameters(), lr=0.2, initial_accumulator_value=1.0, foreach=False
    )


def rows_of(step: int) -> torch.Tensor:
    """Return rows of which some occur twice, and those from 15 on never."""
    return torch.randint(0, 15, (8,), generator=torch.Generator().manual_seed(step))


@pytest.mark.parametrize("scale", [1e-3, 10.0])  # nothing to clip, and always something
def test_steps_are_the_dense_ones(scale):
    """The oracle is PyTorch's Adagrad after its `clip_grad_norm_`, on dense gradients, step by
    step. Rows that were never read do not change by a bit."""
    sparse, dense = Tables(sparse=True), Tables(sparse=False)
    optimizer, reference = optimizer_of(sparse), dense_adagrad(dense)
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
    before = Tables(sparse=True)
    assert not read.all()
    assert torch.equal(sparse.table[~read], before.table[~read])


def test_parameter_groups():
    """The oracle is PyTorch's Adagrad with a learning rate of its own for each group."""
    sparse, dense = Tables(sparse=True), Tables(sparse=False)
    optimizer = optimizer_of(sparse, parameter_groups=[[["table"], {"lr": 0.05}]])
    reference = dense_adagrad(
        dense,
        [
            {"params": [dense.table], "lr": 0.05},
            {"params": [dense.column, *dense.dense.parameters()]},
        ],
    )
    for step in range(N_STEPS):
        for model in (sparse, dense):
            model.zero_grad()
            model(rows_of(step), 1.0).backward()
        clip_grad_norm_(dense.parameters(), 10.0)
        optimizer.step()
        reference.step()
    for (name, found), expected in zip(sparse.named_parameters(), dense.parameters()):
        assert_close(found, expected, atol=1e-6, what=name)


def test_weight_decay_is_for_dense_parameters():
    """The oracle is PyTorch's Adagrad."""
    decay = {"weight_decay": 0.1}
    sparse, dense = Tables(sparse=True), Tables(sparse=False)
    for model in (sparse, dense):
        model(rows_of(0), 1.0).backward()
    clip_grad_norm_(dense.parameters(), 10.0)
    rest = {"params": [dense.table, dense.column]}
    dense_adagrad(dense, [rest, {"params": dense.dense.parameters(), **decay}]).step()
    optimizer_of(sparse, parameter_groups=[[["dense"], decay]]).step()
    for (name, found), expected in zip(sparse.named_parameters(), dense.parameters()):
        assert_close(found, expected, atol=1e-6, what=name)


def test_state_survives_a_file(tmp_path):
    """The weights are bit-identical with those of the uninterrupted run. Loading the file executes
    no code."""
    whole, stopped = Tables(sparse=True), Tables(sparse=True)
    optimizers = [optimizer_of(whole), optimizer_of(stopped)]
    for step in range(N_STEPS):
        for k, model in enumerate((whole, stopped)):
            if model is stopped and step == 3:
                torch.save(optimizers[k].state_dict(), tmp_path / "optimizer.th")
                optimizers[k] = optimizer_of(stopped)
                state = torch.load(tmp_path / "optimizer.th", weights_only=True)
                optimizers[k].load_state_dict(state)
            model.zero_grad()
            model(rows_of(step), 1.0).backward()
            optimizers[k].step()
    for found, expected in zip(stopped.parameters(), whole.parameters()):
        assert torch.equal(found, expected)


def test_no_gradients():
    """By definition: a step without gradients changes nothing."""
    model, expected = Tables(sparse=True), Tables(sparse=True)
    optimizer_of(model).step()
    assert torch.equal(model.table, expected.table)


def test_a_language_model_learns_the_same():
    """The expected weights are those of the dense run."""
    trained = []
    for sparse in (False, True):
        model = language_model(n_negative_samples=4, sparse_gradients=sparse)
        optimizer = optimizer_of(model) if sparse else dense_adagrad(model)
        torch.manual_seed(1)
        for window in windows(TEXT, 4):
            model.zero_grad()
            model(**batch(window))["loss"].backward()
            assert model.softmax.weight.grad.is_sparse == sparse
            if not sparse:
                clip_grad_norm_(model.parameters(), 10.0)
            optimizer.step()
        trained.append(model.state_dict())
    for name, expected in trained[0].items():
        assert_close(trained[1][name], expected, atol=1e-6, what=name)


def test_sparse_gradients_need_samples():
    """The message has the reason."""
    with pytest.raises(InputError, match="sparse_gradients: expected n_negative_samples"):
        language_model(n_negative_samples=None, sparse_gradients=True)


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

    def train(folder: Path, kill_after: int | None = None, recover: bool = False) -> Any:
        KillCallback.done, KillCallback.after = 0, kill_after
        params = with_sparse_gradients(config(tmp_path / "cache").as_dict())
        params["trainer"]["num_epochs"] = 1
        return train_model(Params(params), str(folder), recover=recover).state_dict()

    with pytest.raises(Killed):
        train(tmp_path / "killed", kill_after=25)
    found = train(tmp_path / "killed", recover=True)
    for name, expected in train(tmp_path / "whole").items():
        assert torch.equal(found[name], expected), name


def test_two_processes_follow_one_with_dense_gradients(tmp_path):
    """The expected weights are those of one process with the optimizer `adagrad`, the trainer's
    `grad_norm` and all rows. Every process draws the same samples, and there is no dropout."""
    two, one = processes(tmp_path / "cache", 2), processes(tmp_path / "cache", 2)
    for params in (two, one):
        params["model"]["dropout"] = 0.0
    del one["distributed"]
    one["trainer"]["cuda_device"] = -1
    one["data_loader"]["batch_size"] *= 2
    found = train_in_processes(with_sparse_gradients(two), tmp_path / "two")
    for name, expected in train_in_processes(one, tmp_path / "one").items():
        assert_close(found[name], expected, atol=1e-5, what=name)


def test_numbers_are_those_of_adam():
    """The oracle is AllenNLP's `adam` with the same parameters and groups."""
    found, expected = train_with("fused_adam"), train_with("adam")
    for x, y in zip(found, expected):
        assert_close(x, y, atol=1e-6, what="weights")


@pytest.mark.parametrize("options", [{"momentum": 0.9}, {"lr": -0.1}])
def test_options_of_groups_of_fused_adam(options):
    """The message names the option, which PyTorch would ignore, or whose value it would use."""
    with pytest.raises(
        InputError, match=f"fused_adam.*: parameter_groups: .*{next(iter(options))}"
    ):
        Optimizer.from_params(
            Params({"type": "fused_adam", "parameter_groups": [[["^0"], options]]}),
            model_parameters=list(torch.nn.Linear(1, 1).named_parameters()),
        )


def train_with(kind: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 1))
    groups = [[["^2"], {"lr": 0.1}]]
    params = {"type": kind, "lr": 0.01, "betas": [0.8, 0.95], "parameter_groups": groups}
    optimizer = Optimizer.from_params(
        Params(params), model_parameters=list(model.named_parameters())
    )
    assert all(bool(group["fused"]) == (kind == "fused_adam") for group in optimizer.param_groups)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(3, 5)).square().mean().backward()
        optimizer.step()
    return [weight.detach() for weight in model.parameters()]
