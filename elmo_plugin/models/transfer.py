"""Where fine-tuning starts: a language model's weights from another's, those of words by word."""

import logging
import os
from typing import TYPE_CHECKING, NamedTuple, Optional, Union

import h5py
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path

from elmo_plugin.bilm_tf.weight_file import has_softmax, read_weights
from elmo_plugin.data.vocabulary import read_vocabulary_file, vocabulary_words
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.options import build_bilm
from elmo_plugin.pretrained import pretrained_files, pretrained_names

if TYPE_CHECKING:
    from elmo_plugin.models.bilm import BilmLanguageModel

logger = logging.getLogger(__name__)

WORD_TABLE = "token_encoder.embedding.weight"


class Pretrained(NamedTuple):
    """
    words : `list[str]`
        What the rows of the softmax stand for, and those of a word table from row 1 on; none where
        that is not known.
    bilm : `BiLM`
    softmax : `SampledSoftmax`, optional
        None where there is none that could be carried over.
    """

    words: list[str]
    bilm: BiLM
    softmax: Optional[SampledSoftmax]


def start_from(
    model: "BilmLanguageModel",
    pretrained_file: Union[str, os.PathLike],
    vocabulary_file: Optional[Union[str, os.PathLike]] = None,
) -> None:
    """
    Fills `model` from the archive of a `bilm`, or from bilm-tf's weight file. Of the softmax, and
    of the word table where there is no `char_cnn`, the words that both vocabularies have are
    carried over; the others keep their initial values.

    # Parameters

    model : `BilmLanguageModel`
    pretrained_file : `str`
        A `model.tar.gz`, or an HDF5 file of weights; a path, an address, or the name of a model
        that comes with the package.
    vocabulary_file : `str`, optional
        The words of the softmax and of the word table in an HDF5 file, which has to have at least
        one of the two.

    # Raises

    `ConfigurationError`, `HDF5Error`
        Where the sizes are not those of `model`, or a vocabulary does not go with the file.
    """
    if pretrained_file in pretrained_names():
        _, file = pretrained_files(str(pretrained_file))
    else:
        file = _local("pretrained_file", pretrained_file)
    if vocabulary_file is not None:
        vocabulary_file = _local("pretrained_vocabulary_file", vocabulary_file)
    if h5py.is_hdf5(file):
        pretrained = _read_hdf5(model, file, vocabulary_file)
    else:
        pretrained = _read_archive(model, file)
    _carry_over(model, pretrained, str(pretrained_file))


def _local(key: str, file: Union[str, os.PathLike]) -> str:
    try:
        return str(cached_path(file))
    except FileNotFoundError as error:
        raise ConfigurationError(f"{key}: expected a file, found none: {file}") from error


def _read_archive(model: "BilmLanguageModel", archive: Union[str, os.PathLike]) -> Pretrained:
    from elmo_plugin.models.archive import load_language_model

    source = load_language_model(archive)
    n_words = model.softmax.n_words
    if difference := model.options.difference(source.options.with_vocabulary(n_words)):
        key, expected, found = difference
        raise ConfigurationError(f"{archive}: {key}: the config has {expected}, found {found}")
    return Pretrained(vocabulary_words(source.vocab), source.bilm, source.softmax)


def _read_hdf5(
    model: "BilmLanguageModel",
    weights: Union[str, os.PathLike],
    vocabulary_file: Optional[Union[str, os.PathLike]],
) -> Pretrained:
    reads_words = model.options.char_cnn is None
    if vocabulary_file is None:
        if reads_words:
            raise ConfigurationError(
                f"{weights}: embedding: expected a pretrained_vocabulary_file that says whose "
                "vectors a model without char_cnn reads there, found none"
            )
        bilm = build_bilm(model.options)
        read_weights(bilm, weights)
        return Pretrained([], bilm, None)
    softmax = None
    words = read_vocabulary_file(vocabulary_file)
    if has_softmax(weights):
        softmax = SampledSoftmax(
            n_words=len(words), dim=model.options.lstm.projection_dim, n_negative_samples=None
        )
    elif not reads_words:
        raise ConfigurationError(
            f"{weights}: softmax/W: expected the softmax that {vocabulary_file} numbers, found none"
        )
    bilm = build_bilm(model.options.with_vocabulary(len(words)))
    read_weights(bilm, weights, softmax)
    return Pretrained(words, bilm, softmax)


@torch.no_grad()
def _carry_over(model: "BilmLanguageModel", pretrained: Pretrained, source: str) -> None:
    words, bilm, softmax = pretrained
    number = {word: k for k, word in enumerate(words)}
    ours = vocabulary_words(model.vocab)
    pairs = [(k, number[word]) for k, word in enumerate(ours) if word in number]
    new, old = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T

    weights = bilm.state_dict()
    if model.options.char_cnn is None:
        table = model.bilm.state_dict()[WORD_TABLE].clone()
        table[new + 1] = weights[WORD_TABLE][old + 1]  # row 0 is no word
        weights[WORD_TABLE] = table
        logger.info("%s: carried over the vectors of %d of %d words", source, len(new), len(ours))
    model.bilm.load_state_dict(weights)

    if softmax is None:
        logger.info("%s: nothing of a softmax to carry over; it starts anew", source)
        return
    model.softmax.weight[new] = softmax.weight[old]
    model.softmax.bias[new] = softmax.bias[old]
    logger.info("%s: carried over the softmax of %d of %d words", source, len(new), len(ours))
