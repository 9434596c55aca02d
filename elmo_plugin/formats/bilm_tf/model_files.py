"""The files of a model that is published as a folder or as a zip file."""

import json
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath

from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import DiskFullError, name_full_disk
from elmo_plugin.files.bounds import check_expansion, read_small_file
from elmo_plugin.formats.archive_files import GZIP_MAGIC
from elmo_plugin.formats.bilm_tf.options_file import MOST_BYTES, read_options
from elmo_plugin.formats.bilm_tf.weight_file import read_weights
from elmo_plugin.formats.found import FoundBiLM

OPTIONS = "options.json"
VOCABULARY = "vocabulary.txt"
HDF5_ENDINGS = (".hdf5", ".h5")
MOST_BYTES_OF_WORDS = 1 << 27
"""Largest vocabulary in a zip file, so that a small one cannot fill the memory."""


def read_model_files(
    path: Path, vocabulary_file: str | None, with_softmax: bool, softmax_file: str | None = None
) -> FoundBiLM:
    """
    Read the biLM in a folder or a zip file and, if it is there and asked for, its softmax, which
    may be in a `softmax_file`. Its words are in `vocabulary_file`, or in a file `vocabulary.txt`
    next to the weights. Raises errors as `model_files`, `read_options` and `read_weights`.
    """
    with model_files(path) as (options, weights, *own):
        words = next(filter(None, (vocabulary_file, *own)), None) if with_softmax else None
        return read_weights(read_options(options), weights, words, softmax_file)


@contextmanager
def model_files(path: Path) -> Iterator[list[str]]:
    """
    The only options file, whose name ends in `options.json`, the only HDF5 file and, if there is
    one, the `vocabulary.txt` in a folder or a zip file. A zip file is unpacked into a temporary
    folder, which exists inside the context.

    Raises an `InputError` if there is not exactly one file of the first two kinds, or if the zip
    file is damaged; and a `DiskFullError` if the disk has no space to unpack it.
    """
    if path.is_dir():
        yield _choose(path, [file for file in path.iterdir() if file.is_file()])
    else:
        with tempfile.TemporaryDirectory() as folder:
            try:
                yield _extract(path, Path(folder))
            except InputError as error:  # of a file whose name the user does not know
                raise InputError(str(error).replace(folder, str(path))) from error


def holds_model_files(path: Path) -> bool:
    """
    Whether `path` is a zip file, or a folder with an options file or an HDF5 file. The folder of a
    training run is none, because an older export may be in it.
    """
    names = (file.name.lower() for file in path.glob("*"))
    has_files = any(name.endswith((OPTIONS, *HDF5_ENDINGS)) for name in names)
    return _is_zip(path) or (has_files and not _is_run(path))


def _is_zip(path: Path) -> bool:
    """A `model.tar.gz` that was made without compression may end like a zip file."""
    if not path.is_file() or not zipfile.is_zipfile(path):
        return False
    with path.open("rb") as file:
        return file.read(2) != GZIP_MAGIC


def _is_run(folder: Path) -> bool:
    """Whether a folder has the config of a training run. Other programs write one too."""
    if not (folder / "config.json").exists():
        return False
    try:
        config = json.loads(read_small_file(folder / "config.json", MOST_BYTES, "a file"))
    except (ValueError, RecursionError):
        return True  # a damaged one
    return not isinstance(config, dict) or "model" in config


def _choose(source: Path, files: Iterable[PurePath]) -> list[str]:
    shown = sorted((file for file in files if not file.name.startswith(".")), key=str)
    options = [file for file in shown if file.name.endswith(OPTIONS)]
    weights = [file for file in shown if file.name.lower().endswith(HDF5_ENDINGS)]
    for found, expected in ((options, OPTIONS), (weights, "HDF5 file")):
        if len(found) != 1:
            names = ", ".join(str(file) for file in found) or "none"
            raise InputError(f"{source}: expected one {expected} in it, found {names}")
    vocabularies = [file for file in shown if file.name == VOCABULARY]
    return [str(file) for file in (*options, *weights, *vocabularies[:1])]


def _extract(path: Path, folder: Path) -> list[str]:
    try:
        with name_full_disk(folder), zipfile.ZipFile(path) as archive:
            # A member's name may begin with "./".
            names = {str(PurePosixPath(name)): name for name in archive.namelist()}
            chosen = [names[name] for name in _choose(path, map(PurePosixPath, names))]
            n_bytes = archive.getinfo(chosen[1]).file_size
            check_expansion(f"{path}: {chosen[1]}", n_bytes, path.stat().st_size)
            for name, most in zip((chosen[0], *chosen[2:]), (MOST_BYTES, MOST_BYTES_OF_WORDS)):
                if (size := archive.getinfo(name).file_size) > most:
                    raise InputError(
                        f"{path}: {name}: expected at most {most:,} bytes, found {size:,}"
                    )
            # This checks each CRC, and no member can be written outside the folder.
            return [archive.extract(name, folder) for name in chosen]
    except (InputError, DiskFullError):
        raise
    except Exception as error:  # zipfile raises many kinds of errors for damage
        raise InputError(f"{path}: expected a whole zip file, found {error}") from None
