"""
A biLM in NumPy and float64 that computes one word and one time step at a time, for comparison with
the fast one. It follows the layout of bilm-tf's files (arrays by their names in the HDF5 file,
options by their keys in `options.json`) and TensorFlow's equations, and shares no code with the
package.

A state is `{(layer, direction): (c, h)}`, c of shape `(D,)`, h of shape `(P,)`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Arrays = Mapping[str, np.ndarray]
Options = Mapping[str, Any]
State = dict[tuple[int, int], tuple[np.ndarray, np.ndarray]]

BEGIN, END = "<S>", "</S>"


def characters(token: str, length: int) -> list[int]:
    """Return bilm-tf's ids: 258, the UTF-8 bytes or the one id of a boundary, 259, and 260 as
    padding."""
    boundary = {BEGIN: [256], END: [257]}
    inside = boundary.get(token) or list(token.encode("utf-8", "ignore"))[: length - 2]
    return ([258, *inside, 259] + [260] * length)[:length]


def word_vector(arrays: Arrays, options: Options, token: str) -> np.ndarray:
    """Return a word's vector, shape `(P,)`: from its characters, or its row in a table of the words
    `options["vocabulary"]`, which has `<UNK>` for others."""
    if "embedding" in arrays:
        words = options["vocabulary"]
        return arrays["embedding"][words.index(token if token in words else "<UNK>")]
    cnn = options["char_cnn"]
    ids = characters(token, cnn["max_characters_per_token"])
    embedded = arrays["char_embed"][ids]  # (C, c)
    maxima = []
    for i, (width, _) in enumerate(cnn["filters"]):
        kernel = arrays[f"CNN/W_cnn_{i}"][0]  # (w, c, n)
        last = len(ids) - width  # the last position of the filter
        responses = sum(embedded[k : k + last + 1] @ kernel[k] for k in range(width))
        y = np.max(responses, axis=0) + arrays[f"CNN/b_cnn_{i}"]
        maxima.append(np.tanh(y) if cnn["activation"] == "tanh" else np.maximum(y, 0))
    x = np.concatenate(maxima)  # (F,)
    for k in range(cnn.get("n_highway", 0)):
        high = {
            name: arrays[f"CNN_high_{k}/{name}"]
            for name in ("W_carry", "b_carry", "W_transform", "b_transform")
        }
        s = sigmoid(x @ high["W_carry"] + high["b_carry"])
        relu = np.maximum(x @ high["W_transform"] + high["b_transform"], 0)
        x = s * relu + (1 - s) * x
    if len(x) == options["lstm"]["projection_dim"]:
        return x
    return x @ arrays["CNN_proj/W_proj"] + arrays["CNN_proj/b_proj"]


def zero_state(options: Options) -> State:
    """Return the initial state of zeros."""
    lstm = options["lstm"]
    c, h = np.zeros(lstm["dim"]), np.zeros(lstm["projection_dim"])
    return {(k, d): (c, h) for k in range(lstm["n_layers"]) for d in (0, 1)}


def stream(
    arrays: Arrays, options: Options, direction: int, inputs: np.ndarray, state: State
) -> tuple[list[np.ndarray], State]:
    """Read word vectors of shape `(T, P)` in one direction, in its own reading order. Return each
    layer's output, `(T, P)`, and the state after it; that of the other direction is unchanged."""
    lstm = options["lstm"]
    state, layers, x = dict(state), [], np.asarray(inputs)
    for k in range(lstm["n_layers"]):
        cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
        c, h = state[k, direction]
        kernel = arrays[f"{cell}/W_0"]  # of x_t, and below it of h
        from_x = x @ kernel[: x.shape[1]] + arrays[f"{cell}/B"]
        y = []
        for gates in from_x:
            i, j, f, o = (gates + h @ kernel[x.shape[1] :]).reshape(4, -1)
            c = clip(sigmoid(f + 1) * c + sigmoid(i) * np.tanh(j), lstm.get("cell_clip"))
            h = sigmoid(o) * np.tanh(c)
            if lstm["projection_dim"] != lstm["dim"]:
                h = clip(h @ arrays[f"{cell}/W_P_0"], lstm.get("proj_clip"))
            y.append(h)
        state[k, direction] = (c, h)
        residual = x if k > 0 and lstm.get("use_skip_connections") else 0
        x = np.array(y) + residual
        layers.append(x)
    return layers, state


def sentence(
    arrays: Arrays, options: Options, tokens: Sequence[str], state: State
) -> tuple[list[np.ndarray], State]:
    """
    Read a sentence, whose `tokens` include the boundaries. Return h_0 .. h_L, each of shape
    `(n, 2P)` with both directions concatenated in the order of the sentence, and the state after
    it.
    """
    x = np.array([word_vector(arrays, options, token) for token in tokens])
    forward, state = stream(arrays, options, 0, x, state)
    backward, state = stream(arrays, options, 1, x[::-1], state)
    pairs = [(x, x), *((f, b[::-1]) for f, b in zip(forward, backward))]
    return [np.concatenate(pair, axis=1) for pair in pairs], state


def log_softmax(arrays: Arrays, hidden: np.ndarray) -> np.ndarray:
    """Return the log probabilities of all V words, shape `(..., V)`, for a top layer's vectors,
    `(..., P)`."""
    logits = hidden @ arrays["softmax/W"].T + arrays["softmax/b"]
    logits -= logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def distributions(
    arrays: Arrays, options: Options, tokens: Sequence[str], state: State
) -> tuple[list[np.ndarray], State]:
    """
    Read a sentence of `tokens`, which include the boundaries. Return the log probabilities of all V
    words for each token but the first, and, in the backward direction, for each but the last, both
    of shape `(n - 1, V)`, and the state after it.
    """
    layers, state = sentence(arrays, options, tokens, state)
    forward, backward = np.split(layers[-1], 2, axis=1)
    return [log_softmax(arrays, x) for x in (forward[:-1], backward[1:])], state


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def clip(x: np.ndarray, bound: float | None) -> np.ndarray:
    """Clip to [-bound, bound]; 0 and `None` mean no bound."""
    return np.minimum(np.maximum(x, -bound), bound) if bound else x
