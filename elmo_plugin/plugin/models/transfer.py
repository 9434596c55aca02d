"""Loads pretrained weights into a language model; softmax rows are matched by word."""

import logging
import os
from urllib.parse import urlsplit

import h5py
import torch

from elmo_plugin.checks import InputError, check_path, fail, named
from elmo_plugin.formats.bilm_tf.folder import HDF5_ENDINGS
from elmo_plugin.formats.find import File, find_bilm
from elmo_plugin.formats.format import FoundBiLM
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.options import BiLMOptions

OF_WORDS = ("token_encoder.words.text", "token_encoder.embedding.weight")
"""What a biLM with a table of words has for each word."""

logger = logging.getLogger(__name__)

ROWS = 1 << 14
"""Rows of the softmax that are copied at a time, because all of them may take gigabytes."""


def load_pretrained(
    bilm: BiLM,
    softmax: SampledSoftmax,
    words: list[str],
    pretrained_file: File | None,
    vocabulary_file: File | None,
    softmax_file: File | None,
) -> None:
    """
    Load the weights of another biLM, if one is given, and the softmax rows of words that it also
    has; other rows keep their initial values. `bilm` and `softmax` are modified in place.

    `words`: words of the softmax's rows. `pretrained_file`: a biLM as `find_bilm` finds it, or an
    HDF5 file of weights. `vocabulary_file`: words of the softmax in bilm-tf's files, which must
    then have one. `softmax_file`: the softmax, if it is not in the weight file. Raises an
    `InputError` if the sizes are not those of `bilm`, or the vocabulary does not match the file.
    """
    for key, file in (("vocabulary", vocabulary_file), ("softmax", softmax_file)):
        if file is not None:
            check_path(f"pretrained_{key}_file", file)
            if pretrained_file is None:
                fail("pretrained_file", f"one with pretrained_{key}_file", None)
    if pretrained_file is None:
        return
    with named("pretrained_file"):
        found = _find(bilm.options, words, pretrained_file, vocabulary_file, softmax_file)
    state, own = found.bilm.state_dict(), bilm.state_dict()
    table, other = bilm.word_table, found.bilm.word_table
    if table is not None and other is not None:
        state.update({name: own[name] for name in OF_WORDS})
        _copy_rows(table.embedding, words, other.embedding, other.words.words())
    bilm.load_state_dict(state)
    if found.softmax is None or found.words is None:
        logger.info("%s: no softmax with known words; it keeps its initial values", pretrained_file)
        return
    n_rows = _copy_rows(softmax, words, found.softmax, found.words)
    logger.info("%s: loaded the softmax of %d of %d words", pretrained_file, n_rows, len(words))


def _find(
    options: BiLMOptions,
    words: list[str],
    name: File,
    vocabulary_file: File | None,
    softmax_file: File | None,
) -> FoundBiLM:
    """The biLM of this name. Raises an `InputError` if its sizes are not those of `options`."""
    files: tuple[File | BiLMOptions, File | None] = (name, None)
    if _is_weight_file(name):
        files = options.of_words([]), name  # its words are its own
    found = find_bilm(*files, vocabulary_file, softmax_file=softmax_file, with_softmax=True)
    if difference := options.difference(found.options.of_words(words)):
        key, expected, other = difference
        raise InputError(f"{name}: {key}: the config has {expected}, found {other}")
    return found


def _is_weight_file(name: File) -> bool:
    """Whether a name is that of bilm-tf's weights alone, in a file or at a URL."""
    path = os.path.expanduser(str(name))
    # A download link may have a query after the name.
    return h5py.is_hdf5(path) or urlsplit(path).path.lower().endswith(HDF5_ENDINGS)


@torch.no_grad()
def _copy_rows(
    module: torch.nn.Module, words: list[str], source: torch.nn.Module, source_words: list[str]
) -> int:
    """Copy the rows of the words that both have, and return their number."""
    row = {word: k for k, word in enumerate(source_words)}
    pairs = [(k, row[word]) for k, word in enumerate(words) if word in row]
    rows = torch.tensor(pairs, dtype=torch.long).view(-1, 2)
    for parameter, other in zip(module.parameters(), source.parameters()):
        for new, old in (block.T for block in rows.split(ROWS)):
            parameter[new] = other[old]
    return len(rows)
