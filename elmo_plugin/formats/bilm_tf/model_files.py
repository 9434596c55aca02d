"""The two files of a model that is published as a folder or as a zip file."""

import json
import os
import tempfile
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePath, PurePosixPath

from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import DiskFullError, name_full_disk
from elmo_plugin.files.bounds import check_expansion, read_small_file
from elmo_plugin.formats.archive_files import GZIP_MAGIC
from elmo_plugin.formats.bilm_tf.options_file import MOST_BYTES

OPTIONS = "options.json"
HDF5_ENDINGS = (".hdf5", ".h5")


@contextmanager
def model_files(path: str | os.PathLike) -> Iterator[tuple[str, str]]:
    """
    The only options file, whose name ends in `options.json`, and the only HDF5 file in a folder or
    a zip file. A zip file is unpacked into a temporary folder, which exists inside the context.

    Raises an `InputError` if `path` is neither a folder nor a zip file, if it does not contain
    exactly one file of each kind, or if the zip file is damaged; and a `DiskFullError` if the disk
    has no space to unpack it.
    """
    path = Path(path)
    if path.is_dir():
        yield _choose(path, [file for file in path.iterdir() if file.is_file()])
    elif _is_zip(path):
        with tempfile.TemporaryDirectory() as folder:
            yield _extract(path, Path(folder))
    else:
        found = "another kind of file" if path.is_file() else "none"
        raise InputError(
            f"{path}: expected a folder or a zip file with {OPTIONS} and an HDF5 file, "
            f"found {found}"
        )


def holds_model_files(path: str | os.PathLike) -> bool:
    """
    Whether `path` is a zip file, or a folder with an options file. The folder of a training run is
    none, because an older export may be in it.
    """
    path = Path(path)
    return _is_zip(path) or (any(path.glob(f"*{OPTIONS}")) and not _is_run(path))


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


def _choose(source: Path, files: Iterable[PurePath]) -> tuple[str, str]:
    shown = sorted((file for file in files if not file.name.startswith(".")), key=str)
    options = [file for file in shown if file.name.endswith(OPTIONS)]
    weights = [file for file in shown if file.name.lower().endswith(HDF5_ENDINGS)]
    for found, expected in ((options, OPTIONS), (weights, "HDF5 file")):
        if len(found) != 1:
            names = ", ".join(str(file) for file in found) or "none"
            raise InputError(f"{source}: expected one {expected} in it, found {names}")
    return str(options[0]), str(weights[0])


def _extract(path: Path, folder: Path) -> tuple[str, str]:
    try:
        with name_full_disk(folder), zipfile.ZipFile(path) as archive:
            # A member's name may begin with "./".
            names = {str(PurePosixPath(name)): name for name in archive.namelist()}
            options, weights = _choose(path, map(PurePosixPath, archive.namelist()))
            options, weights = names[options], names[weights]
            n_bytes = archive.getinfo(weights).file_size
            check_expansion(f"{path}: {weights}", n_bytes, path.stat().st_size)
            if (size := archive.getinfo(options).file_size) > MOST_BYTES:
                raise InputError(
                    f"{path}: {options}: expected at most {MOST_BYTES:,} bytes, found {size:,}"
                )
            # This checks each CRC, and no member can be written outside the folder.
            return archive.extract(options, folder), archive.extract(weights, folder)
    except (InputError, DiskFullError):
        raise
    except Exception as error:  # zipfile raises many kinds of errors for damage
        raise InputError(f"{path}: expected a whole zip file, found {error}") from None
