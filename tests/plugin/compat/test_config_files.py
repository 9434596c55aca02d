"""Configs that AllenNLP reads, which are no files or import what is none."""

import json
import os
from pathlib import Path

import _jsonnet
import pytest
from allennlp.common import Params

from elmo_plugin.checks import InputError
from elmo_plugin.text.text_files import find_files
from tests.conftest import ROOT


@pytest.mark.parametrize("name", ["tagger_elmo.jsonnet", "bilm_1b.jsonnet"])
def test_configs_are_as_before(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oracle is Jsonnet's own reading of files and imports."""
    monkeypatch.setenv("BILM_TEXT", "text")
    monkeypatch.setenv("ELMO_DIM", "256")
    monkeypatch.setenv("ELMO_ARCHIVE", "model.tar.gz")
    file = str(ROOT / "training_configs" / name)
    expected = json.loads(_jsonnet.evaluate_file(file, ext_vars=dict(os.environ)))
    assert Params.from_file(file).as_dict(quiet=True) == expected


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (None, "a folder"),
        (b"{a: '\xe9'}", "in UTF-8, found .* 0xe9"),
        (b" " * (1 << 24) + b" ", "bytes, found more"),
    ],
)
def test_a_config_that_is_none(content: bytes | None, found: str, tmp_path: Path) -> None:
    """By definition: one sentence that names it. For a folder, Jsonnet aborts the process."""
    file = tmp_path / "config"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(
        InputError, match=f"^{file}: expected a config .*found .*{found.split()[-1]}"
    ):
        Params.from_file(str(file))


def test_an_endless_config() -> None:
    """By definition; Jsonnet reads it until the memory is full."""
    with pytest.raises(InputError, match=r"^/dev/zero: expected a config .* found more"):
        Params.from_file("/dev/zero")


@pytest.mark.parametrize("keyword", ["import", "importstr"])
@pytest.mark.parametrize(("target", "found"), [("folder", "a folder"), ("gone", "no such file")])
def test_an_import_of_what_is_no_file(
    keyword: str, target: str, found: str, tmp_path: Path
) -> None:
    """By definition: the first line names what is imported."""
    (tmp_path / "folder").mkdir()
    file = tmp_path / "config.jsonnet"
    file.write_text(f"{{a: {keyword} '{target}'}}")
    with pytest.raises(InputError, match=f"{tmp_path}/{target}: expected a file, found {found}"):
        Params.from_file(str(file))


@pytest.mark.parametrize("folder", ["training_configs", "other"])
def test_configs_that_were_not_copied(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By definition: the error names the command that copies the package's configs, and only for a
    missing file in the folder which the documentation names."""
    monkeypatch.chdir(tmp_path)
    Path("config.jsonnet").write_text(f"import '{folder}/bilm.jsonnet'")
    for name in ("config.jsonnet", f"{folder}/bilm.jsonnet"):
        with pytest.raises((InputError, FileNotFoundError), match=r"bilm\.jsonnet") as error:
            Params.from_file(name)
        copied = str(error.value).endswith(
            "; python -m elmo_plugin elmo-configs training_configs copies the package's configs"
        )
        assert copied == (folder == "training_configs")


@pytest.mark.parametrize("name", ["folder", "config.jsonnet"])
def test_the_text_of_a_task(name: str, tmp_path: Path) -> None:
    """By definition: one line."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "config.jsonnet").write_text("import 'folder'")
    message = (
        f"^task://{tmp_path}/{name}#train_data_path: .*folder: expected a file, found a folder$"
    )
    with pytest.raises(InputError, match=message):
        find_files(f"task://{tmp_path}/{name}#train_data_path")
