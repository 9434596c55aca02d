"""
The arrays of a weight file: their names, their shapes, and the parameters of our modules that hold
them. No other file contains TensorFlow's names. Each function describes the arrays of one part of a
language model, in the order in which they are written.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple

from torch import Tensor, nn

from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import NUM_CHARACTERS


class Array(NamedTuple):
    """
    # Parameters

    name : `str`
        The array's name in the file.
    shape : `tuple[int, ...]`
        Its shape in the file.
    parameters : `tuple[str, ...]`
        The names of our parameters that, laid out as `layout` says and concatenated in the first
        dimension, are the array.
    layout : `Callable[[Tensor], Tensor]`
        Gives a view of a parameter in the layout of the file.
    """

    name: str
    shape: tuple[int, ...]
    parameters: tuple[str, ...]
    layout: Callable[[Tensor], Tensor] = Tensor.detach


def _without_row_0(table: Tensor) -> Tensor:
    """Row 0 stands for "no word here", which the file does not have."""
    return table[1:]


def _width_first(filters: Tensor) -> Tensor:
    return filters.permute(2, 1, 0)[None]  # (n, c, w) to (1, w, c, n)


def bilm_arrays(options: BiLMOptions) -> Iterator[Array]:
    """The arrays of the character CNN and of the LSTMs."""
    char_cnn, lstm = options.char_cnn, options.lstm
    c, f, dim, size = char_cnn.embedding.dim, char_cnn.n_filters, lstm.dim, lstm.projection_dim
    table = ("token_encoder.char_embedding.weight",)
    yield Array("char_embed", (NUM_CHARACTERS - 1, c), table, _without_row_0)
    for i, (width, number) in enumerate(char_cnn.filters):
        conv = f"token_encoder.convolutions.{i}"
        yield Array(f"CNN/W_cnn_{i}", (1, width, c, number), (f"{conv}.weight",), _width_first)
        yield Array(f"CNN/b_cnn_{i}", (number,), (f"{conv}.bias",))
    for k in range(char_cnn.n_highway):
        for gate in ("carry", "transform"):
            linear = f"token_encoder.highways.{k}.{gate}"
            yield Array(f"CNN_high_{k}/W_{gate}", (f, f), (f"{linear}.weight",), Tensor.t)
            yield Array(f"CNN_high_{k}/b_{gate}", (f,), (f"{linear}.bias",))
    if f != size:
        linear = "token_encoder.projection"
        yield Array("CNN_proj/W_proj", (f, size), (f"{linear}.weight",), Tensor.t)
        yield Array("CNN_proj/b_proj", (size,), (f"{linear}.bias",))

    directions = (lambda x: x[0]), (lambda x: x[1])  # forward, backward
    for k in range(lstm.n_layers):
        layer = f"bilstm.layers.{k}"
        inputs = (f"{layer}.input_weight", f"{layer}.recurrent_weight")
        for d, direction in enumerate(directions):
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
            yield Array(f"{cell}/W_0", (2 * size, 4 * dim), inputs, direction)
            yield Array(f"{cell}/B", (4 * dim,), (f"{layer}.bias",), direction)
            if size != dim:
                projection = (f"{layer}.projection_weight",)
                yield Array(f"{cell}/W_P_0", (dim, size), projection, direction)


def softmax_arrays(n_words: int, size: int) -> Iterator[Array]:
    yield Array("softmax/W", (n_words, size), ("weight",))
    yield Array("softmax/b", (n_words,), ("bias",))


def array_views(bilm: BiLM, softmax: SampledSoftmax | None = None) -> dict[str, list[Tensor]]:
    """
    Views of our parameters by the name of the array that they are, concatenated. Copying into the
    views reads the array, and copying out of them writes it.
    """
    views = _views(bilm, bilm_arrays(bilm.options))
    if softmax is not None:
        size = bilm.options.lstm.projection_dim
        views |= _views(softmax, softmax_arrays(softmax.n_words, size))
    return views


def _views(module: nn.Module, arrays: Iterator[Array]) -> dict[str, list[Tensor]]:
    return {
        array.name: [array.layout(module.get_parameter(p)).detach() for p in array.parameters]
        for array in arrays
    }
