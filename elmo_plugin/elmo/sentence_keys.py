"""Sentences as names of HDF5 datasets, where a slash opens a group."""

from collections.abc import Iterable
from itertools import accumulate

from allennlp.common.checks import ConfigurationError

from elmo_plugin.elmo.dump import Sentence


def check_sentence_keys(sentences: Iterable[Sentence], source: str) -> list[Sentence]:
    """
    All sentences, before anything is computed for them. Equal ones may share their name.

    # Parameters

    sentences : `Iterable[Sentence]`
        The text.
    source : `str`
        What errors call it.

    # Raises

    `ConfigurationError`
        Where HDF5 cannot name a dataset so, or not beside that of a sentence before.
    """
    found = list(sentences)
    datasets: dict[str, Sentence] = {}
    groups: dict[str, Sentence] = {}
    for sentence in found:
        place = f"{source}, line {sentence.line + 1}: {sentence.text!r}"
        # To HDF5 "." is the group itself, as in a path, and several slashes are one.
        names = sentence.text.rstrip("/").split("/")
        if names[-1] in ("", ".") or "\0" in sentence.text:
            raise ConfigurationError(
                f"{place}: HDF5 has no dataset of this name; leave out --use-sentence-keys"
            )
        parts = (name for name in names if name not in ("", "."))
        *above, path = accumulate(parts, "{}/{}".format)
        others = [groups.get(path), *map(datasets.get, above), datasets.get(path)]
        for other in others:
            if other is not None and other.text != sentence.text:
                raise ConfigurationError(
                    f"{place}: HDF5 has no dataset of this name beside that of line "
                    f"{other.line + 1}, {other.text!r}, because a slash opens a group; "
                    "leave out --use-sentence-keys"
                )
        datasets[path] = sentence
        groups.update((group, sentence) for group in above)
    return found
