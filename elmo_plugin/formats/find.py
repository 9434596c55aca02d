"""
Finds the biLM that a user names. A new format is a file, or a package, with a `Format`, and a name
in `FORMATS`.
"""

import os
import re
from collections.abc import Iterable, Sequence
from inspect import signature
from pathlib import Path

from elmo_plugin.checks import InputError, check_path, fail, named_as_given
from elmo_plugin.files.local_path import local_path
from elmo_plugin.formats.archive import ARCHIVE
from elmo_plugin.formats.bilm_tf.folder import BILM_TF
from elmo_plugin.formats.bilm_tf.texts import read_options
from elmo_plugin.formats.bilm_tf.weights import read_weights
from elmo_plugin.formats.elmoformanylangs import ELMOFORMANYLANGS
from elmo_plugin.formats.format import FoundBiLM
from elmo_plugin.formats.tf_checkpoint import CHECKPOINT, index_of
from elmo_plugin.formats.unpack import unpacked
from elmo_plugin.options import BiLMOptions
from elmo_plugin.pretrained import pretrained_files, pretrained_names

File = str | os.PathLike

PRETRAINED = "pretrained://"
"""The prefix of the installed models, instead of a path."""

KEYS = ("pretrained", "archive_file", "options_file", "weight_file")
"""The parameters that name a biLM."""

PART = "#"
"""Precedes the name of one of several biLMs in an archive, as in `model.tar.gz#encoder.elmo`."""

NAMES_OF_A_BILM = (
    "an installed model (also pretrained://NAME); the model.tar.gz or the folder of a trained "
    "bilm, or of a task model with the embedder elmo (ARCHIVE#NAME if it has several); a folder, "
    "zip or tar.gz file with options.json and an HDF5 file or a TensorFlow checkpoint of bilm-tf, "
    "or with a model of ELMoForManyLangs; hf://USER/REPOSITORY with one of these; or a URL"
)
"""Everything that `find_bilm` finds, for help and errors."""

EXPECTED = {
    "name": NAMES_OF_A_BILM,
    "options_file": "bilm-tf's options.json",
    "weight_file": "bilm-tf's weights in HDF5",
    "vocabulary_file": "bilm-tf's vocabulary, a file of words",
    "softmax_file": "a softmax in HDF5",
}
"""The files that `find_bilm` is given, and what errors say of each."""

EXTRAS = {
    "vocabulary_file": "vocabulary file with this kind of model",
    "softmax_file": "softmax file with a model that is not in bilm-tf's HDF5 files",
    "part": "name after #, which only the archive of a task model has",
}
"""What only the readers of some formats take, and how errors name it."""

# The first that has the path reads it. The archive is last, because every folder with a config.json
# is one.
FORMATS = (BILM_TF, CHECKPOINT, ELMOFORMANYLANGS, ARCHIVE)

NEEDED = re.compile(rf"(?!\.)({'|'.join(x.files for x in FORMATS)})", re.IGNORECASE)
"""The names of the files of all formats."""


def find_bilm(
    name: File | BiLMOptions,
    weight_file: File | None = None,
    vocabulary_file: File | None = None,
    *,
    softmax_file: File | None = None,
    with_softmax: bool = False,
) -> FoundBiLM:
    """
    Find the biLM that a user names, and load it.

    `name`: the name of an installed model, also as `pretrained://NAME`; the `model.tar.gz` or
    the folder of a trained `bilm`, or of a task model with the embedder `elmo`; a folder, zip or
    `.tar.gz` file with bilm-tf's files; a folder with a TensorFlow checkpoint of bilm-tf, also as
    `FOLDER/model.ckpt-STEP`; the folder of a model of ELMoForManyLangs; or `hf://USER/REPOSITORY`.
    `ARCHIVE#NAME` is one of several biLMs of a task model. With `weight_file`, it is
    bilm-tf's options file, or the options themselves. Each may be a URL. `vocabulary_file`: the
    words of the softmax in bilm-tf's files. `softmax_file`: an HDF5 file with the softmax, if it is
    not in bilm-tf's weight file. `with_softmax`: whether to load the softmax and its words too, if
    there are any.

    Raises an `InputError` that says what was expected and found if nothing has one of the formats,
    or a file is damaged or of another model; a `FileNotFoundError` if a file does not exist; and a
    `DiskFullError` if the disk has no space to unpack a file.
    """
    files: dict[str, File] = {}
    options, part = None, None
    if isinstance(name, BiLMOptions):
        options = name
    elif weight_file is not None:
        files["options_file"] = name
    elif isinstance(name, list | tuple):
        fail("the name of a biLM", "one path; load each model of an ensemble by itself", name)
    else:
        check_path("the name of a biLM", name)
        files["name"], part = split_part(name)
    optional = {"weight_file": weight_file, "vocabulary_file": vocabulary_file}
    optional["softmax_file"] = softmax_file
    given = files | {key: file for key, file in optional.items() if file is not None}
    paths = {key: _local(key, file) for key, file in given.items()}
    with named_as_given(given.values(), paths.values()):
        words, softmax = paths.get("vocabulary_file"), paths.get("softmax_file")
        if weight_file is None:
            extras = {"vocabulary_file": words, "softmax_file": softmax, "part": part}
            loaded = _read_format(Path(paths["name"]), with_softmax, extras)
        else:
            options = options or read_options(paths["options_file"])
            weights = paths["weight_file"]
            loaded = read_weights(options, weights, words, softmax, with_softmax=with_softmax)
        if with_softmax:
            _check_softmax(loaded, paths)
    return loaded


def _local(key: str, file: File) -> str:
    """The local path of the file `key` of `EXPECTED`."""
    check_path(key, file)
    if key == "name" and (folder := _installed(file)) is not None:
        return folder
    try:
        return local_path(file, EXPECTED[key])
    except FileNotFoundError as error:
        if key != "name":
            raise
        if (index := index_of(file)) is not None:
            return index
        installed = ", ".join(pretrained_names())
        raise FileNotFoundError(f"{error}; installed models: {installed}") from None


def _read_format(path: Path, with_softmax: bool, extras: dict[str, str | None]) -> FoundBiLM:
    """Read a model of any format, with those parameters of its reader that the user gave."""
    given = {key: value for key, value in extras.items() if value is not None}
    with unpacked(path, NEEDED) as inside:
        read = next((x.read for x in FORMATS if x.is_in(inside)), None)
        if read is None:
            kind = "another kind of file"
            if inside.is_dir():
                kind = f"{'a folder' if path.is_dir() else 'an archive'} without config.json and "
                kind += "options.json"
            raise InputError(
                f"expected {NAMES_OF_A_BILM}, found {kind}; to name bilm-tf's two files, name "
                "their folder, or both as options_file and weight_file"
            )
        for key, value in given.items():
            if key not in signature(read).parameters:
                raise InputError(f"expected no {EXTRAS[key]}, found {value}")
        return read(inside, with_softmax, **given)


def _check_softmax(loaded: FoundBiLM, paths: dict[str, str]) -> None:
    """Raise an `InputError` if the user named a file of a softmax that is not complete."""
    if "vocabulary_file" in paths and loaded.words is None:
        (file, *_) = (paths[k] for k in ("softmax_file", "weight_file", "name") if k in paths)
        raise InputError(
            f"{file}: expected a softmax, of the words in {paths['vocabulary_file']}, found none; "
            "it may be in a file of its own, and the biLM alone needs no vocabulary file"
        )
    if "softmax_file" in paths and loaded.softmax is None:
        raise InputError(
            f"{paths['softmax_file']}: expected a vocabulary file with its words, found none"
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
    given = {key: value for key, value in zip(keys, values) if value is not None}
    for key, value in given.items():
        check_path(key, value)
    pretrained, archive_file, options_file, weight_file = keys
    if list(given) not in ([pretrained], [archive_file], [options_file, weight_file]):
        raise InputError(
            f"expected one of {pretrained}, {archive_file}, or {options_file} and {weight_file}, "
            f"found {' and '.join(given) or 'none'}"
        )
    if pretrained in given:
        given[pretrained] = PRETRAINED + str(given[pretrained]).removeprefix(PRETRAINED)
    return given
