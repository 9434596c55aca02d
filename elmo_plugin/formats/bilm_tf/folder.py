"""The files of a model in bilm-tf's format that is published as a folder, or packed in one file."""

import os
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path

import torch

from elmo_plugin.checks import InputError, check_path, named
from elmo_plugin.files.atomic_write import atomic_write, writable_folder
from elmo_plugin.files.hdf5 import array_names, open_hdf5
from elmo_plugin.formats.bilm_tf.texts import (
    OPTIONS,
    read_options,
    write_options,
    write_vocabulary_file,
)
from elmo_plugin.formats.bilm_tf.weights import read_weights, write_weights
from elmo_plugin.formats.format import Format, FoundBiLM
from elmo_plugin.formats.json_and_text import CONFIG, read_json
from elmo_plugin.formats.mixes import MIXES, TrainedMixes, read_mixes, write_mixes
from elmo_plugin.modules import BiLM, SampledSoftmax

VOCABULARY = "vocabulary.txt"
WEIGHTS = "weights.hdf5"
PREFERRED_WEIGHTS = ("model.hdf5", WEIGHTS)
HDF5_ENDINGS = (".hdf5", ".h5")
CHECKPOINT = re.compile(r"(?!\.).*\.ckpt.*\.index")
"""A file of a checkpoint of bilm-tf, which is trained in the folder and newer than its HDF5."""
OTHERS = re.compile(
    rf"{CHECKPOINT.pattern}|(?!\.)(model\.hdf5|.*softmax.*\.(hdf5|h5)|(encoder|token_embedder)\.pkl)",
    re.IGNORECASE,
)
"""Files that are read instead of `WEIGHTS` or of its softmax."""


def read_model_files(
    folder: Path,
    with_softmax: bool,
    vocabulary_file: str | None = None,
    softmax_file: str | None = None,
) -> FoundBiLM:
    """
    Read the biLM in a folder, with the mixes that `write_model_files` wrote. If it is asked for,
    also the softmax: that in `softmax_file`, or in the only HDF5 file in the folder with `softmax`
    in its name, or else in the weight file. The words are in `vocabulary_file` or in the folder.
    Raises errors as `model_files`, `vocabulary_in`, `read_options` and `read_weights`.
    """
    options_file, weights, *own = model_files(folder)
    options = read_options(options_file)
    if softmax_file is None and with_softmax and own:
        softmax_file = str(_only(own, [], "HDF5 file of a softmax"))
    if vocabulary_file is None and (with_softmax or options.words is not None):
        vocabulary_file = vocabulary_in(folder)
    files = weights, vocabulary_file, softmax_file
    loaded = read_weights(options, *files, with_softmax=with_softmax)
    if (folder / MIXES).exists():
        return loaded._replace(mixes=read_mixes(folder / MIXES))
    return loaded


def vocabulary_in(folder: Path) -> str | None:
    """
    The file `vocabulary.txt`, or else the only file `vocab*.txt` in a folder; `None` if there is
    none. Raises an `InputError` that lists the files if there are several.
    """
    files = sorted(file for file in folder.glob("vocab*.txt") if file.is_file())
    return str(_only(files, [VOCABULARY], "file vocab*.txt")) if files else None


def model_files(folder: Path) -> tuple[Path, ...]:
    """
    The options file, whose name ends in `options.json`, and the HDF5 file in a folder, and then all
    other HDF5 files with `softmax` in their names. Of several, it is the one named `options.json`,
    and `model.hdf5` or `weights.hdf5`. Raises an `InputError` that lists the files if this does not
    leave one of each.
    """
    files = sorted(x for x in folder.iterdir() if x.is_file() and not x.name.startswith("."))
    options = [file for file in files if file.name.endswith(OPTIONS)]
    hdf5 = [file for file in files if file.name.lower().endswith(HDF5_ENDINGS)]
    softmax = [file for file in hdf5 if "softmax" in file.name.lower()] if len(hdf5) > 1 else []
    weights = [file for file in hdf5 if file not in softmax]
    return (
        _only(options, [OPTIONS], OPTIONS),
        _only(weights, PREFERRED_WEIGHTS, "HDF5 file or model.hdf5"),
        *softmax,
    )


def _only(files: list[Path], preferred: Iterable[str], expected: str) -> Path:
    chosen = files if len(files) == 1 else [file for file in files if file.name in preferred]
    if len(chosen) != 1:
        names = ", ".join(file.name for file in files) or "none"
        raise InputError(f"expected one {expected} in it, found {names}")
    return chosen[0]


def holds_model_files(path: Path) -> bool:
    """
    Whether `path` is a folder with an options file or an HDF5 file. The folder of a training run is
    none, of AllenNLP or of bilm-tf, because an older export may be in it.
    """
    names = [file.name for file in path.glob("[!.]*")]
    has_files = any(name.lower().endswith((OPTIONS, *HDF5_ENDINGS)) for name in names)
    return has_files and not any(map(CHECKPOINT.fullmatch, names)) and not _is_run(path)


def _is_run(folder: Path) -> bool:
    """Whether a folder has the config of a training run. Other programs write one too."""
    if not (folder / CONFIG).exists():
        return False
    try:
        return "model" in read_json(folder / CONFIG, "a config")
    except InputError:
        return True  # a damaged one


def write_model_files(
    folder: str | os.PathLike,
    bilm: BiLM,
    *,
    softmax: SampledSoftmax | None = None,
    words: Sequence[str] | None = None,
    mixes: TrainedMixes | None = None,
    dtype: torch.dtype = torch.float32,
) -> list[str]:
    """
    Write bilm-tf's files, `options.json` and `weights.hdf5`, and `vocabulary.txt` if there are
    `words`, which are by default those of a table, and the `mixes` if there are any. The folder is
    created if it does not exist. It never contains files of two models. If an error occurs before
    all are written, the folder is unchanged. `dtype` is that of the weights in the file. Returns
    the names of the files.

    Raises an `InputError` if the folder cannot be used or created, has files of another model that
    would be read in their place, or has words or a softmax that would not be replaced; and a
    `DiskFullError` if the disk is full.
    """
    if words is None and bilm.word_table is not None:
        words = bilm.word_table.words.words()
    # The weights are renamed first and the options last; without the options nothing loads.
    writers: dict[str, Callable[[Path], None]] = {OPTIONS: partial(write_options, bilm.options)}
    if words is not None:
        writers[VOCABULARY] = partial(write_vocabulary_file, words)
    if mixes is not None:
        writers[MIXES] = partial(write_mixes, mixes)
    texts = list(writers)
    writers[WEIGHTS] = partial(write_weights, bilm, softmax=softmax, dtype=dtype)
    check_path("folder", folder)
    folder = Path(folder).expanduser()
    with writable_folder("folder", folder), ExitStack() as stack:
        others = [file.name for file in folder.iterdir() if OTHERS.fullmatch(file.name)]
        if _is_run(folder):
            others.append(CONFIG)
        others += _lost(folder, writers.keys(), softmax is not None)
        if others:
            raise InputError(
                f"{folder}: expected a folder without another model, found {', '.join(others)}"
            )
        for name, write in writers.items():
            temporary = stack.enter_context(atomic_write(folder / name))
            with named(str(folder / name)):
                write(temporary)
        for name in (*texts, MIXES):
            Path(os.path.realpath(folder / name)).unlink(missing_ok=True)  # a link stays
    return [OPTIONS, WEIGHTS, *texts[1:]]


def _lost(folder: Path, replaced: Collection[str], with_softmax: bool) -> list[str]:
    """Parts of the model in the folder that writing another model would not replace."""
    lost = [file.name for file in folder.glob("vocab*.txt") if file.name not in replaced]
    if not with_softmax and (folder / WEIGHTS).exists():
        with suppress(InputError), open_hdf5(folder / WEIGHTS) as file:  # a damaged one has none
            if any(name.startswith("softmax/") for name in array_names(file)):
                lost.append(f"the softmax in {WEIGHTS}")
    return lost


BILM_TF = Format(
    r".*options\.json|elmo_mixes\.json|.*\.(hdf5|h5)|vocab.*\.txt",
    holds_model_files,
    read_model_files,
)
