"""The names of bilm-tf's arrays, and our parameters as views of their layout."""

from collections.abc import Iterable, Iterator
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from elmo_plugin.formats.bilm_tf.texts import OPTIONS
from elmo_plugin.modules import BiLM, CharCNN, SampledSoftmax
from elmo_plugin.modules.lexicon import CodePoints, WordList
from elmo_plugin.modules.token_encoder import WordTable

EMBEDDING = "embedding"
SOFTMAX_WEIGHT, SOFTMAX_BIAS = "softmax/W", "softmax/b"

WRITTEN_FOR = OPTIONS
"""Attribute of a weight file that contains its options. Other programs ignore it."""

# Other programs do not have these.
WARM_STATE = ("warm_state/memory", "warm_state/output")
WORDS, CODE_POINTS, MARKS = LEXICON = ("lexicon/words", "lexicon/code_points", "lexicon/marks")
"""What a token encoder looks up. As all arrays, they are numbers of floating point, which hold the
whole numbers exactly."""


class Arrays(Protocol):
    """
    The named arrays of floating-point numbers of a biLM. Each method raises an `InputError` that
    begins with the file's path if a file is damaged.
    """

    n_bytes: int
    """The size of all files."""

    def path(self, name: str = "") -> str:
        """The file with the array `name`."""

    def names(self) -> Iterable[str]: ...

    def shape(self, name: str) -> tuple[int, ...] | None:
        """The shape of an array; `None` if there is no such array."""

    def rows(self, name: str) -> Iterator[np.ndarray]:
        """The rows of an array, in blocks, so that a large one is not in memory twice."""


def array_views(bilm: BiLM, softmax: SampledSoftmax | None = None) -> dict[str, list[Tensor]]:
    """
    Views of our parameters by array name, in the order in which the arrays are written. An array is
    its views concatenated along the first dimension: copying into the views reads it, and copying
    out of them writes it.
    """
    views = _encoder_views(bilm.token_encoder)
    for k, layer in enumerate(bilm.bilstm.layers):
        for d in (0, 1):  # forward, backward
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
            views[f"{cell}/W_0"] = [layer.input_weight[d], layer.recurrent_weight[d]]
            views[f"{cell}/B"] = [layer.bias[d]]
            if layer.projection_weight is not None:
                views[f"{cell}/W_P_0"] = [layer.projection_weight[d]]
    if softmax is not None:
        if not bilm.options.is_tied:  # then it is the array `embedding`
            views[SOFTMAX_WEIGHT] = [softmax.weight]
        views[SOFTMAX_BIAS] = [softmax.bias]
    for name in WARM_STATE:
        views[name] = [getattr(bilm.warm_state, name.rpartition("/")[2])]
    for module in bilm.token_encoder.modules():
        if isinstance(module, WordList):
            views[WORDS] = [module.text]
        elif isinstance(module, CodePoints):
            views[CODE_POINTS], views[MARKS] = [module.code_points], [module.marks]
    return {name: [part.detach() for part in parts] for name, parts in views.items()}


def _encoder_views(encoder: Any) -> dict[str, list[Tensor]]:
    views: dict[str, list[Tensor]] = {}
    for module in encoder.modules():
        if isinstance(module, CharCNN):
            # Row 0 means "no word here", and the file does not contain it.
            views["char_embed"] = [module.char_embedding.weight[1:]]
            for i, conv in enumerate(module.convolutions):
                # (n, c, w) to (1, w, c, n)
                views[f"CNN/W_cnn_{i}"] = [conv.weight.permute(2, 1, 0)[None]]
                views[f"CNN/b_cnn_{i}"] = [conv.bias]
            for k, highway in enumerate(module.highways):
                for gate in ("carry", "transform"):
                    linear = getattr(highway, gate)
                    views[f"CNN_high_{k}/W_{gate}"] = [linear.weight.t()]
                    views[f"CNN_high_{k}/b_{gate}"] = [linear.bias]
        elif isinstance(module, WordTable):
            views[EMBEDDING] = [module.embedding.weight]
    # Encoders inside another one have no projection.
    if encoder.projection is not None:
        views["CNN_proj/W_proj"] = [encoder.projection.weight.t()]
        views["CNN_proj/b_proj"] = [encoder.projection.bias]
    return views
