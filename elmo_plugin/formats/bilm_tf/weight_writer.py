"""
Writes weight files in HDF5, in the format that bilm-tf, AllenNLP and others read, with a digest for
each array and the options that the file is for, which other programs ignore.
"""

import json
import os

import h5py
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.files.hdf5 import VERSION, HDF5Bytes, write_array, write_text
from elmo_plugin.formats.bilm_tf.array_views import LEXICON, WRITTEN_FOR, array_views
from elmo_plugin.modules import BiLM, CharCNN, SampledSoftmax


def write_weights(
    bilm: BiLM,
    path: str | os.PathLike,
    softmax: SampledSoftmax | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """
    Write a weight file that bilm-tf, AllenNLP and others read. It also contains the `warm_state`,
    which other programs ignore, and the `softmax` if given. `dtype` is the type of the numbers, but
    the LSTM biases are always float32, because AllenNLP adds the forget gate's 1 to them in the
    type of the file.

    Raises an `InputError` if a setting of the biLM was changed after it was built from its options,
    or a number is not finite or too large for `dtype`.
    """
    _check_settings(bilm)
    with HDF5Bytes(path) as disk, h5py.File(disk, "w", libver=(VERSION, VERSION)) as file:
        write_text(file, WRITTEN_FOR, json.dumps(bilm.options.to_dict()))
        for name, parts in array_views(bilm, softmax).items():
            kept = torch.float32 if name.endswith("/B") or name in LEXICON else dtype
            numbers = torch.cat([part.to("cpu", kept) for part in parts])
            if not numbers.isfinite().all():
                raise InputError(
                    f"{name}: expected finite numbers of the type {kept}, found others"
                )
            write_array(file, name, numbers.numpy())
            disk.check()


def _check_settings(bilm: BiLM) -> None:
    lstm, char_cnn, bilstm = bilm.options.lstm, bilm.options.char_cnn, bilm.bilstm
    settings = [
        (f"lstm.{key}", getattr(lstm, key), getattr(layer, key))
        for layer in bilstm.layers
        for key in ("cell_clip", "proj_clip")
    ]
    key = "use_skip_connections"
    settings.append((f"lstm.{key}", getattr(lstm, key), getattr(bilstm, key)))
    for module in bilm.token_encoder.modules():
        if isinstance(module, CharCNN) and char_cnn is not None:
            settings.append(("char_cnn.activation", char_cnn.activation, module.activation))
    for name, expected, value in settings:
        if value != expected:
            raise InputError(
                f"{name}: expected {expected}, as the biLM was built, found {value}, which was set "
                "later"
            )
