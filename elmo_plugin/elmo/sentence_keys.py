"""Sentences as names of HDF5 datasets, in which a slash separates groups."""

from collections.abc import Iterable
from itertools import accumulate

from allennlp.common.checks import ConfigurationError

from elmo_plugin.elmo.dump import Sentence


def check_sentence_keys(sentences: Iterable[Sentence], source: str) -> list[Sentence]:
    """
    Checks that all sentences can be names of datasets in one file, before anything is computed.
    Equal sentences share a name.

    # Parameters

    sentences : `Iterable[Sentence]`
        The text.
    source : `str`
        The name of the text in errors.

    # Returns

    `list[Sentence]`
        The sentences.

    # Raises

    `ConfigurationError`
        If a sentence cannot be a name in HDF5, or not together with an earlier one.
    """
    found = list(sentences)
    datasets: dict[str, Sentence] = {}
    groups: dict[str, Sentence] = {}
    for sentence in found:
        place = f"{source}, line {sentence.line + 1}: {sentence.text!r}"
        # In HDF5, as in a path, "." is the group itself and several slashes are one.
        names = sentence.text.rstrip("/").split("/")
        if names[-1] in ("", ".") or "\0" in sentence.text:
            raise ConfigurationError(
                f"{place}: HDF5 cannot have a dataset of this name; leave out --use-sentence-keys"
            )
        parts = (name for name in names if name not in ("", "."))
        *above, path = accumulate(parts, "{}/{}".format)
        others = [groups.get(path), *map(datasets.get, above), datasets.get(path)]
        for other in others:
            if other is not None and other.text != sentence.text:
                raise ConfigurationError(
                    f"{place}: HDF5 cannot have a dataset of this name next to that of line "
                    f"{other.line + 1}, {other.text!r}, because a slash separates groups; leave "
                    "out --use-sentence-keys"
                )
        datasets[path] = sentence
        groups.update((group, sentence) for group in above)
    return found
