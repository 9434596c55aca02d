"""Loads pretrained weights into a language model; softmax rows are matched by word."""

import logging
import os

import h5py
import torch
from allennlp.common.file_utils import cached_path
from torch import Tensor

from elmo_plugin.checks import InputError
from elmo_plugin.formats.archive import read_archive
from elmo_plugin.formats.bilm_tf.vocabulary_file import read_vocabulary_file
from elmo_plugin.formats.bilm_tf.weight_file import check_weights, n_softmax_words, read_weights
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.pretrained import pretrained_files, pretrained_names

logger = logging.getLogger(__name__)

File = str | os.PathLike


def load_pretrained(
    bilm: BiLM,
    softmax: SampledSoftmax,
    words: list[str],
    pretrained_file: File,
    vocabulary_file: File | None,
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
        if is_hdf5:
            file_words, file_softmax = _read_hdf5(bilm, file, vocabulary_file)
        else:
            file_words, file_softmax = _read_archive(bilm, file)
    except InputError as error:
        problem = str(error).removeprefix(f"{file}: ")
        raise InputError(f"pretrained_file: {pretrained_file}: {problem}") from error
    if not file_words:
        logger.info("%s: no softmax with known words; it keeps its initial values", pretrained_file)
        return
    row = {word: k for k, word in enumerate(file_words)}
    pairs = [(k, row[word]) for k, word in enumerate(words) if word in row]
    new, old = torch.tensor(pairs, dtype=torch.long).view(-1, 2).T
    with torch.no_grad():
        for name, parameter in softmax.named_parameters():
            parameter[new] = file_softmax[name][old]
    logger.info("%s: loaded the softmax of %d of %d words", pretrained_file, len(new), len(words))


def _local(key: str, file: File) -> str:
    try:
        return str(cached_path(file))
    except FileNotFoundError as error:
        raise InputError(f"{key}: expected a file, found none: {error}") from error


def _read_archive(bilm: BiLM, file: File) -> tuple[list[str], dict[str, Tensor]]:
    """Load the biLM of an archive. Returns the words of its softmax and the softmax's weights."""
    archive = read_archive(file)
    if difference := bilm.options.difference(archive.options):
        key, expected, found = difference
        raise InputError(f"{key}: the config has {expected}, found {found}")
    bilm.load_state_dict(archive.weights("bilm"))
    return archive.words, archive.weights("softmax")


def _read_hdf5(
    bilm: BiLM, weights: File, vocabulary_file: File | None
) -> tuple[list[str], dict[str, Tensor]]:
    """As `_read_archive`. Without a vocabulary file there are no words and no weights."""
    if vocabulary_file is None:
        read_weights(bilm, weights)
        return [], {}
    words = read_vocabulary_file(vocabulary_file)
    if n_softmax_words(weights) is None:
        raise InputError(
            f"{weights}: softmax/W: expected the softmax of the words in {vocabulary_file}, "
            "found none"
        )
    check_weights(bilm.options, weights, len(words))
    softmax = SampledSoftmax(
        n_words=len(words), dim=bilm.bilstm.projection_dim, n_negative_samples=None
    )
    read_weights(bilm, weights, softmax)
    return words, softmax.state_dict()
