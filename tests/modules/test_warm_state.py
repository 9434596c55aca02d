from pathlib import Path

import torch
import torch.distributed as dist
from torch import multiprocessing

from elmo_plugin.modules import LSTMState
from elmo_plugin.modules.initial_state import HORIZON, WarmState
from tests.compare import assert_close

ZERO = LSTMState(torch.zeros(2, 2, 1, 3), torch.zeros(2, 2, 1, 4))

BATCHES = ([True, True, False, True], [True, False, False, False])
"""Masks of rows at a sentence's start; none of the second batch's odd rows is."""


def random_rows(n_rows: int, mean: float = 0.0) -> LSTMState:
    return LSTMState(*(mean + torch.randn(2, 2, n_rows, x.size(-1)) for x in ZERO))


def test_is_the_mean_of_observed_states():
    """The expected state is the plain mean over all rows at a sentence's start, however they are
    batched, and zeros before the first. Every requested row is the same. A batch without a
    sentence's start keeps the same bits, and the mean is saved with the weights."""
    torch.manual_seed(0)
    warm, seen = WarmState(ZERO), []
    assert not any(x.any() for x in warm(2))
    for n_rows in (4, 1, 7, 4):
        state, at_start = random_rows(n_rows), torch.rand(n_rows) < 0.5
        warm.observe(state, at_start)
        seen.append(state.select(at_start.nonzero()[:, 0]))
        before = [x.clone() for x in warm.state_dict().values()]
        warm.observe(random_rows(3, mean=1e6), torch.zeros(3, dtype=torch.bool))
        assert all(map(torch.equal, before, warm.state_dict().values()))
        loaded = WarmState(ZERO)
        loaded.load_state_dict(warm.state_dict())
        warm = loaded
    assert len(torch.cat([state.cell for state in seen], dim=2)[0, 0]) > 4
    for found, parts in zip(warm(3), zip(*seen)):
        mean = torch.cat(parts, dim=2).mean(dim=2, keepdim=True)
        assert_close(found, mean.expand_as(found), atol=1e-6, what="mean")


def test_follows_the_weights():
    """By the definition of an exponential mean, after three horizons of states around another mean
    1 / e^3 of the first is left."""
    torch.manual_seed(0)
    warm, rows = WarmState(ZERO), torch.ones(100, dtype=torch.bool)
    for mean, n_batches in ((10.0, 5 * HORIZON // 100), (0.0, 3 * HORIZON // 100)):
        for _ in range(n_batches):
            warm.observe(random_rows(100, mean), rows)
    assert_close(warm.memory.mean(), 10 * 2.718**-3, atol=0.1, what="mean")


def test_a_batch_beyond_the_horizon_is_its_mean():
    """The expected state is the plain mean of a batch with more rows than the horizon."""
    torch.manual_seed(0)
    warm = WarmState(ZERO)
    warm.observe(random_rows(HORIZON), torch.ones(HORIZON, dtype=torch.bool))
    state = random_rows(2 * HORIZON, mean=3.0)
    warm.observe(state, torch.ones(2 * HORIZON, dtype=torch.bool))
    mean = state.cell.mean(dim=2, keepdim=True)
    assert_close(warm.memory, mean, atol=1e-5, what="mean")


def observe_in_a_process(rank: int, folder: Path) -> None:
    """Observes every other row of `BATCHES`, as one of two processes."""
    store = dist.FileStore(str(folder / "store"), 2)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=2)
    torch.manual_seed(0)
    warm = WarmState(ZERO)
    for at_start in BATCHES:
        state, rows = random_rows(4), torch.arange(rank, 4, 2)
        warm.observe(state.select(rows), torch.tensor(at_start)[rows])
    torch.save(warm.state_dict(), folder / f"{rank}.th")
    dist.destroy_process_group()


def test_every_process_has_the_mean_over_all(tmp_path):
    """The expected mean is that of one process that observes all rows, and both processes have the
    same bits."""
    multiprocessing.start_processes(
        observe_in_a_process, (tmp_path,), nprocs=2, start_method="fork"
    )
    torch.manual_seed(0)
    warm = WarmState(ZERO)
    for at_start in BATCHES:
        warm.observe(random_rows(4), torch.tensor(at_start))
    first, second = (torch.load(tmp_path / f"{rank}.th", weights_only=True) for rank in (0, 1))
    assert first["count"] == 4
    for name, expected in warm.state_dict().items():
        assert_close(first[name], expected, atol=1e-6, what=name)
        assert torch.equal(first[name], second[name]), name
