"""Saves and restores the states of a process's random number generators."""

import random
from typing import Any

import numpy
import torch


def get_random_states() -> dict[str, Any]:
    """
    Returns the states of Python's, NumPy's and PyTorch's global generators, of the CPU and of every
    visible GPU, as plain values and tensors.
    """
    name, keys, position, has_gauss, cached = numpy.random.get_state(legacy=True)
    states: dict[str, Any] = {
        "python": random.getstate(),
        "numpy": (name, keys.tolist(), position, has_gauss, cached),  # type: ignore[union-attr]
        "torch": torch.get_rng_state(),
    }
    for device in range(torch.cuda.device_count()):
        states[f"cuda:{device}"] = torch.cuda.get_rng_state(device)
    return states


def set_random_state(generator: str, state: Any) -> None:
    """
    Sets the state of one generator, named as in `get_random_states`.
    """
    if generator == "python":
        random.setstate(state)
    elif generator == "numpy":
        numpy.random.set_state(state)
    elif generator == "torch":
        torch.set_rng_state(state)
    else:
        torch.cuda.set_rng_state(state, generator)


def restore_unused_generators(saved: dict[str, Any], before: dict[str, Any]) -> None:
    """
    Restores the saved states of those generators that have not been used since `before` was taken.

    On recovery AllenNLP's trainer draws again the batches that were already trained on. A generator
    that this uses belongs to the data loader, and drawing the batches has brought it to the right
    state. Any other generator belongs to training and gets its saved state.

    # Parameters

    saved : `dict[str, Any]`
        States to restore, from `get_random_states`.
    before : `dict[str, Any]`
        States at the start of the recovery, from `get_random_states`.
    """
    for generator, state in get_random_states().items():
        if generator in saved and _same(state, before.get(generator)):
            set_random_state(generator, saved[generator])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    return one == other
