"""Exports a language model to bilm-tf's files."""

import os
from pathlib import Path

import torch

from elmo_plugin.files.atomic_write import atomic_write, writable_folder
from elmo_plugin.formats.bilm_tf.options_file import write_options
from elmo_plugin.formats.bilm_tf.vocabulary_file import write_vocabulary_file
from elmo_plugin.formats.bilm_tf.weight_file import write_weights
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data.vocabulary import vocabulary_words
from elmo_plugin.plugin.models.language_model import BiLMModel
from elmo_plugin.text.characters import DEFAULT_MAX_CHARACTERS


def export_files(
    model: BiLMModel, folder: str | Path, *, with_softmax: bool, dtype: torch.dtype = torch.float32
) -> None:
    """
    Write bilm-tf's three files. The folder is created if it does not exist. It never contains files
    of two models that would load together. If an error occurs before all three are written, the
    folder is unchanged. `dtype` is that of the weights in the file. Raises an `InputError` if the
    folder cannot be used or created, and a `DiskFullError` if the disk is full.
    """
    softmax = model.softmax if with_softmax else None
    # For links, their targets are removed below.
    names = ("options.json", "vocabulary.txt", "weights.hdf5")
    options, vocabulary, weights = (Path(os.path.realpath(Path(folder, name))) for name in names)
    # The weights are renamed first and the options last; without the options nothing loads.
    with (
        writable_folder("folder", folder),
        atomic_write(options) as new_options,
        atomic_write(vocabulary) as new_vocabulary,
        atomic_write(weights) as new_weights,
    ):
        write_options(model.bilm.options, options, new_options)
        write_vocabulary_file(vocabulary_words(model.vocab), vocabulary, new_vocabulary)
        write_weights(model.bilm, weights, softmax, dtype, new_weights)
        options.unlink(missing_ok=True)
        vocabulary.unlink(missing_ok=True)


def who_reads(options: BiLMOptions) -> str:
    """
    One sentence on whether AllenNLP's own ELMo, which most programs copied, can read the files.
    """
    reasons = refused_by_allennlp(options)
    if not reasons:
        return "AllenNLP's own ELMo reads them, as elmo_plugin does"
    return f"elmo_plugin reads them; AllenNLP's own ELMo does not: it needs {', '.join(reasons)}"


def refused_by_allennlp(options: BiLMOptions) -> list[str]:
    """
    The properties that AllenNLP's own ELMo needs and this biLM lacks; empty if AllenNLP can read
    it.
    """
    reasons = []
    if not options.lstm.use_skip_connections:
        reasons.append("lstm.use_skip_connections")
    if options.lstm.projection_dim == options.lstm.dim:
        reasons.append("an lstm.projection_dim other than lstm.dim")
    if options.lstm.projection_dim == options.char_cnn.n_filters:
        reasons.append("an lstm.projection_dim other than the number of filters")
    if options.char_cnn.max_characters_per_token != DEFAULT_MAX_CHARACTERS:
        reasons.append(f"a char_cnn.max_characters_per_token of {DEFAULT_MAX_CHARACTERS}")
    return reasons
