"""A file system without locks, as some network file systems are. A library that the C compiler of
this machine makes lets every lock fail, also those of HDF5 and SQLite."""

import errno
import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NoReturn

import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.corpora.uses import write_uses
from elmo_plugin.text.corpus_cache import open_corpus
from elmo_plugin.text.encoding import encode_corpus
from tests.conftest import BiLMFiles, python

SHIM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>

int flock(int file, int operation) { errno = ENOLCK; return -1; }

#define REFUSE(name) \\
    int name(int file, int command, ...) { \\
        va_list rest; \\
        va_start(rest, command); \\
        void *argument = va_arg(rest, void *); \\
        va_end(rest); \\
        if (command == F_SETLK || command == F_SETLKW) { errno = ENOLCK; return -1; } \\
        return ((int (*)(int, int, ...))dlsym(RTLD_NEXT, #name))(file, command, argument); \\
    }
REFUSE(fcntl)
REFUSE(fcntl64)
"""
PROGRAM = """
import logging, sys
logging.basicConfig(format="%(message)s")
from elmo_plugin import Elmo
from elmo_plugin.commands.runner import run_program
from elmo_plugin.corpora.uses import read_uses
model, folder = sys.argv[1:]
elmo = Elmo.from_archive(model)
print(elmo.embed("He threw the stick").shape[0])
print(len(read_uses(folder + "/uses")))
elmo.save(folder + "/saved")
print(Elmo.from_archive(folder + "/saved").embed("He threw").shape[0])
print(Elmo.from_archive(model, cache_dir=folder).embed("a dog ran").shape[0])
print(run_program("elmo", [folder + "/text", folder + "/out", "--top", "--archive-file", model]))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if (compiler := shutil.which("cc")) is None or not sys.platform.startswith("linux"):
        pytest.skip("needs a C compiler on Linux")
    folder = tmp_path_factory.mktemp("library")
    (folder / "no_locks.c").write_text(SHIM)
    out = folder / "no_locks.so"
    source = str(folder / "no_locks.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-o", out, source, "-ldl"], check=True)
    return out


def test_files(library: Path, bilm_files: BiLMFiles, tmp_path: Path) -> None:
    """By definition: reading weights and uses takes no lock, nor does saving. The layer cache,
    which needs locks, is not used, and a warning says why. Writing vectors is an error that names
    locks and says what to do, and nothing is left."""
    elmo = Elmo.from_files(*bilm_files)
    write_uses(tmp_path / "uses", elmo, [["a", "dog"]], ["dog"], "top", None, 0)
    (tmp_path / "text").write_text("a dog\n")
    model = Path(bilm_files.options_file).parent
    done = python("-c", PROGRAM, model, tmp_path, LD_PRELOAD=str(library))
    *n_rows, message = done.stdout.splitlines()
    assert n_rows == ["4", "1", "2", "3"]
    assert "file locks" in done.stderr
    assert f"{tmp_path}/out: expected a place to write to, found: " in message
    assert "no file locks there (No locks available); choose a folder on" in message
    assert not [file.name for file in tmp_path.iterdir() if "out" in file.name]


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_corpus(number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: encoding a text needs locks, and reading it from the cache does not."""
    (tmp_path / "text").write_text("a dog\n")
    expected = open_corpus(tmp_path / "text", tmp_path / "cache").num_tokens

    def flock(*_: object) -> NoReturn:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", flock)
    assert open_corpus(tmp_path / "text", tmp_path / "cache").num_tokens == expected
    with pytest.raises(InputError, match=r"^cache_dir: .*no file locks there .*local disk"):
        open_corpus(tmp_path / "text", tmp_path / "other")
    with pytest.raises(InputError, match=r"out: .* no file locks there .*local disk"):
        encode_corpus([tmp_path / "text"], tmp_path / "out")
