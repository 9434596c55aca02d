"""The declared, locked and imported packages agree, and a missing package is named."""

import ast
import importlib.util
import json
import os
import platform
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from allennlp_today import environment
from elmo_plugin.ops import backend
from tests.conftest import ROOT, python, write_file
from tests.docs.test_reference import KINDS, registered

# Only PyTorch's build for CUDA needs these, and they are installed before the lock.
CUDA_ONLY = ("cuda", "nvidia", "triton")

OWN = ("elmo_plugin", "allennlp_today")
"""The packages of the distribution."""

# This runs `python -m allennlp test-install`, and then prints the registered names.
TEST_INSTALL = """
import json, runpy, sys
sys.argv = ["allennlp", "test-install"]
runpy.run_module("allennlp", run_name="__main__", alter_sys=True)
from allennlp.common import Registrable
print(json.dumps([
    [kind.__name__, name, kind.by_name(name).__module__]
    for kind, entries in Registrable._registry.items()
    for name in entries
]))
"""


# A child is killed by the alarm if it waits for threads that the fork has not copied.
FORK = """
import os, signal, sys, torch
import elmo_plugin.plugin
from allennlp.models import Model
Model.by_name("bilm")
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
signal.alarm(60)
torch.ones(1000, 1000).add(1).sum()
os._exit(0)
"""


def _requirements(file_name: str) -> dict[str, Requirement]:
    lines = (ROOT / file_name).read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def _setup(keyword: str) -> Any:
    """Return an argument of setup.py, which is read without being run."""
    (value,) = (
        ast.literal_eval(node.value)
        for node in ast.walk(ast.parse((ROOT / "setup.py").read_text()))
        if isinstance(node, ast.keyword) and node.arg == keyword
    )
    return value


def _makefile() -> str:
    return (ROOT / "Makefile").read_text()


def _declared(*extras: str) -> set[str]:
    """Return the names that setup.py asks for, with those of its extras."""
    lines = list(_setup("install_requires"))
    lines += [line for extra in extras for line in _setup("extras_require")[extra]]
    return {canonicalize_name(Requirement(line).name) for line in lines}


def _imported(path: Path) -> set[str]:
    """Return the top-level modules that a file imports."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module.partition(".")[0])
    return modules


def test_what_the_package_imports_is_declared() -> None:
    """The imports are read from the source, and the distribution of a module from its metadata.
    flair cannot be installed with AllenNLP."""
    providers = metadata.packages_distributions()
    files = [file for name in OWN for file in (ROOT / name).rglob("*.py")]
    imported = set().union(*map(_imported, files))
    without_pins = {Requirement(line).name for line in environment.WITHOUT_PINS}
    installed = _declared("allennlp") | without_pins
    own = {*OWN, "elmo_plugin_imports"}
    foreign = imported - set(sys.stdlib_module_names) - own - {"flair"}
    undeclared = {
        module
        for module in foreign
        if not {canonicalize_name(name) for name in providers[module]} & installed
    }
    assert not undeclared, f"imported, but not in setup.py: {undeclared}"


def test_what_allennlp_needs_is_declared() -> None:
    """AllenNLP is installed without its dependencies, so setup.py lists them. The expected names
    are those of the metadata of AllenNLP and allennlp-models. torchvision has a stand-in, and
    pytest and wandb are for AllenNLP's own tests and a callback."""
    without_pins = {canonicalize_name(Requirement(line).name) for line in environment.WITHOUT_PINS}
    needed = {
        canonicalize_name(need.name)
        for name in without_pins
        for need in map(Requirement, metadata.requires(name) or [])
        if need.marker is None or need.marker.evaluate({"extra": ""})
    }
    assert needed - without_pins - {"torchvision"} <= _declared("allennlp", "dev")
    assert not (without_pins | {"torchvision", "pytest", "wandb"}) & _declared("allennlp")


def test_the_lock_is_complete() -> None:
    """The lock is installed without dependencies, so it must contain them all: every need that the
    metadata of an installed distribution of the lock states for this Python and platform, but for
    torchvision, which has a stand-in."""
    lock = _requirements("requirements.txt")
    absent: dict[str, set[str]] = {}
    for name in lock:
        for line in metadata.requires(name) or []:
            need = Requirement(line)
            needed = canonicalize_name(need.name)
            if need.marker is not None and not need.marker.evaluate({"extra": ""}):
                continue
            if needed not in lock and not needed.startswith((*CUDA_ONLY, "torchvision")):
                absent.setdefault(needed, set()).add(name)
    assert not absent, f"needed, but not in requirements.txt: {absent}"


def test_the_lock_pins_one_version_of_each_need() -> None:
    """The lock has one version of each need, and admits every build of PyTorch, local versions
    included."""
    lock = _requirements("requirements.txt")
    assert _declared("allennlp", "dev") <= set(lock)
    assert set(environment.WITHOUT_PINS) <= {str(pin) for pin in lock.values()}
    assert f"WITHOUT_PINS := {' '.join(environment.WITHOUT_PINS)}\n" in _makefile()
    assert all(re.fullmatch(r"==[^*]+", str(pin.specifier)) for pin in lock.values())
    assert not any(name.startswith(CUDA_ONLY) for name in lock)
    for build in ("2.13.0", "2.13.0+cpu", "2.13.0+cu130"):
        assert lock["torch"].specifier.contains(build)


def test_what_is_installed_is_what_is_locked() -> None:
    """The versions are the installed distributions' own."""
    different = {
        name: (metadata.version(name), str(pin.specifier))
        for name, pin in _requirements("requirements.txt").items()
        if not pin.specifier.contains(metadata.version(name), prereleases=True)
    }
    assert not different, f"installed, but not as requirements.txt has it: {different}"


@pytest.mark.parametrize("module", ["allennlp", "allennlp_models", "ftfy", "rouge"])
def test_a_missing_package_is_named_in_one_line(module, monkeypatch):
    """The finder says that there is no such module, as Python's own does for a missing one."""
    find_spec = importlib.util.find_spec
    without = lambda name: None if name == module else find_spec(name)  # noqa: E731
    monkeypatch.setattr(environment, "find_spec", without)
    with pytest.raises(ModuleNotFoundError) as error:
        environment.check_environment()
    message = str(error.value)
    assert error.value.name == module
    assert module.replace("_", "-") in message.lower()
    assert "pip install 'elmo_plugin[allennlp]' and then pip install --no-deps " in message
    assert "\n" not in message


def test_another_version_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.9.3 was AllenNLP's release before 2.10, and 4.50 the first of transformers without the
    class of which AllenNLP derives its own."""
    monkeypatch.setattr(environment, "version", lambda distribution: "2.9.3")
    with pytest.raises(ImportError, match=r"needs allennlp 2\.10\.1, found 2\.9\.3: pip install"):
        environment.check_environment()
    versions = {"transformers": "4.50.0"}
    monkeypatch.setattr(environment, "version", lambda name: versions.get(name, "2.10.1"))
    with pytest.raises(ImportError, match=r"needs transformers<4\.50, found 4\.50\.0: pip install"):
        environment.check_environment()


def test_pythons_are_the_same_everywhere() -> None:
    """The expected versions are those for which the Makefile checks the lock."""
    (pythons,) = re.findall(r"^PYTHONS := (.*)$", _makefile(), re.MULTILINE)
    supported = SpecifierSet(_setup("python_requires"))
    versions = [f"3.{minor}" for minor in range(30) if supported.contains(f"3.{minor}.9")]
    assert versions == sorted(pythons.split())
    classifiers = [c for c in _setup("classifiers") if c.startswith("Programming Language")]
    assert classifiers == [f"Programming Language :: Python :: {version}" for version in versions]


def test_allennlp_finds_the_plugin_in_the_repository() -> None:
    """A new process has only `.allennlp_plugins` to find the plugin. The expected output is the
    line of AllenNLP's log for a plugin that was found, and the names of this process, of which
    tests/test_bad_parameters.py has the list."""
    done = python("-c", TEST_INSTALL)
    assert "Plugin elmo_plugin available" in done.stderr
    found = {
        (KINDS.get(kind, kind), name)
        for kind, name, module in json.loads(done.stdout.splitlines()[-1])
        if module.startswith(("elmo_plugin.", "allennlp_today."))
    }
    assert found == registered()


@pytest.mark.long
def test_a_child_forked_after_the_import_may_use_threads() -> None:
    """OpenMP cannot use threads in a child if its parent has used them, so importing the plugin,
    which registers its models, uses none; AllenNLP's data loader forks its workers."""
    python("-c", FORK, OMP_NUM_THREADS="2")


SOURCES = ("char_conv", "lstm", "softmax")


def _build(folder: Path, source: str, **variables: str) -> tuple[int, str, Path]:
    """
    Build as `pip install -e` does, in a copy with the library of an earlier installation, whose
    kernels have only `source`. Returns the exit status, what was printed, and the library.
    """
    names = ("setup.py", "README.md", "pyproject.toml")
    names += ("elmo_plugin_spacy.py", "elmo_plugin_imports.py")
    for name in (*names, "elmo_plugin/version.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    hidden = shutil.ignore_patterns("*.so", "__pycache__")
    shutil.copytree(ROOT / "elmo_plugin/ops", folder / "elmo_plugin/ops", ignore=hidden)
    for name in SOURCES:
        (folder / f"elmo_plugin/ops/{name}/kernel.cpp").write_text(source.replace("NAME", name))
    library = folder / "elmo_plugin/ops/compiled" / backend.LIBRARY.name
    write_file(library, "stale")
    code = "from setuptools import build_meta; build_meta.build_editable('.')"
    kept = {name: x for name, x in os.environ.items() if not name.startswith("ELMO_PLUGIN_")}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder,
        env={**kept, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    return done.returncode, done.stdout, library


needs_compiler = pytest.mark.skipif(
    shutil.which("c++") is None or platform.machine() != "x86_64",
    reason="there is no C++ compiler, or the kernels are not for this processor",
)


@needs_compiler
def test_a_library_replaces_an_older_one(tmp_path: Path) -> None:
    """Expected: an ELF file, and nothing of an interrupted copy."""
    status, printed, library = _build(tmp_path, "int NAME = 1;\n")
    assert status == 0, printed
    assert library.read_bytes().startswith(b"\x7fELF")
    assert [file.name for file in library.parent.glob("kernels.c*")] == [library.name]


@needs_compiler
def test_kernels_that_do_not_compile_fail_the_installation(tmp_path: Path) -> None:
    """The compiler's message is shown, and how to install without them. The library of an earlier
    installation is gone, so that it is not used with other code."""
    status, printed, library = _build(tmp_path, "#error NAME is broken\n")
    assert status != 0
    assert "is broken" in printed and "With ELMO_PLUGIN_KERNEL=0" in printed
    assert not library.exists()


@pytest.mark.parametrize(
    "variables", [{"CC": "/no/compiler", "CXX": "/no/compiler"}, {"ELMO_PLUGIN_KERNEL": "0"}]
)
def test_an_installation_without_kernels_removes_older_ones(variables, tmp_path):
    """Expected: no error, as documented, and no library."""
    status, printed, library = _build(tmp_path, "int NAME = 1;\n", **variables)
    assert status == 0, printed
    assert not library.exists()


def test_an_editable_installation_above_a_clone(tmp_path: Path) -> None:
    """A clone has the name of the package by default, and Python looks into the current folder
    first. `site` reads what `pip install -e` writes; the expected file is the inner folder's."""
    clone, packages = tmp_path / "elmo_plugin", tmp_path / "site"
    (clone / "elmo_plugin").mkdir(parents=True)
    (clone / "elmo_plugin/__init__.py").touch()
    status, printed, _ = _build(clone, "int NAME = 1;\n", ELMO_PLUGIN_KERNEL="0")
    assert status == 0, printed
    (wheel,) = clone.glob("*.whl")
    with ZipFile(wheel) as files:
        files.extractall(packages)
    code = f"import site; site.addsitedir({str(packages)!r}); "
    code += "import elmo_plugin; print(elmo_plugin.__file__)"
    command = [sys.executable, "-S", "-c", code]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"{clone / 'elmo_plugin/__init__.py'}\n", done.stderr


def test_the_commands_are_there_in_any_folder(tmp_path: Path) -> None:
    """In an empty folder there is no plugins file, and AllenNLP alone has no command `elmo`."""
    done = python("-m", "elmo_plugin", "elmo", "--help", folder=tmp_path)
    assert done.stdout.startswith("usage: python -m elmo_plugin elmo [-h]")
