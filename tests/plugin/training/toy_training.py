"""A small training run that depends on everything that a checkpoint has to keep, and a way to kill
it."""

import os
import random
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.data.data_loaders import DataLoader
from allennlp.models import Model
from allennlp.training import GradientDescentTrainer, Trainer

Weights = dict[str, torch.Tensor]

BATCHES = 4
EPOCHS = 3


def nothing() -> None:
    pass


class Carried(torch.nn.Module):
    """A state that is carried from batch to batch and resumed; no part of the weights."""

    def __init__(self, start: float) -> None:
        super().__init__()
        self.carried = torch.full((2, 3), start)
        self.register_load_state_dict_pre_hook(_take_resume_state)

    def resume_state(self) -> dict[str, torch.Tensor]:
        return {"carried": self.carried}


def _take_resume_state(module: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    if prefix + "resume_state" in state_dict:
        module.carried = state_dict.pop(prefix + "resume_state")["carried"].clone()


class ToyModel(Model):
    """Carries states from batch to batch, itself and in a module, has tied weights, and draws from
    all generators, Python's only if `uses_python_random`. `scores` are the validation metrics after
    the epochs."""

    batches: torch.Tensor

    def __init__(
        self, scores: tuple[float, ...] = (0.3, 0.7, 0.1), uses_python_random: bool = True
    ) -> None:
        super().__init__(Vocabulary())
        self._scores = scores
        self._uses_python_random = uses_python_random
        self.linear = torch.nn.Linear(3, 3)
        self.tied = torch.nn.Linear(3, 3, bias=False)
        self.tied.weight = self.linear.weight
        self.dropout = torch.nn.Dropout(0.5)
        self.register_buffer("batches", torch.tensor(0))
        self.carried = torch.zeros(2, 3)
        self.inner = Carried(0.5)
        self.register_load_state_dict_pre_hook(_take_resume_state)

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:  # type: ignore[override]
        before = self.carried * self.inner.carried
        carried = torch.tanh(self.tied(self.dropout(self.linear(x))) + before)
        loss = carried.pow(2).mean() * (1.0 + numpy.random.rand())
        if self._uses_python_random:
            loss = loss * (1.0 + random.random())
        if self.training:
            self.carried, self.inner.carried = carried.detach(), 1 - carried.detach()
            self.batches += 1
        return {"loss": loss}

    def get_metrics(self, reset: bool = False) -> dict[str, float]:
        epoch = max(int(self.batches) - 1, 0) // BATCHES
        return {"score": numpy.float64(self._scores[epoch])}

    def resume_state(self) -> dict[str, torch.Tensor]:
        return {"carried": self.carried}


class ToyLoader(DataLoader):
    """Two rows per batch, shuffled depending only on seed and epoch. `each_batch` is called before
    each batch."""

    def __init__(self, size: int, seed: int, each_batch: Callable[[], None] = nothing) -> None:
        self._data = torch.randn(size, 2, 3, generator=torch.Generator().manual_seed(seed))
        self._seed = seed
        self._epoch = 0
        self._each_batch = each_batch

    def __len__(self) -> int:
        return len(self._data)

    def __iter__(self) -> Iterator[dict[str, torch.Tensor]]:  # type: ignore[override]
        generator = torch.Generator().manual_seed(self._seed + self._epoch)
        self._epoch += 1
        for i in torch.randperm(len(self._data), generator=generator):
            self._each_batch()
            yield {"x": self._data[i]}

    def set_target_device(self, device: torch.device) -> None:
        pass


def make_trainer(
    folder: Path,
    each_batch: Callable[[], None] = nothing,
    *,
    make_model: Callable[[], Model] = ToyModel,
    loader: DataLoader | None = None,
    validation_loader: DataLoader | None = None,
    rank: int = 0,
    checkpointer: dict[str, Any] | None = None,
    **options: Any,
) -> GradientDescentTrainer:
    """The trainer of a new process, constructed from parameters as `allennlp train` does it:
    `options` for itself, and those of the checkpointer. `each_batch` is called before each batch of
    training and validation, and `make_model` after the generators have been seeded."""
    random.seed(10 + rank)
    numpy.random.seed(20 + rank)
    torch.manual_seed(30 + rank)
    params: dict[str, Any] = {
        "num_epochs": EPOCHS,
        "cuda_device": -1,
        "optimizer": {"type": "adam", "lr": 0.05},
        "learning_rate_scheduler": {"type": "linear_with_warmup", "warmup_steps": 6},
        "validation_metric": "+score",
        "enable_default_callbacks": False,
        "run_confidence_checks": False,
        "checkpointer": {"type": "bilm", "save_every_num_batches": 3, **(checkpointer or {})},
    }
    if validation_loader is None:
        validation_loader = ToyLoader(1, 50 + rank, each_batch)
    trainer = Trainer.from_params(
        Params({**params, **options}),
        model=make_model(),
        data_loader=loader or ToyLoader(BATCHES, 40 + rank, each_batch),
        validation_data_loader=validation_loader,
        serialization_dir=str(folder),
        local_rank=rank,
    )
    assert isinstance(trainer, GradientDescentTrainer)
    return trainer


def result(trainer: GradientDescentTrainer, folder: Path) -> Weights:
    """Return everything that two runs must agree on at their end, and check that nothing unfinished
    is left."""
    assert not list(folder.glob(".*.th.*"))
    last = max(folder.glob("model_state_*.th"), key=lambda path: _numbers(path.name))
    assert isinstance(trainer.model, ToyModel)
    states = {
        "best": torch.load(folder / "best.th", weights_only=True),
        "last": torch.load(last, weights_only=True),
        "returned": {name: value.clone() for name, value in trainer.model.state_dict().items()},
    }
    found = {f"{kind} {name}": x for kind, state in states.items() for name, x in state.items()}
    return {**found, "carried": trainer.model.carried}


def assert_identical(found: Weights, expected: Weights) -> None:
    assert found.keys() == expected.keys()
    different = [name for name in expected if not torch.equal(found[name], expected[name])]
    assert not different, different


def _numbers(name: str) -> tuple[int, ...]:
    return tuple(int(part[1:]) for part in name.removesuffix(".th").split("_")[2:])


class Killed(BaseException):
    """Not an `Exception`, because nothing handles SIGKILL either."""


def killed_before(batch: int) -> Callable[[], None]:
    """Return an `each_batch` that kills before this batch. They are counted from 1, with those of
    validation."""
    left = iter(range(batch - 1))

    def each_batch() -> None:
        if next(left, None) is None:
            raise Killed

    return each_batch


class Killer:
    """Simulates SIGKILL, by calling `kill` or else by raising `Killed`, once `after` of these have
    happened: before a batch, before or in the middle of writing a file by `torch.save`, before a
    file is synced, moved, linked or removed. After it nothing of this works, so that no clean-up
    helps. Without `after`, all of them happen."""

    def __init__(
        self,
        monkeypatch: pytest.MonkeyPatch,
        after: int | None = None,
        kill: Callable[[], None] | None = None,
    ) -> None:
        self._left = after
        self._kill = kill
        for name in ("replace", "remove", "unlink", "link", "fsync"):
            monkeypatch.setattr(os, name, self._guarded(getattr(os, name)))
        monkeypatch.setattr(torch, "save", self._guarded_save(torch.save))

    def __call__(self) -> None:
        if self._left is not None:
            self._left -= 1
            if self._left < 0 and self._kill is not None:
                self._kill()
            if self._left < 0:
                raise Killed

    def _guarded(self, function: Callable) -> Callable:
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self()
            return function(*args, **kwargs)

        return guarded

    def _guarded_save(self, save: Callable) -> Callable:
        def guarded(state: Any, file: Any) -> None:
            self()
            if self._left == 0:
                # The trainer passes a name, the checkpointer a file.
                with open(file, "wb") if isinstance(file, str) else nullcontext(file) as opened:
                    opened.write(b"PK\x03\x04 and no more")
                    opened.flush()
            self()
            save(state, file)

        return guarded
