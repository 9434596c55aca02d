"""What is declared, what is locked and what is imported agree; what is missing is named."""

import ast
import importlib.util
import re
import sys
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from elmo_plugin import _environment

ROOT = Path(__file__).parents[1]

# These come with PyTorch's build for CUDA alone, before the lock: see `make install`.
CUDA_ONLY = ("cuda", "nvidia", "triton")


def _requirements(file_name: str) -> dict[str, Requirement]:
    lines = (ROOT / file_name).read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def _declared() -> set[str]:
    """`install_requires` as setup.py has it, read without running it."""
    calls = ast.walk(ast.parse((ROOT / "setup.py").read_text()))
    (needed,) = (
        ast.literal_eval(node.value)
        for node in calls
        if isinstance(node, ast.keyword) and node.arg == "install_requires"
    )
    return {canonicalize_name(Requirement(line).name) for line in needed}


def _imported(path: Path) -> set[str]:
    """The top-level modules that a file imports."""
    modules: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules.update(alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules.add(node.module.partition(".")[0])
    return modules


def test_what_the_package_imports_is_declared() -> None:
    """The imports are read off the source; which distribution gives a module, off its metadata."""
    providers = metadata.packages_distributions()
    imported = set().union(*map(_imported, (ROOT / "elmo_plugin").rglob("*.py")))
    foreign = imported - set(sys.stdlib_module_names) - {"elmo_plugin"}
    undeclared = {
        module
        for module in foreign
        if not {canonicalize_name(name) for name in providers[module]} & _declared()
    }
    assert not undeclared, f"imported, but not among setup.py's install_requires: {undeclared}"


def test_what_is_declared_is_asked_for() -> None:
    """setup.py and requirements.in are two lists of the same needs."""
    assert _declared() <= set(_requirements("requirements.in"))


def test_the_lock_is_complete() -> None:
    """
    The lock is installed without its dependencies, so it must hold them all: every need that an
    installed distribution of the lock states for this Python and platform, by its own metadata.
    """
    lock = _requirements("requirements.txt")
    absent: dict[str, set[str]] = {}
    for name in lock:
        for line in metadata.requires(name) or []:
            need = Requirement(line)
            needed = canonicalize_name(need.name)
            if need.marker is not None and not need.marker.evaluate({"extra": ""}):
                continue
            if needed not in lock and not needed.startswith(CUDA_ONLY):
                absent.setdefault(needed, set()).add(name)
    assert not absent, f"needed, but not in requirements.txt: {absent}"


def test_the_lock_pins_one_version_of_each_need() -> None:
    """By definition of a lock; and it admits every build of PyTorch, local versions included."""
    lock = _requirements("requirements.txt")
    assert set(_requirements("requirements.in")) <= set(lock)
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


def test_a_whole_environment_passes() -> None:
    """The tests run in one, or they would not have come so far."""
    _environment.check_environment()


@pytest.mark.parametrize("module", ["allennlp", "allennlp_models", "ftfy", "rouge", "h5py"])
def test_a_missing_package_is_named_in_one_line(
    module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finder says that there is no such module, as Python's own does where it is absent."""
    find_spec = importlib.util.find_spec
    monkeypatch.setattr(
        _environment, "find_spec", lambda name: None if name == module else find_spec(name)
    )
    with pytest.raises(ModuleNotFoundError) as error:
        _environment.check_environment()
    message = str(error.value)
    assert error.value.name == module
    assert module.replace("_", "-") in message.lower()
    assert "pip install --no-deps -r requirements.txt" in message
    assert "\n" not in message


def test_another_allennlp_is_named_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """2.9.3 was AllenNLP's release before 2.10."""
    monkeypatch.setattr(_environment, "version", lambda distribution: "2.9.3")
    with pytest.raises(ImportError, match=r"needs allennlp 2\.10\.1, found 2\.9\.3: pip install"):
        _environment.check_environment()
