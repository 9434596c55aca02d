"""Loads pretrained weights into a language model; those of words are looked up by word."""

import logging
import os
from typing import NamedTuple, Optional, Union

import h5py
import torch
from allennlp.common.file_utils import cached_path
from torch import Tensor

from elmo_plugin.checks import InputError
from elmo_plugin.formats.archive import read_archive
from elmo_plugin.formats.bilm_tf.vocabulary_file import read_vocabulary_file
from elmo_plugin.formats.bilm_tf.weight_file import has_softmax, read_weights
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.options import BiLMOptions, build_bilm
from elmo_plugin.pretrained import pretrained_files, pretrained_names

logger = logging.getLogger(__name__)

WORD_TABLE = "token_encoder.embedding.weight"

File = Union[str, os.PathLike]


class Pretrained(NamedTuple):
    """
    words : `list[str]`
        Words of the softmax's rows, and of a word table's from row 1 on; empty if not known.
    bilm : `dict[str, Tensor]`
        Weights of the biLM.
    softmax : `dict[str, Tensor]`, optional
        Weights of the softmax; `None` if the file has none whose words are known.
    """

    words: list[str]
    bilm: dict[str, Tensor]
    softmax: Optional[dict[str, Tensor]]


def load_pretrained(
    bilm: BiLM,
    softmax: SampledSoftmax,
    words: list[str],
    options: BiLMOptions,
    pretrained_file: File,
    vocabulary_file: Optional[File] = None,
) -> None:
    """
    Loads weights from the archive of a `bilm`, or from bilm-tf's weight file. All of the biLM's
    weights are loaded. Of the softmax, and of the word table of a model without `char_cnn`, the
    rows of those words are loaded that the file has too; the other rows keep their initial values.

    # Parameters

    bilm : `BiLM`
        Modified in place.
    softmax : `SampledSoftmax`
        Modified in place.
    words : `list[str]`
        Words of the softmax's rows.
    options : `BiLMOptions`
        Sizes of `bilm`.
    pretrained_file : `str`
        A `model.tar.gz`, or an HDF5 file of weights: a path, a URL, or the name of a model that
        comes with the package.
    vocabulary_file : `str`, optional
        Words of the softmax and of the word table in an HDF5 file, which must have at least one of
        the two.

    # Raises

    `InputError`
        If the sizes are not those of `options`, or a vocabulary does not fit the file.
    """
    if pretrained_file in pretrained_names():
        _, file, shipped_vocabulary_file = pretrained_files(str(pretrained_file))
        vocabulary_file = vocabulary_file or shipped_vocabulary_file
    else:
        file = _local("pretrained_file", pretrained_file)
    if vocabulary_file is not None:
        vocabulary_file = _local("pretrained_vocabulary_file", vocabulary_file)
    if h5py.is_hdf5(file):
        pretrained = _read_hdf5(options, file, vocabulary_file)
    else:
        pretrained = _read_archive(options, len(words), file)
    _copy(pretrained, bilm, softmax, words, source=str(pretrained_file))


def _local(key: str, file: File) -> str:
    try:
        return str(cached_path(file))
    except FileNotFoundError as error:
        raise InputError(f"{key}: expected a file, found none: {file}") from error


def _read_archive(options: BiLMOptions, n_words: int, file: File) -> Pretrained:
    archive = read_archive(file)
    if difference := options.difference(archive.options.with_vocabulary(n_words)):
        key, expected, found = difference
        raise InputError(f"{file}: {key}: the config has {expected}, found {found}")
    return Pretrained(archive.words, archive.weights("bilm"), archive.weights("softmax"))


def _read_hdf5(options: BiLMOptions, weights: File, vocabulary_file: Optional[File]) -> Pretrained:
    reads_words = not options.token_encoder.reads_characters
    if vocabulary_file is None:
        if reads_words:
            raise InputError(
                f"{weights}: embedding: expected a pretrained_vocabulary_file with the words of "
                "its rows, since the model has no char_cnn, found none"
            )
        bilm = build_bilm(options)
        read_weights(bilm, weights)
        return Pretrained([], bilm.state_dict(), None)
    softmax = None
    words = read_vocabulary_file(vocabulary_file)
    if has_softmax(weights):
        softmax = SampledSoftmax(
            n_words=len(words), dim=options.lstm.projection_dim, n_negative_samples=None
        )
    elif not reads_words:
        raise InputError(
            f"{weights}: softmax/W: expected the softmax of the words in {vocabulary_file}, found "
            "none"
        )
    bilm = build_bilm(options.with_vocabulary(len(words)))
    read_weights(bilm, weights, softmax)
    return Pretrained(words, bilm.state_dict(), softmax.state_dict() if softmax else None)


@torch.no_grad()
def _copy(
    pretrained: Pretrained, bilm: BiLM, softmax: SampledSoftmax, words: list[str], source: str
) -> None:
    row = {word: k for k, word in enumerate(pretrained.words)}
    pairs = [(k, row[word]) for k, word in enumerate(words) if word in row]
    new, old = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T

    weights = dict(pretrained.bilm)
    if WORD_TABLE in weights:
        table = bilm.state_dict()[WORD_TABLE].clone()
        table[new + 1] = weights[WORD_TABLE][old + 1]  # row 0 is "no word"
        weights[WORD_TABLE] = table
        logger.info("%s: loaded the vectors of %d of %d words", source, len(new), len(words))
    bilm.load_state_dict(weights)

    if pretrained.softmax is None:
        logger.info("%s: no softmax with known words; it keeps its initial values", source)
        return
    for name, parameter in softmax.named_parameters():
        parameter[new] = pretrained.softmax[name][old]
    logger.info("%s: loaded the softmax of %d of %d words", source, len(new), len(words))
