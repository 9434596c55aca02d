"""Sentences as names of HDF5 datasets, in which a slash separates groups."""

from collections.abc import Iterable
from itertools import accumulate

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.dump import Sentence


def check_sentence_keys(sentences: Iterable[Sentence], source: str) -> list[Sentence]:
    """
    Checks that all sentences can be names of datasets in one file, before anything is computed.
    Equal sentences share a name. `source` is the name of the text in errors.

    # Raises

    `InputError`
        If a sentence cannot be a name in HDF5, or not together with an earlier one.
    """
    found = list(sentences)
    datasets: dict[str, str] = {}
    groups: set[str] = set()
    for line, text in found:
        # In HDF5, as in a path, "." is the group itself and several slashes are one.
        names = text.rstrip("/").split("/")
        paths = list(accumulate((n for n in names if n not in ("", ".")), "{}/{}".format))
        if (
            names[-1] in ("", ".")
            or "\0" in text
            or paths[-1] in groups
            or any(path in datasets for path in paths[:-1])
            or datasets.setdefault(paths[-1], text) != text
        ):
            raise InputError(
                f"{source}, line {line + 1}: {text!r}: HDF5 cannot have a dataset of this name, or "
                "not next to those of earlier lines, because a slash separates groups; leave out "
                "--use-sentence-keys"
            )
        groups.update(paths[:-1])
    return found
