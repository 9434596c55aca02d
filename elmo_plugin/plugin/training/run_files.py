"""
Patches for the files that AllenNLP writes when training starts and when it is recovered, a run's
`config.json` and its vocabulary. Importing this module applies them.

- AllenNLP writes both in place. If it is killed meanwhile, the config is empty, so that the run
  cannot be recovered any more, and the vocabulary has a part of its words, with which a distributed
  run is recovered without an error. Here each file is written atomically, and a new
  vocabulary with all of its files. The temporary file of a config is removed, because AllenNLP
  trains only in an empty folder, or in one that has a config.
- If the text that a vocabulary is made from has changed, a recovered run gave each row of its
  weights another word's. Here it is an error to replace the words of a run with checkpoints.
- A start that fails, as by the path of a text, left a folder with its config and log, in which the
  corrected command was refused. Here an error before training removes the folder that it made.
- The vocabulary of type `from_files` may name a `model.tar.gz`, but not the folder of a run or the
  name of an installed model, which `pretrained_file` may. Here it may name all of them.
"""

import os
import shutil
import traceback
from functools import wraps
from pathlib import Path
from secrets import token_hex
from typing import Any

from allennlp.commands import train
from allennlp.common import Params
from allennlp.common.util import SigTermReceived
from allennlp.data import Vocabulary
from allennlp.data.vocabulary import NAMESPACE_PADDING_FILE
from allennlp.models.archival import CONFIG_NAME
from allennlp.training import util

from elmo_plugin.checks import InputError, named
from elmo_plugin.files.atomic_write import ENDING, TOKEN, atomic_write
from elmo_plugin.files.local_path import local_path
from elmo_plugin.formats.find import PRETRAINED
from elmo_plugin.pretrained import pretrained_names

WITH_VOCABULARY = (
    "the folder or the model.tar.gz of a trained model, its folder vocabulary, or an installed "
    "model (also pretrained://NAME)"
)
"""What the vocabulary of type `from_files` may name, for errors."""

TEMPORARY = f".{CONFIG_NAME}.{TOKEN}{ENDING}"

_to_file = Params.to_file
_train_model = train.train_model
_create_serialization_dir = util.create_serialization_dir
_from_files = Vocabulary.from_files.__func__  # type: ignore[attr-defined]
_save_to_files = Vocabulary.save_to_files


def _write_whole(self: Params, params_file: str, *args: Any, **kwargs: Any) -> None:
    with atomic_write(params_file) as temporary:
        _to_file(self, str(temporary), *args, **kwargs)


@wraps(_train_model)
def _train_or_leave_nothing(params: Params, serialization_dir: str, **kwargs: Any) -> Any:
    is_new = not os.path.isdir(serialization_dir) or not os.listdir(serialization_dir)
    try:
        return _train_model(params, serialization_dir, **kwargs)
    except SigTermReceived:  # what has been prepared can be recovered, as after Ctrl-C
        raise
    except Exception as error:
        called = {x.f_code.co_qualname for x, _ in traceback.walk_tb(error.__traceback__)}
        # The second is that of distributed training, which may have begun too.
        is_start = called.isdisjoint({"TrainModel.run", "ProcessContext.join"})
        is_start |= any(name.endswith(".on_start") for name in called)  # of a callback
        if is_new and is_start and not any(Path(serialization_dir).glob("*.th")):
            shutil.rmtree(serialization_dir, ignore_errors=True)
        raise


def _create_without_temporary(params: Params, folder: str, *args: Any, **kwargs: Any) -> None:
    for temporary in Path(folder).glob(TEMPORARY):
        temporary.unlink(missing_ok=True)
    _create_serialization_dir(params, folder, *args, **kwargs)


@wraps(_from_files)
def _from_files_of_a_run(
    cls: type[Vocabulary], directory: str | os.PathLike, *args: Any, **kwargs: Any
) -> Vocabulary:
    name = os.fspath(directory)
    with named("vocabulary of type from_files: directory"):
        is_installed = name in pretrained_names() and not os.path.exists(name)
        path = local_path(PRETRAINED + name if is_installed else name, WITH_VOCABULARY)
        words = os.path.join(path, "vocabulary")
        words = words if os.path.isdir(words) else path
        if os.path.isdir(words) and NAMESPACE_PADDING_FILE not in os.listdir(words):
            found = f"a folder without {NAMESPACE_PADDING_FILE}"
            raise InputError(f"{name}: expected {WITH_VOCABULARY}, found {found}")
    return _from_files(cls, words, *args, **kwargs)


def _save_whole_files(self: Vocabulary, directory: str) -> None:
    folder = Path(os.path.realpath(directory))
    temporary = folder.with_name(f".{folder.name}.{token_hex(4)}")
    try:
        _save_to_files(self, str(temporary))
        if folder.exists():
            _check_words(temporary, folder)
            for file in temporary.glob("*.txt"):
                os.replace(file, folder / file.name)
        else:
            os.rename(temporary, folder)
    except OSError as error:  # of a name that the user does not know
        raise OSError(error.errno, error.strerror, str(folder)) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _check_words(new: Path, folder: Path) -> None:
    if not any(folder.parent.glob("model_state_e*_b*.th")):
        return
    for file in new.glob("*.txt"):
        old = folder / file.name
        is_words = file.name != NAMESPACE_PADDING_FILE  # whose lines are in any order
        if not is_words or not old.exists() or old.read_bytes() == file.read_bytes():
            continue
        is_order = sorted(old.read_bytes().splitlines()) == sorted(file.read_bytes().splitlines())
        found = "its words in another order" if is_order else "other words"
        raise InputError(
            f"vocabulary: expected that of the run in {folder.parent}, found {found}; restore the "
            "text that it is made from to resume, or see More text later, with new words in "
            "docs/training.md; try again if the data_loader has num_workers"
        )


Params.to_file = _write_whole  # type: ignore[method-assign]
train.train_model = _train_or_leave_nothing  # type: ignore[assignment]
util.create_serialization_dir = _create_without_temporary  # type: ignore[assignment]
Vocabulary.from_files = classmethod(_from_files_of_a_run)  # type: ignore[assignment]
Vocabulary.save_to_files = _save_whole_files  # type: ignore[method-assign]
