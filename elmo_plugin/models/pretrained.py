"""Where fine-tuning starts: a language model's weights from another's, the softmax word by word."""

import logging
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Optional, Union

import h5py
import torch
from allennlp.common.checks import ConfigurationError

from elmo_plugin.bilm_tf import has_softmax, read_weights
from elmo_plugin.data.vocabulary import read_vocabulary_file, vocabulary_words
from elmo_plugin.modules import SampledSoftmax

if TYPE_CHECKING:
    from elmo_plugin.models.bilm import BilmLanguageModel

logger = logging.getLogger(__name__)


def start_from(
    model: "BilmLanguageModel",
    pretrained_file: Union[str, os.PathLike],
    vocabulary_file: Optional[Union[str, os.PathLike]] = None,
) -> None:
    """
    Fills `model` from the archive of a `bilm`, or from bilm-tf's weight file. Of the softmax, the
    words that both vocabularies have are carried over; the others keep their initial values.

    # Parameters

    model : `BilmLanguageModel`
    pretrained_file : `str`
        A `model.tar.gz`, or an HDF5 file of weights.
    vocabulary_file : `str`, optional
        The words of the softmax in an HDF5 file.

    # Raises

    `ConfigurationError`
        Where the sizes are not those of `model`, or a vocabulary does not go with the file.
    """
    if h5py.is_hdf5(pretrained_file):
        words, softmax = _read_hdf5(model, pretrained_file, vocabulary_file)
    else:
        words, softmax = _read_archive(model, pretrained_file)
    _carry_over(model, words, softmax, str(pretrained_file))


def _read_archive(
    model: "BilmLanguageModel", archive: Union[str, os.PathLike]
) -> tuple[list[str], Optional[SampledSoftmax]]:
    from elmo_plugin.models.archive import load_language_model

    source = load_language_model(archive)
    expected, found = asdict(model.options), asdict(source.options)
    for block in ("lstm", "char_cnn"):
        if (expected[block] is None) != (found[block] is None):
            raise ConfigurationError(f"{archive}: only one of it and the config has a {block}")
        for key, value in (expected[block] or {}).items():
            if found[block][key] != value:
                raise ConfigurationError(
                    f"{archive}: {block}.{key}: the config has {value}, found {found[block][key]}"
                )
    model.bilm.load_state_dict(source.bilm.state_dict())
    if not isinstance(source.softmax, SampledSoftmax):
        return [], None
    return list(vocabulary_words(source.vocab)), source.softmax


def _read_hdf5(
    model: "BilmLanguageModel",
    weights: Union[str, os.PathLike],
    vocabulary_file: Optional[Union[str, os.PathLike]],
) -> tuple[list[str], Optional[SampledSoftmax]]:
    if vocabulary_file is None:
        read_weights(model.bilm, weights)
        return [], None
    if not has_softmax(weights):
        raise ConfigurationError(
            f"{weights}: softmax/W: expected the softmax that {vocabulary_file} numbers, found none"
        )
    words = read_vocabulary_file(vocabulary_file)
    softmax = SampledSoftmax(
        n_words=len(words), dim=model.options.lstm.projection_dim, n_negative_samples=None
    )
    read_weights(model.bilm, weights, softmax)
    return words, softmax


@torch.no_grad()
def _carry_over(
    model: "BilmLanguageModel", words: list[str], softmax: Optional[SampledSoftmax], source: str
) -> None:
    if softmax is None or not isinstance(model.softmax, SampledSoftmax):
        # The clusters of an adaptive softmax belong to one vocabulary.
        logger.info("%s: nothing of a softmax to carry over; it starts anew", source)
        return
    number = {word: k for k, word in enumerate(words)}
    ours = vocabulary_words(model.vocab)
    pairs = [(k, number[word]) for k, word in enumerate(ours) if word in number]
    if pairs:
        new, old = torch.tensor(pairs).T
        model.softmax.weight[new] = softmax.weight[old]
        model.softmax.bias[new] = softmax.bias[old]
    logger.info("%s: carried over the softmax of %d of %d words", source, len(pairs), len(ours))
