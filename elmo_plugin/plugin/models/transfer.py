"""Loads pretrained weights into a language model; softmax rows are matched by word."""

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
from elmo_plugin.formats.bilm_tf.weight_file import n_softmax_words, read_weights
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.pretrained import pretrained_files, pretrained_names

logger = logging.getLogger(__name__)

File = Union[str, os.PathLike]


class Pretrained(NamedTuple):
    """
    words : `list[str]`
        Words of the softmax's rows; empty if unknown.
    bilm : `dict[str, Tensor]`
        Weights of the biLM.
    softmax : `dict[str, Tensor] | None`
        Weights of the softmax; `None` if the file has none or its words are unknown.
    """

    words: list[str]
    bilm: dict[str, Tensor]
    softmax: Optional[dict[str, Tensor]]


def load_pretrained(
    bilm: BiLM,
    softmax: SampledSoftmax,
    words: list[str],
    pretrained_file: File,
    vocabulary_file: Optional[File] = None,
) -> None:
    """
    Load weights from the archive of a `bilm`, or from bilm-tf's weight file. All weights of the
    biLM are loaded, and the softmax rows of words that the file also has; other rows keep their
    initial values. `bilm` and `softmax` are modified in place.

    `words`: words of the softmax's rows. `pretrained_file`: a `model.tar.gz` or an HDF5 file of
    weights, as a path or URL, or the name of a model in the package. `vocabulary_file`: words of
    the softmax in an HDF5 file, which must then have one. Raises an `InputError` if the sizes are
    not those of `bilm`, or the vocabulary does not match the file.
    """
    if pretrained_file in pretrained_names():
        _, file, shipped_vocabulary_file = pretrained_files(str(pretrained_file))
        vocabulary_file = vocabulary_file or shipped_vocabulary_file
    else:
        file = _local("pretrained_file", pretrained_file)
    if vocabulary_file is not None:
        vocabulary_file = _local("pretrained_vocabulary_file", vocabulary_file)
    is_hdf5 = h5py.is_hdf5(file)
    if vocabulary_file is not None and not is_hdf5:
        raise InputError(
            f"pretrained_vocabulary_file: expected none, because {pretrained_file} is an archive "
            f"with its own words, found {vocabulary_file}"
        )
    try:
        pretrained = (
            _read_hdf5(bilm, file, vocabulary_file) if is_hdf5 else _read_archive(bilm, file)
        )
    except InputError as error:
        problem = str(error).removeprefix(f"{file}: ")
        raise InputError(f"pretrained_file: {pretrained_file}: {problem}") from error
    _copy(pretrained, bilm, softmax, words, source=str(pretrained_file))


def _local(key: str, file: File) -> str:
    try:
        return str(cached_path(file))
    except FileNotFoundError as error:
        raise InputError(f"{key}: expected a file, found none: {error}") from error


def _read_archive(bilm: BiLM, file: File) -> Pretrained:
    archive = read_archive(file)
    if difference := bilm.options.difference(archive.options):
        key, expected, found = difference
        raise InputError(f"{key}: the config has {expected}, found {found}")
    return Pretrained(archive.words, archive.weights("bilm"), archive.weights("softmax"))


def _read_hdf5(bilm: BiLM, weights: File, vocabulary_file: Optional[File]) -> Pretrained:
    words, softmax = [], None
    if vocabulary_file is not None:
        words = read_vocabulary_file(vocabulary_file)
        if n_softmax_words(weights) is None:
            raise InputError(
                f"{weights}: softmax/W: expected the softmax of the words in {vocabulary_file}, "
                "found none"
            )
        softmax = SampledSoftmax(
            n_words=len(words), dim=bilm.bilstm.projection_dim, n_negative_samples=None
        )
    read = BiLM(bilm.options)
    read_weights(read, weights, softmax)
    return Pretrained(words, read.state_dict(), softmax.state_dict() if softmax else None)


@torch.no_grad()
def _copy(
    pretrained: Pretrained, bilm: BiLM, softmax: SampledSoftmax, words: list[str], source: str
) -> None:
    row = {word: k for k, word in enumerate(pretrained.words)}
    pairs = [(k, row[word]) for k, word in enumerate(words) if word in row]
    new, old = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T

    bilm.load_state_dict(pretrained.bilm)
    if pretrained.softmax is None:
        logger.info("%s: no softmax with known words; it keeps its initial values", source)
        return
    for name, parameter in softmax.named_parameters():
        parameter[new] = pretrained.softmax[name][old]
    logger.info("%s: loaded the softmax of %d of %d words", source, len(new), len(words))
