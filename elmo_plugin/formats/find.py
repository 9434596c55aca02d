"""
Finds the biLM that a user names. A new format is a file with two functions, one that says whether a
path has this format and one that reads it, and a line in `FORMATS`.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from inspect import signature
from pathlib import Path

import h5py

from elmo_plugin.checks import InputError, check_path
from elmo_plugin.files.local_path import local_path
from elmo_plugin.formats.archive import is_archive, read_archive
from elmo_plugin.formats.bilm_tf.folder import holds_model_files, read_model_files
from elmo_plugin.formats.bilm_tf.texts import read_options
from elmo_plugin.formats.bilm_tf.weight_file import read_weights
from elmo_plugin.formats.build import FoundBiLM
from elmo_plugin.formats.elmoformanylangs import is_elmoformanylangs, read_elmoformanylangs
from elmo_plugin.formats.tf_checkpoint.checkpoint import holds_checkpoint, index_of, read_checkpoint
from elmo_plugin.formats.unpack import renamed, unpacked
from elmo_plugin.options import BiLMOptions
from elmo_plugin.pretrained import pretrained_files, pretrained_names

File = str | os.PathLike

PRETRAINED = "pretrained://"
"""The prefix of the installed models, in place of a path."""

KEYS = ("pretrained", "archive_file", "options_file", "weight_file")
"""The parameters that name a biLM."""

PART = "#"
"""Precedes the name of one of several biLMs in an archive, as in `model.tar.gz#encoder.elmo`."""

EXPECTED = (
    "an installed model ({}), the model.tar.gz or the folder of a trained model, or a folder, "
    "zip or tar.gz file with options.json and an HDF5 file or a TensorFlow checkpoint of bilm-tf"
)

EXTRAS = {
    "vocabulary_file": "vocabulary file with this kind of model",
    "softmax_file": "softmax file with a model that is not in bilm-tf's HDF5 files",
    "part": "name after #, which only the archive of a task model has",
}
"""What only the readers of some formats take, and how errors name it."""

FORMATS: tuple[tuple[Callable[[Path], bool], Callable[..., FoundBiLM]], ...] = (
    (holds_checkpoint, read_checkpoint),
    (holds_model_files, read_model_files),
    (is_elmoformanylangs, read_elmoformanylangs),
    (is_archive, read_archive),
)


def find_bilm(
    name: File,
    weight_file: File | None = None,
    vocabulary_file: File | None = None,
    *,
    softmax_file: File | None = None,
    options: BiLMOptions | None = None,
    with_softmax: bool = False,
) -> FoundBiLM:
    """
    Find the biLM that a user names, and load it.

    `name`: the name of an installed model, also as `pretrained://NAME`; the `model.tar.gz` or
    the folder of a trained `bilm`, or of a task model with the embedder `elmo`; a folder, zip or
    `.tar.gz` file with bilm-tf's files; a folder with a TensorFlow checkpoint of bilm-tf, also as
    `FOLDER/model.ckpt-STEP`; the folder of a model of ELMoForManyLangs; or `hf://USER/REPOSITORY`.
    Several biLMs of a task model are told apart by `ARCHIVE#NAME`. With `weight_file`, it is
    bilm-tf's options file. With `options`, it may also be bilm-tf's weight file alone. Each may be
    a URL. `vocabulary_file`: the words of the softmax in bilm-tf's files. `softmax_file`: an HDF5
    file with the softmax, if it is not in bilm-tf's weight file. `with_softmax`: whether to load
    the softmax and its words too, if there are any.

    Raises an `InputError` that says what was expected and found if nothing has one of the formats,
    or a file is damaged or of another model; a `FileNotFoundError` if a file does not exist; and a
    `DiskFullError` if the disk has no space to unpack a file.
    """
    part = None
    check_path("the name of a biLM" if weight_file is None else "options_file", name)
    if weight_file is None:
        name, part = split_part(_installed(name) or name)
    expected = EXPECTED.format(", ".join(pretrained_names()))
    path = local_path(
        index_of(name) if weight_file is None else name,
        expected if weight_file is None else "bilm-tf's options.json",
    )
    weights = _local(weight_file, "bilm-tf's weights in HDF5")
    words = _local(vocabulary_file, "bilm-tf's vocabulary, a file of words")
    softmax = _local(softmax_file, "a softmax in HDF5")
    given = {path: name, weights: weight_file, words: vocabulary_file, softmax: softmax_file}
    with renamed(given):
        if weights is not None:
            found = read_weights(read_options(path), weights, words, softmax, with_softmax)
        elif options is not None and h5py.is_hdf5(path):
            found = read_weights(options, path, words, softmax, with_softmax)
        else:
            extras = {"vocabulary_file": words, "softmax_file": softmax, "part": part}
            given_extras = {key: value for key, value in extras.items() if value is not None}
            found = _read_format(Path(path), expected, with_softmax, given_extras)
        if with_softmax and words is not None and found.words is None:
            raise InputError(
                f"{softmax or weights or path}: expected a softmax, of the words in {words}, found "
                "none; it may be in a file of its own, and the biLM alone needs no vocabulary file"
            )
        if with_softmax and softmax is not None and found.softmax is None:
            raise InputError(f"{softmax}: expected a vocabulary file with its words, found none")
    return found


def _local(file: File | None, expected: str) -> str | None:
    if file is None:
        return None
    check_path(expected, file)
    return local_path(file, expected)


def _read_format(
    path: Path, expected: str, with_softmax: bool, extras: dict[str, str]
) -> FoundBiLM:
    """Read a model of any format, with those parameters of its reader that the user gave."""
    with unpacked(path) as inside:
        for has_format, read in FORMATS:
            if has_format(inside):
                for key, value in extras.items():
                    if key not in signature(read).parameters:
                        raise InputError(f"expected no {EXTRAS[key]}, found {value}")
                return read(inside, with_softmax, **extras)
        found = "another kind of file"
        if inside.is_dir():
            found = f"{'a folder' if path.is_dir() else 'an archive'} without config.json and "
            found += "options.json"
        raise InputError(
            f"expected {expected}, found {found}; to name bilm-tf's two files, name their folder, "
            "or both as options_file and weight_file"
        )


def split_part(name: File) -> tuple[File, str | None]:
    """A name without the name of one of its biLMs, and this; `None` if there is none."""
    text = os.fspath(name)
    if PART not in text or os.path.exists(os.path.expanduser(text)):
        return name, None
    archive, _, part = text.rpartition(PART)
    return archive, part


def _installed(name: File) -> str | None:
    """The folder of an installed model; `None` if there is none of this name."""
    is_address = str(name).startswith(PRETRAINED)
    if not is_address and name not in pretrained_names():
        return None
    if not is_address and os.path.exists(name):
        raise InputError(
            f"{name}: expected {PRETRAINED}{name} or ./{name}, found the name of an "
            "installed model and of a file or folder"
        )
    return os.path.dirname(pretrained_files(str(name).removeprefix(PRETRAINED)).options_file)


def one_bilm(values: Iterable[File | None], keys: Sequence[str] = KEYS) -> dict[str, File]:
    """
    The values of the parameters `keys`, those of `KEYS` under any spelling, without `None`. They
    are arguments of `find_bilm`. Raises an `InputError` if they do not name exactly one biLM.
    """
    found = {key: value for key, value in zip(keys, values) if value is not None}
    for key, value in found.items():
        check_path(key, value)
    pretrained, archive_file, options_file, weight_file = keys
    if list(found) not in ([pretrained], [archive_file], [options_file, weight_file]):
        raise InputError(
            f"expected one of {pretrained}, {archive_file}, or {options_file} and {weight_file}, "
            f"found {' and '.join(found) or 'none'}"
        )
    if pretrained in found:
        found[pretrained] = PRETRAINED + str(found[pretrained]).removeprefix(PRETRAINED)
    return found
