"""
Counts the useful operations of a task: 2 for each multiply-add in its matrix products, and none for
the rest. Divided by the machine's matrix-product peak, they give the task's minimum time.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from elmo_plugin.modules.token_encoder import unique_words
from elmo_plugin.ops.char_conv.torch_ops import sort_by_length
from elmo_plugin.options import BiLMOptions

FORWARD_AND_BACKWARD = 3
"""Each product needs two more in the backward pass, for the gradients of input and weight."""


def lstm_operations(options: BiLMOptions, n_steps: int) -> int:
    """Count all layers and both directions, each of which reads `n_steps` tokens."""
    lstm = options.lstm
    gates = 2 * lstm.projection_dim * 4 * lstm.dim  # from the input and from the last output
    projection = lstm.dim * lstm.projection_dim if lstm.dim != lstm.projection_dim else 0
    return 2 * n_steps * 2 * lstm.n_layers * (gates + projection)


def char_cnn_operations(options: BiLMOptions, words: Tensor) -> int:
    """
    Count each of `words`, shape `(U, C)`, once. For a convolution, windows count up to the first
    that contains only padding, because all later ones are equal.
    """
    char_cnn = options.char_cnn
    assert char_cnn is not None
    n_filters = char_cnn.n_filters
    _, _, n_windows = sort_by_length(words)
    convolutions = sum(
        sum(n_windows[: words.size(1) - width + 1]) * width * char_cnn.embedding.dim * number
        for width, number in char_cnn.filters
    )
    highways = len(words) * char_cnn.n_highway * 2 * n_filters**2
    projected = n_filters != options.lstm.projection_dim
    projection = len(words) * n_filters * options.lstm.projection_dim if projected else 0
    return 2 * (convolutions + highways + projection)


def reading_operations(
    options: BiLMOptions, batches: Sequence[Tensor], n_boundaries: int = 0
) -> int:
    """
    Count the tokens of batches, each of shape `(B, T, C)`, and so many boundaries. The character
    CNN reads each distinct word once.
    """
    tokens = torch.cat([batch[batch.any(dim=-1)] for batch in batches])  # (N, C)
    words, _ = unique_words(tokens[None])
    of_lstm = lstm_operations(options, len(tokens) + n_boundaries)
    return of_lstm + char_cnn_operations(options, words)


def softmax_operations(options: BiLMOptions, n_targets: int, n_negative_samples: int) -> int:
    """
    Count both directions, each of which predicts `n_targets` words out of the sampled and the true
    one.
    """
    return 2 * 2 * n_targets * (n_negative_samples + 1) * options.lstm.projection_dim


def training_operations(
    options: BiLMOptions, n_negative_samples: int, windows: Sequence[Mapping[str, Tensor]]
) -> float:
    """
    Count a training step, the mean over `windows` of the same shape. Each distinct word of a window
    counts once.
    """
    n_targets = windows[0]["forward_targets"].numel()
    words = sum(char_cnn_operations(options, window["words"].long()) for window in windows)
    total = lstm_operations(options, n_targets) + words / len(windows)
    total += softmax_operations(options, n_targets, n_negative_samples)
    return FORWARD_AND_BACKWARD * total
