"""
Makes and checks what a person uploads to PyPI, in dist/:

    python release.py 3.11 3.12 /path/to/python3.13

It checks that the changelog, the citation and the page of installation have the version; builds the
sdist and the pure wheel of the last commit, and those of each folder of models/; checks that each
sdist gives the same wheel, and that PyPI would accept the size and the metadata and render the
README; and installs the wheels with each of the named Pythons that this machine has, into a new
environment outside the clone, where it computes vectors and runs a command. Nothing is uploaded.
"""

import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from zipfile import ZipFile

ROOT = Path(__file__).parent
DIST = ROOT / "dist"
TORCH = "torch==2.13.0"
"""Installed before the wheels, as `make install` does."""
LARGEST = 100_000_000
"""PyPI's limit for a file, in bytes."""
SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
VECTORS = """
import sys
import numpy
from elmo_plugin import Elmo
from elmo_plugin.pretrained import pretrained_names
sentence = "He threw the stick to the dog ."
names = sorted(pretrained_names())
numpy.savez(sys.argv[1], **{name: Elmo.from_pretrained(name).embed(sentence) for name in names})
"""
COMPARE = """
import sys
import numpy
expected, found = map(numpy.load, sys.argv[1:])
for name in expected.files:
    numpy.testing.assert_allclose(found[name], expected[name], atol=1e-5)
"""


def main(pythons: list[str]) -> None:
    shutil.rmtree(DIST, ignore_errors=True)
    with TemporaryDirectory() as name:
        folder = Path(name)
        source = folder / "source"
        unpack_last_commit(source)
        check_version(source)
        for distribution in [source, *model_distributions(source)]:
            make(distribution, folder / "again")
        files = sorted(DIST.iterdir())
        run(sys.executable, "-m", "twine", "check", "--strict", *files)
        wheels = [file for file in files if file.suffix == ".whl"]
        expected = folder / "expected.npz"
        run(sys.executable, "-c", VECTORS, expected, folder=source)
        for python in pythons:
            if (program := find_python(python)) is None:
                print(f"Python {python}: skipped, because this machine has none that runs")
            else:
                try_wheels(program, wheels, expected, folder / "try")
    print("dist/:", *(f"{file.name} ({file.stat().st_size / 1e6:.1f} MB)" for file in files))


def unpack_last_commit(source: Path) -> None:
    if capture("git", "status", "--porcelain"):
        print("uncommitted changes are not in the release, which is the last commit")
    archive = source.with_suffix(".tar")
    run("git", "archive", "--output", archive, "HEAD", folder=ROOT)
    source.mkdir()
    run("tar", "-xf", archive, "-C", source)


def check_version(source: Path) -> None:
    """
    Exit with an error unless the first heading of the changelog is the version in version.py and
    its date, and the citation and the files on the page of installation have this version.
    """
    version = runpy.run_path(str(source / "elmo_plugin" / "version.py"))["VERSION"]
    for name, pattern, expected in (
        ("CHANGELOG.md", r"^## (.*)", rf"{re.escape(version)} - \d{{4}}-\d\d-\d\d"),
        ("CITATION.cff", r"elmo_plugin (\d[\w.]*\w)", re.escape(version)),
        ("docs/install.md", r"elmo_plugin[- ](\d[\w.]*\w)", re.escape(version)),
    ):
        found = re.findall(pattern, (source / name).read_text("utf-8"), re.MULTILINE) or ["none"]
        for text in found[:1] if name == "CHANGELOG.md" else found:
            if not re.fullmatch(expected, text):
                sys.exit(f"{name}: expected the version {version} of version.py, found {text}")


def model_distributions(source: Path) -> list[Path]:
    """The folders of models/, which are distributions of their own."""
    return sorted(file.parent for file in source.glob("models/*/pyproject.toml"))


def make(distribution: Path, again: Path) -> None:
    """
    Build a wheel and an sdist, and check that the sdist gives the wheel, and that PyPI accepts
    their sizes.
    """
    made = again / "made"
    shutil.rmtree(again, ignore_errors=True)
    capture(sys.executable, "-c", SDIST, made, folder=distribution)  # prints each file
    (sdist,) = made.iterdir()
    wheel = build_wheel(distribution, made)
    assert wheel.name.endswith("-none-any.whl"), f"expected a pure wheel, found {wheel.name}"
    other = build_wheel(sdist, again / "from_sdist")
    assert contents(wheel) == contents(other), f"{sdist.name} builds another {wheel.name}"
    DIST.mkdir(exist_ok=True)
    for file in (sdist, wheel):
        assert file.stat().st_size < LARGEST, f"{file.name}: {file.stat().st_size:,} bytes"
        shutil.copy(file, DIST)


def build_wheel(source: Path, out: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    run(*pip, "-w", out, source)
    (wheel,) = out.glob("*.whl")
    return wheel


def contents(wheel: Path) -> dict[str, int]:
    """The files of a wheel with their checksums."""
    with ZipFile(wheel) as file:
        return {x.filename: x.CRC for x in file.infolist() if not x.filename.endswith("/RECORD")}


def find_python(python: str) -> str | None:
    """The program of a version, such as 3.12, or of a path; pyenv's versions are tried too."""
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    candidates = [python, f"python{python}"]
    candidates += map(str, pyenv.glob(f"versions/{python}.*/bin/python"))
    for program in candidates:
        try:
            done = subprocess.run([program, "-c", "import ensurepip"], capture_output=True)
        except OSError:
            continue
        if done.returncode == 0:
            return program
    return None


def try_wheels(program: str, wheels: list[Path], expected: Path, folder: Path) -> None:
    """Install the wheels into a new environment, and compare its vectors with the clone's."""
    (folder / "empty").mkdir(parents=True)
    environment, empty = folder / "environment", folder / "empty"
    run(program, "-m", "venv", environment)
    python = environment / "bin" / "python"
    run(python, "-m", "pip", "install", "-q", TORCH)
    run(python, "-m", "pip", "install", "-q", *wheels)
    run(python, "-m", "pip", "check")
    found = folder / "found.npz"
    run(python, "-c", VECTORS, found, folder=empty)
    run(sys.executable, "-c", COMPARE, expected, found)
    (empty / "text").write_text("He threw the stick .\n")
    score = [python, "-m", "elmo_plugin", "score", "text", "--pretrained", "small"]
    lines = capture(*score, folder=empty).splitlines()
    assert lines[4].startswith("0,3,stick,True,-"), lines
    # The other commands need AllenNLP, and say so.
    refused = subprocess.run(
        [python, "-m", "elmo_plugin", "train"], cwd=empty, capture_output=True, text=True
    )
    assert "elmo_plugin needs allennlp: pip install" in refused.stderr, refused.stderr
    assert "score" in capture(python, "-m", "elmo_plugin", folder=empty)
    version = capture(python, "--version").strip()
    print(f"{version} ({program}): vectors equal the clone's, and `score` works", flush=True)
    shutil.rmtree(folder)  # with PyTorch's CUDA build it takes 6 GB


def run(*command: object, folder: Path | None = None) -> None:
    subprocess.run(list(map(str, command)), cwd=folder, env=outside(), check=True)


def capture(*command: object, folder: Path = ROOT) -> str:
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=outside(), check=True, stdout=subprocess.PIPE
    )
    return done.stdout.decode()


def outside() -> dict[str, str]:
    """An environment in which no kernels are built, and Python does not see this folder."""
    return {**os.environ, "ELMO_PLUGIN_KERNEL": "0", "PYTHONPATH": ""}


if __name__ == "__main__":
    main(sys.argv[1:])
