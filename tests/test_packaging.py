"""The wheel and the sdist contain the same package, and the wheel works where nothing else is."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
from distutils.core import run_setup
from pathlib import Path
from zipfile import ZipFile

import h5py
import numpy as np
import pytest
from markdown_it import MarkdownIt
from packaging.requirements import Requirement

from allennlp_today.environment import INSTALL, WITHOUT_PINS
from elmo_plugin import Elmo
from elmo_plugin.pretrained import DISTRIBUTIONS
from elmo_plugin.version import VERSION
from release import check_version, find_python, model_distributions
from tests.conftest import write_file
from tests.docs.pages import ALL_BLOCKS, ROOT

VECTORS = """
import numpy
from elmo_plugin import Elmo
numpy.save("vectors.npy", Elmo.from_pretrained("small").embed(["He", "threw", "the", "stick"]))
"""


def run_alone(*arguments: object, folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program that sees neither the repository nor its environment."""
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    pip = {key: value for key, value in os.environ.items() if key.startswith("PIP_")}
    done = subprocess.run(
        list(map(str, arguments)),
        cwd=folder,
        env={**kept, **pip, "ELMO_PLUGIN_KERNEL": "0"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    return done


def make_wheel(source: Path, out: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", out]
    run_alone(*pip, source, folder=out.parent)
    (wheel,) = out.glob("*.whl")
    return wheel


def copy_repository(source: Path) -> None:
    """In a copy, a build may leave its files."""
    hidden = shutil.ignore_patterns(".*", "build", "*.egg-info", "*.so", "demo-out", "__pycache__")
    shutil.copytree(ROOT, source, ignore=hidden)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of a copy of the repository."""
    folder = tmp_path_factory.mktemp("wheel")
    copy_repository(folder / "source")
    stale = folder / "source/build/lib/elmo_plugin/plugin/compat/removed.py"  # by an earlier build
    write_file(stale, "raise ImportError")
    return make_wheel(folder / "source", folder / "dist")


def test_the_description_needs_no_files(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyPI shows the README without the repository, so that each link has to be an address. Its
    text and its code are those of the file."""
    monkeypatch.chdir(ROOT)
    metadata = run_setup("setup.py", stop_after="init").metadata
    tokens = MarkdownIt("commonmark").enable("table").parse(metadata.long_description)
    found = [child for token in tokens for child in token.children or ()]
    addresses = [child.attrGet("href") for child in found if child.type == "link_open"]
    assert addresses and all(str(address).startswith("https://") for address in addresses)
    assert not any(child.type == "image" for child in found)
    read = MarkdownIt("commonmark").parse((ROOT / "README.md").read_text("utf-8"))
    code = [[x.content for x in found if x.type == "fence"] for found in (tokens, read)]
    assert code[0] == code[1]
    assert metadata.author and metadata.long_description.startswith("# elmo_plugin")


def test_a_release_has_one_version(tmp_path: Path) -> None:
    """By definition: the repository with a released version passes, and no file may have another,
    which the error names."""
    for name in ("elmo_plugin/version.py", "CHANGELOG.md", "CITATION.cff", "docs/install.md"):
        text = (ROOT / name).read_text("utf-8").replace(VERSION, "9.8.7")
        text = re.sub(r"^## 9\.8\.7.*", "## 9.8.7 - 2030-01-02", text, count=1, flags=re.MULTILINE)
        write_file(tmp_path / name, text)
    check_version(tmp_path)
    for name, old, new in (
        ("elmo_plugin/version.py", "9.8.7", "9.8.6"),
        ("CHANGELOG.md", "9.8.7 - 2030-01-02", "9.8.7 (unreleased)"),
        ("CHANGELOG.md", "9.8.7 - 2030-01-02", "Unreleased\n\n## 9.8.7 - 2030-01-02"),
        ("CITATION.cff", "9.8.7", "9.8.6"),
        ("docs/install.md", "9.8.7-py3", "9.8.6-py3"),
        ("docs/install.md", "of elmo_plugin 9.8.7", "of elmo_plugin 9.8"),
    ):
        text = (tmp_path / name).read_text("utf-8")
        assert old in text
        write_file(tmp_path / name, text.replace(old, new))
        file = "CHANGELOG.md" if name.endswith(".py") else name
        with pytest.raises(SystemExit, match=f"^{file}: expected the version 9"):
            check_version(tmp_path)
        write_file(tmp_path / name, text)


def test_the_distributions_of_models() -> None:
    """By definition: each folder of models/ installs the model of its name, which the message
    about a missing model names, and works with the present version."""
    found = []
    for folder in model_distributions(ROOT):
        project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
        (needed,) = map(Requirement, project["dependencies"])
        assert needed.name == "elmo_plugin" and VERSION in needed.specifier
        ((name, package),) = project["entry-points"]["elmo_plugin.models"].items()
        assert name == folder.name and (folder / package / "weights.hdf5").is_file()
        assert "](" not in project["readme"]["text"]  # links to files, which an index lacks
        assert (folder / "LICENSE").read_text() == (ROOT / "LICENSE").read_text()
        found.append(name)
    assert tuple(found) == DISTRIBUTIONS


def test_a_model_of_a_distribution(tmp_path: Path) -> None:
    """The files and the entry point that the page `weights.md` promises, from its own block."""
    (block,) = [b for b in ALL_BLOCKS if (b.page, b.file) == ("docs/weights.md", "pyproject.toml")]
    (tmp_path / "source" / "my_elmo").mkdir(parents=True)
    (tmp_path / "source" / "pyproject.toml").write_text(block.code)
    names = {"options.json", "weights.hdf5", "vocabulary.txt"}
    for name in names:
        (tmp_path / "source" / "my_elmo" / name).touch()
    with ZipFile(make_wheel(tmp_path / "source", tmp_path / "dist")) as wheel:
        assert names == {Path(x).name for x in wheel.namelist() if x.startswith("my_elmo/")}
        points = wheel.read("my_elmo-1.0.dist-info/entry_points.txt").decode()
    assert points == "[elmo_plugin.models]\nmine = my_elmo\n"


def test_a_python_is_found_by_its_version_or_path() -> None:
    """The Python of these tests is one that runs, and 3.2 has no `ensurepip`."""
    assert find_python(sys.executable) == sys.executable
    assert find_python("3.2") is None


def make_editable(source: Path, out: Path) -> Path:
    """The wheel that `pip install -e` installs."""
    code = f"from setuptools import build_meta; build_meta.build_editable({str(out)!r})"
    run_alone(sys.executable, "-c", code, folder=source)
    (editable,) = out.glob("*.whl")
    return editable


def environment_with(wheel: Path, folder: Path) -> Path:
    """The Python of a new environment with a wheel, which has the packages of this one too."""
    venv.create(folder / "environment")
    (packages,) = folder.glob("environment/lib/python*/site-packages")
    with ZipFile(wheel) as files:
        files.extractall(packages)
    (packages / "others.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
    return folder / "environment" / "bin" / "python"


@pytest.mark.long
def test_the_sdist_builds_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    """The expected files are those of the wheel that a checkout gives."""
    source = wheel.parents[1] / "source"
    code = f"from setuptools import build_meta; build_meta.build_sdist({str(tmp_path)!r})"
    run_alone(sys.executable, "-c", code, folder=source)
    (sdist,) = tmp_path.glob("*.tar.gz")
    (tmp_path / "dist").mkdir()
    other = make_wheel(sdist, tmp_path / "dist")
    with ZipFile(wheel) as expected, ZipFile(other) as found:
        names = set(expected.namelist())
        assert set(found.namelist()) == names
        checksums = {name: expected.getinfo(name).CRC for name in names if "RECORD" not in name}
        assert all(found.getinfo(name).CRC == crc for name, crc in checksums.items())
    assert wheel.name == other.name == f"elmo_plugin-{VERSION}-py3-none-any.whl"
    assert {"elmo_plugin/py.typed", "allennlp_today/include_package.py"} <= names
    assert "elmo_plugin/plugin/compat/removed.py" not in names
    assert "elmo_plugin/training_configs/lib/elmo.libsonnet" in names
    assert not any(name.startswith(("tests/", "benchmarks/", "experiments/")) for name in names)


@pytest.mark.long
def test_a_removed_clone_leaves_pytorch_importable(tmp_path: Path) -> None:
    """What `pip install -e` installs, in an environment that has the packages of this one. After
    the clone is removed, PyTorch still finds its entry point, and the package is not there."""
    source, empty = tmp_path / "source", tmp_path / "empty"
    empty.mkdir()
    copy_repository(source)
    python = environment_with(make_editable(source, tmp_path), tmp_path)
    code = "import elmo_plugin; print(elmo_plugin.__file__)"
    imported = run_alone(python, "-c", code, folder=empty)
    assert Path(imported.stdout.strip()) == source / "elmo_plugin" / "__init__.py"
    shutil.rmtree(source)
    code = (
        "import sys, torch, importlib.util; print(importlib.util.find_spec('elmo_plugin'), "
        "sum('elmo_plugin_imports' in str(finder) for finder in sys.meta_path))"
    )
    assert run_alone(python, "-c", code, folder=empty).stdout == "None 1\n"


@pytest.mark.long
def test_the_wheel_works_in_an_empty_folder(wheel: Path, tmp_path: Path) -> None:
    """The README's commands install the wheel in a new environment, first for vectors alone, which
    are those of this environment within fp32's rounding, and then with AllenNLP."""
    environment = tmp_path / "environment"
    empty = tmp_path / "empty"
    empty.mkdir()
    run_alone(sys.executable, "-m", "venv", environment, folder=empty)
    python = environment / "bin" / "python"
    reached = subprocess.run(
        [python, "-m", "pip", "download", "--no-deps", "-d", tmp_path, "word2number==1.1"],
        capture_output=True,
    )
    if reached.returncode != 0:
        pytest.skip("pip reaches no package index")
    run_alone(python, "-m", "pip", "install", wheel, folder=empty)
    run_alone(python, "-c", VECTORS, folder=empty)
    expected = Elmo.from_pretrained("small").embed(["He", "threw", "the", "stick"])
    np.testing.assert_allclose(np.load(empty / "vectors.npy"), expected, atol=1e-5)
    (empty / "text").write_text("He threw the stick .\n")
    score = [python, "-m", "elmo_plugin", "score", "text", "--pretrained", "small"]
    assert run_alone(*score, folder=empty).stdout.splitlines()[4].startswith("0,3,stick,TRUE,-")
    vectors = [python, "-m", "elmo_plugin", "elmo", "text", "out", "--all", "--pretrained", "small"]
    run_alone(*vectors, folder=empty)
    with h5py.File(empty / "out") as file:
        found = file["0"][()]
    expected = Elmo.from_pretrained("small").embed("He threw the stick .", "all")
    np.testing.assert_allclose(found, expected, atol=1e-5)
    for module in ("allennlp", "transformers", "spacy"):
        command = [python, "-c", f"import {module}"]
        assert subprocess.run(command, cwd=empty, capture_output=True).returncode != 0
    command = [python, "-m", "elmo_plugin", "train", "config.jsonnet", "-s", "run"]
    refused = subprocess.run(command, cwd=empty, capture_output=True, text=True)
    message = f"python -m elmo_plugin: elmo_plugin needs allennlp: {INSTALL}; without AllenNLP, "
    assert refused.stderr.startswith(message)
    run_alone(python, "-m", "pip", "install", f"{wheel}[allennlp]", folder=empty)
    run_alone(python, "-m", "pip", "install", "--no-deps", *WITHOUT_PINS, folder=empty)
    helped = run_alone(python, "-m", "elmo_plugin", "train", "--help", folder=empty)
    assert helped.stdout.startswith("usage: python -m elmo_plugin train ")
    run_alone(python, "-m", "elmo_plugin", "elmo-configs", "training_configs", folder=empty)
    config = "training_configs/two_cores/ner_elmo.jsonnet"
    run_alone(python, "-c", f"import _jsonnet; _jsonnet.evaluate_file('{config}')", folder=empty)
