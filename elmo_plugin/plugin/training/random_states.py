"""Saves and restores the states of a process's random number generators."""

import operator
import random
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy
import torch


def get_random_states() -> dict[str, Any]:
    """
    Return the states of the global generators of Python, NumPy and PyTorch (CPU and every visible
    GPU) as plain values and tensors.
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


def restore_unused_generators(saved: dict[str, Any], before: dict[str, Any]) -> None:
    """
    Restore the saved states of the generators that have not been used since `before` was taken.

    On recovery AllenNLP's trainer draws the batches again that were already trained on. A generator
    used for that belongs to the data loader, and drawing the batches has brought it to the right
    state. Any other generator belongs to training and gets its saved state.
    """
    setters: dict[str, Callable[[Any], None]] = {
        "python": random.setstate,
        "numpy": numpy.random.set_state,
        "torch": torch.set_rng_state,
    }
    for generator, state in get_random_states().items():
        equal = torch.equal if isinstance(state, torch.Tensor) else operator.eq
        if generator in saved and equal(state, before[generator]):
            setter = setters.get(generator) or partial(torch.cuda.set_rng_state, device=generator)
            setter(saved[generator])
