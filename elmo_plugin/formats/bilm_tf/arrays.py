"""
Maps the arrays of a weight file to the parameters of our modules. TensorFlow's names appear only in
this file.
"""

from torch import Tensor

from elmo_plugin.modules import BiLM, SampledSoftmax


def array_views(bilm: BiLM, softmax: SampledSoftmax | None = None) -> dict[str, list[Tensor]]:
    """
    Views of our parameters by array name, in the order in which the arrays are written. An array is
    its views concatenated along the first dimension: copying into the views reads it, and copying
    out of them writes it.
    """
    encoder = bilm.token_encoder
    # Row 0 means "no word here", and the file does not contain it.
    views = {"char_embed": [encoder.char_embedding.weight[1:]]}
    for i, conv in enumerate(encoder.convolutions):
        views[f"CNN/W_cnn_{i}"] = [conv.weight.permute(2, 1, 0)[None]]  # (n, c, w) to (1, w, c, n)
        views[f"CNN/b_cnn_{i}"] = [conv.bias]
    for k, highway in enumerate(encoder.highways):
        for gate in ("carry", "transform"):
            linear = getattr(highway, gate)
            views[f"CNN_high_{k}/W_{gate}"] = [linear.weight.t()]
            views[f"CNN_high_{k}/b_{gate}"] = [linear.bias]
    if encoder.projection is not None:
        views["CNN_proj/W_proj"] = [encoder.projection.weight.t()]
        views["CNN_proj/b_proj"] = [encoder.projection.bias]
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
    return {name: [part.detach() for part in parts] for name, parts in views.items()}
