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
from tests.conftest import ROOT, BiLMFiles

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
READ = """
import logging
import sys
from pathlib import Path
logging.basicConfig(format="%(message)s")
from elmo_plugin import Elmo
from elmo_plugin.corpora.uses import read_uses
options, weights, folder = sys.argv[1:]
elmo = Elmo.from_files(options, weights)
print(elmo.embed("He threw the stick").shape[0])
print(len(read_uses(folder + "/uses")))
elmo.save(folder + "/saved")
print(Elmo.from_archive(folder + "/saved").embed("He threw").shape[0])
print(Elmo.from_files(options, weights, cache_dir=folder).embed("a dog ran").shape[0])
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


def without_locks(library: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "LD_PRELOAD": str(library)},
        capture_output=True,
        text=True,
    )


def test_reading(library: Path, bilm_files: BiLMFiles, tmp_path: Path) -> None:
    """By definition: reading weights and uses takes no lock, nor does saving. The layer cache,
    which needs locks, is not used, and a warning says why."""
    elmo = Elmo.from_files(*bilm_files)
    write_uses(tmp_path / "uses", elmo, [["a", "dog"]], ["dog"], "top", None, 0)
    done = without_locks(library, "-c", READ, *bilm_files, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == ["4", "1", "2", "3"]
    assert "file locks" in done.stderr


def test_writing(library: Path, bilm_files: BiLMFiles, tmp_path: Path) -> None:
    """By definition: the message names locks and says what to do, and nothing is left."""
    (tmp_path / "text").write_text("a dog\n")
    model = ["--options-file", bilm_files.options_file, "--weight-file", bilm_files.weight_file]
    out = tmp_path / "out"
    command = ["elmo", tmp_path / "text", out, "--top", *model]
    done = without_locks(library, "-m", "elmo_plugin", *command)
    assert done.returncode == 1
    assert f"{out}: expected a place to write to, found: " in done.stderr
    assert "no file locks there (No locks available); choose a folder on" in done.stderr
    assert {file.name for file in tmp_path.iterdir()} == {"text"}


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
