"""The random number generators of a process: their states out, and in again."""

import random
from typing import Any

import numpy
import torch


def get_random_states() -> dict[str, Any]:
    """
    The states of Python's, NumPy's and PyTorch's global generators, the latter for the CPU and
    for every visible GPU, as plain values and tensors.
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
    Puts one generator, named as in `get_random_states`, into `state`.
    """
    if generator == "python":
        random.setstate(state)
    elif generator == "numpy":
        numpy.random.set_state(state)
    elif generator == "torch":
        torch.set_rng_state(state)
    else:
        torch.cuda.set_rng_state(state, generator)


def set_resting_random_states(saved: dict[str, Any], before: dict[str, Any]) -> None:
    """
    Restores those generators that nobody has drawn from since `before` was taken.

    On recovery AllenNLP's trainer draws the batches already done once more. A generator that
    this moves belongs to the data loader, and drawing has brought it to its place; one that
    rests belongs to training, and takes its saved state.

    # Parameters

    saved : `dict[str, Any]`
        The states to restore, from `get_random_states`.
    before : `dict[str, Any]`
        The states when recovery began, from `get_random_states`.
    """
    for generator, state in get_random_states().items():
        if generator in saved and _same(state, before.get(generator)):
            set_random_state(generator, saved[generator])


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    return one == other
