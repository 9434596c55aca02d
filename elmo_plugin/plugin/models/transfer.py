"""Loads pretrained weights into a language model; softmax rows are matched by word."""

import logging

import torch

from elmo_plugin.checks import InputError
from elmo_plugin.formats.find import File, find_bilm
from elmo_plugin.modules import BiLM, SampledSoftmax

logger = logging.getLogger(__name__)

ROWS = 1 << 14
"""Rows of the softmax that are copied at a time, because all of them may take gigabytes."""


def load_pretrained(
    bilm: BiLM,
    softmax: SampledSoftmax,
    words: list[str],
    pretrained_file: File,
    vocabulary_file: File | None,
    softmax_file: File | None = None,
) -> None:
    """
    Load the weights of another biLM, and the softmax rows of words that it also has; other rows
    keep their initial values. `bilm` and `softmax` are modified in place.

    `words`: words of the softmax's rows. `pretrained_file`: a biLM as `find_bilm` finds it, or an
    HDF5 file of weights. `vocabulary_file`: words of the softmax in bilm-tf's files, which must
    then have one. `softmax_file`: the softmax, if it is not in the weight file. Raises an
    `InputError` if the sizes are not those of `bilm`, or the vocabulary does not match the file.
    """
    try:
        found = find_bilm(
            pretrained_file,
            None,
            vocabulary_file,
            softmax_file=softmax_file,
            options=bilm.options,
            with_softmax=True,
        )
        if difference := bilm.options.difference(found.options):
            key, expected, other = difference
            raise InputError(f"{pretrained_file}: {key}: the config has {expected}, found {other}")
    except (InputError, FileNotFoundError) as error:
        raise InputError(f"pretrained_file: {error}") from error
    bilm.load_state_dict(found.bilm.state_dict())
    if found.softmax is None or found.words is None:
        logger.info("%s: no softmax with known words; it keeps its initial values", pretrained_file)
        return
    row = {word: k for k, word in enumerate(found.words)}
    pairs = [(k, row[word]) for k, word in enumerate(words) if word in row]
    rows = torch.tensor(pairs, dtype=torch.long).view(-1, 2)
    with torch.no_grad():
        for parameter, source in zip(softmax.parameters(), found.softmax.parameters()):
            for new, old in (block.T for block in rows.split(ROWS)):
                parameter[new] = source[old]
    logger.info("%s: loaded the softmax of %d of %d words", pretrained_file, len(rows), len(words))
