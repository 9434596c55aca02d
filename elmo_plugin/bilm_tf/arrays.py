"""
The arrays of a weight file: their names, shapes, and places in our modules. No other file knows
TensorFlow's names.
"""

from collections.abc import Iterator

from torch import Tensor

from elmo_plugin.data.characters import NUM_CHARACTERS
from elmo_plugin.modules import BiLM, CharCNN, SampledSoftmax
from elmo_plugin.options import BiLMOptions


def table(bilm: BiLM, softmax: SampledSoftmax | None = None) -> dict[str, list[Tensor]]:
    """
    The format, as one table: from the name of each array in the file to views of our parameters
    which, one below the other, are that array. To read is to copy into the views, to write is to
    copy out of them.
    """
    views: dict[str, list[Tensor]] = {}
    encoder = bilm.token_encoder
    if isinstance(encoder, CharCNN):
        # Row 0 of ours is "no word here", which the file does not have.
        views["char_embed"] = [encoder.char_embedding.weight[1:]]
        for i, conv in enumerate(encoder.convolutions):
            views[f"CNN/W_cnn_{i}"] = [conv.weight.permute(2, 1, 0)[None]]  # (1, w, c, n)
            views[f"CNN/b_cnn_{i}"] = [conv.bias]
        for k, highway in enumerate(encoder.highways):
            for gate in ("carry", "transform"):
                linear = getattr(highway, gate)
                views[f"CNN_high_{k}/W_{gate}"] = [linear.weight.T]
                views[f"CNN_high_{k}/b_{gate}"] = [linear.bias]
        if encoder.projection is not None:
            views["CNN_proj/W_proj"] = [encoder.projection.weight.T]
            views["CNN_proj/b_proj"] = [encoder.projection.bias]
    elif encoder.word_table is not None:
        views["embedding"] = [encoder.word_table.weight[1:]]
    for k, layer in enumerate(bilm.bilstm.layers):
        for d in (0, 1):  # forward, backward
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
            views[f"{cell}/W_0"] = [layer.input_weight[d], layer.recurrent_weight[d]]
            views[f"{cell}/B"] = [layer.bias[d]]
            if layer.projection_weight is not None:
                views[f"{cell}/W_P_0"] = [layer.projection_weight[d]]
    if softmax is not None:
        views["softmax/W"] = [softmax.weight]
        views["softmax/b"] = [softmax.bias]
    return {name: [view.detach() for view in parts] for name, parts in views.items()}


def array_shapes(
    options: BiLMOptions, n_softmax_words: int | None = None
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The names and shapes of `table`, in its order, without memory for any of its numbers."""
    lstm, cnn = options.lstm, options.char_cnn
    dim, size = lstm.dim, lstm.projection_dim
    if cnn is not None:
        n_filters = cnn.n_filters
        yield "char_embed", (NUM_CHARACTERS - 1, cnn.embedding_dim)
        for i, (width, number) in enumerate(cnn.filters):
            yield f"CNN/W_cnn_{i}", (1, width, cnn.embedding_dim, number)
            yield f"CNN/b_cnn_{i}", (number,)
        for k in range(cnn.n_highway):
            for gate in ("carry", "transform"):
                yield f"CNN_high_{k}/W_{gate}", (n_filters, n_filters)
                yield f"CNN_high_{k}/b_{gate}", (n_filters,)
        if n_filters != size:
            yield "CNN_proj/W_proj", (n_filters, size)
            yield "CNN_proj/b_proj", (size,)
    else:
        assert options.n_words is not None
        yield "embedding", (options.n_words, size)
    for k in range(lstm.n_layers):
        for d in (0, 1):
            cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
            yield f"{cell}/W_0", (2 * size, 4 * dim)
            yield f"{cell}/B", (4 * dim,)
            if size != dim:
                yield f"{cell}/W_P_0", (dim, size)
    if n_softmax_words is not None:
        yield "softmax/W", (n_softmax_words, size)
        yield "softmax/b", (n_softmax_words,)
