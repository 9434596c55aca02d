import subprocess
import sys
from pathlib import Path

import _jsonnet
import pytest
from allennlp.commands import main

import elmo_plugin.plugin.commands.elmo_libsonnet  # noqa: F401 (registers the command)
from elmo_plugin.checks import InputError

ROOT = Path(__file__).parents[3]


def elmo_libsonnet(*arguments: str | Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["allennlp", "elmo-libsonnet", *map(str, arguments)])
        main()


def test_a_config_imports_it(tmp_path, capsys):
    """By hand: 2 x 8 for a biLM with projection_dim 8."""
    elmo_libsonnet(tmp_path)
    assert f"wrote {tmp_path / 'elmo.libsonnet'}" in capsys.readouterr().out
    assert [file.name for file in tmp_path.iterdir()] == ["elmo.libsonnet"]
    config = "(import 'elmo.libsonnet').dim({ lstm: { projection_dim: 8 } })"
    assert _jsonnet.evaluate_snippet(f"{tmp_path}/config.jsonnet", config).strip() == "16"


def test_a_changed_file_is_not_replaced(tmp_path):
    """By hand: the same file may be written again, and another one stays."""
    library = tmp_path / "elmo.libsonnet"
    elmo_libsonnet(tmp_path)
    elmo_libsonnet(tmp_path)
    library.write_text("{}")
    with pytest.raises(InputError, match=r"elmo\.libsonnet: .*another one; remove it$"):
        elmo_libsonnet(tmp_path)
    assert library.read_text() == "{}"


def test_there_is_no_such_folder(tmp_path):
    with pytest.raises(InputError, match=r"^folder: .*gone.*found none$"):
        elmo_libsonnet(tmp_path / "gone")


def test_the_installed_package_has_it(tmp_path):
    """A package is what setup.py says it is; this builds it without installing it."""
    build = [sys.executable, "setup.py", "--quiet", "build_py", "--build-lib", tmp_path / "lib"]
    egg = ["egg_info", "--egg-base", tmp_path]
    done = subprocess.run([*build[:3], *egg, *build[3:]], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    library = "elmo_plugin/libsonnet/elmo.libsonnet"
    assert (tmp_path / "lib" / library).read_text() == (ROOT / library).read_text()
