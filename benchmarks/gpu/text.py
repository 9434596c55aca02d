"""Text of invented words with the statistics of English, so that a measurement needs no file."""

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.text.characters import bytes_to_characters

Window = dict[str, Tensor]
"""The tensors of a window, with the names and shapes of the `bilm` data loader."""


def on_device(window: Window, device: torch.device) -> Window:
    return {name: x.to(device, non_blocking=True) for name, x in window.items()}


class InventedText:
    """
    Words are numbered by falling frequency. The frequencies follow Zipf's law with Mandelbrot's
    offset of 2.7, and a rarer word is longer: 2 letters on average for the first word, and 10 for
    the millionth.

    # Parameters

    n_words : `int`
        Size of the vocabulary.
    n_characters : `int`
        `max_characters_per_token` of the biLM that reads the text.
    """

    def __init__(self, n_words: int, n_characters: int) -> None:
        self._draw = np.random.default_rng(0)
        self._n_characters = n_characters
        ranks = np.arange(n_words)
        self._cumulative = np.cumsum(1 / (ranks + 2.7))
        self._lengths = 1 + self._draw.poisson(1 + 0.6 * np.log1p(ranks))
        self._starts = np.cumsum(self._lengths) - self._lengths
        self._letters = self._draw.integers(97, 123, self._lengths.sum(), dtype=np.uint8)

    def windows(self, n_rows: int, n_steps: int, count: int) -> list[Window]:
        """`count` windows of running text without sentence boundaries, on the CPU."""
        return [self._window(n_rows, n_steps) for _ in range(count)]

    def sentences(self, n_tokens: int) -> list[list[str]]:
        """Sentences of 24 words on average, at least `n_tokens` words in all."""
        found: list[list[str]] = []
        while n_tokens > 0:
            length = 1 + int(self._draw.gamma(3.0, 23 / 3))
            found.append([self._word(number) for number in self._numbers(length)])
            n_tokens -= length
        return found

    def _window(self, n_rows: int, n_steps: int) -> Window:
        forward, backward = self._numbers((2, n_rows, n_steps + 1))
        inputs = np.stack([forward[:, :-1], backward[:, 1:]])
        distinct, places = np.unique(inputs, return_inverse=True)
        arrays = {
            "words": bytes_to_characters(
                self._letters, self._starts[distinct], self._lengths[distinct], self._n_characters
            ),
            "forward_targets": forward[:, 1:],
            # The backward direction reads from right to left.
            "backward_targets": backward[:, :-1][:, ::-1],
        }
        places = places.reshape(inputs.shape)
        arrays |= {"forward_inputs": places[0], "backward_inputs": places[1][:, ::-1]}
        return {name: torch.from_numpy(x.copy()) for name, x in arrays.items()}

    def _numbers(self, shape: int | tuple[int, ...]) -> np.ndarray:
        """Word numbers of running text, int64."""
        drawn = self._draw.random(shape) * self._cumulative[-1]
        return np.searchsorted(self._cumulative, drawn, side="right")

    def _word(self, number: int) -> str:
        first = self._starts[number]
        return self._letters[first : first + self._lengths[number]].tobytes().decode()
