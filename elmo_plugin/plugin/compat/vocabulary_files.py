"""
AllenNLP writes a vocabulary in place when training starts and when it is recovered. A process that
is killed meanwhile leaves a part of the words, with which a distributed run is recovered without an
error. Importing this makes each file appear whole, and a new folder with all of its files.
"""

import os
import shutil
from pathlib import Path
from secrets import token_hex

from allennlp.data import Vocabulary

_save_to_files = Vocabulary.save_to_files


def _save_whole_files(self: Vocabulary, directory: str) -> None:
    folder = Path(os.path.realpath(directory))
    temporary = folder.with_name(f".{folder.name}.{token_hex(4)}")
    try:
        try:
            _save_to_files(self, str(temporary))
        except OSError as error:  # of a name that the user does not know
            raise OSError(error.errno, error.strerror, str(folder)) from error
        if not folder.exists():
            os.rename(temporary, folder)
            return
        for file in temporary.glob("*.txt"):
            os.replace(file, folder / file.name)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


Vocabulary.save_to_files = _save_whole_files  # type: ignore[method-assign]
