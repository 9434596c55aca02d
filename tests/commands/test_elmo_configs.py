from functools import partial

import _jsonnet
import pytest

from elmo_plugin.checks import InputError
from tests.conftest import ROOT, allennlp, python

SOURCE = ROOT / "training_configs"
CONFIGS = sorted(str(file.relative_to(SOURCE)) for file in SOURCE.rglob("*.jsonnet"))
VARIABLES = {"BILM_TEXT": "text", "BILM_DEV": "dev", "BILM_ARCHIVE": "pretrained://small"}
VARIABLES |= {"ELMO_ARCHIVE": "pretrained://small", "ELMO_DIM": "256"}


elmo_configs = partial(allennlp, "elmo-configs")


def test_a_copy_means_the_same(tmp_path, capsys):
    """The copy has the repository's files and no others, and each config finds its imports."""
    copy = tmp_path / "new" / "configs"
    elmo_configs(copy)
    assert "import 'configs/lib/elmo.libsonnet'" in capsys.readouterr().out
    found = sorted(str(file.relative_to(copy)) for file in copy.rglob("*") if file.is_file())
    assert found == sorted([*CONFIGS, "lib/elmo.libsonnet"])
    for name in found:
        assert (copy / name).read_bytes() == (SOURCE / name).read_bytes()
        if name in CONFIGS:
            _jsonnet.evaluate_file(str(copy / name), ext_vars=VARIABLES)


def test_an_edited_file_is_not_replaced(tmp_path):
    """By hand: unedited files may be written again, and with an edited one nothing is written
    unless `--force` is given."""
    ner, tagger = tmp_path / "ner.jsonnet", tmp_path / "tagger.jsonnet"
    elmo_configs(tmp_path)
    elmo_configs(tmp_path)
    ner.write_text("{}")
    tagger.unlink()
    with pytest.raises(InputError, match=r"found others: \S*/ner\.jsonnet; --force replaces them$"):
        elmo_configs(tmp_path)
    assert ner.read_text() == "{}" and not tagger.exists()
    elmo_configs(tmp_path, "--force")
    assert ner.read_text() == (SOURCE / "ner.jsonnet").read_text() and tagger.exists()


def test_a_file_in_place_of_the_folder(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match=r"^folder: \S*/file: expected a folder to write to"):
        elmo_configs(tmp_path / "file")


def test_the_installed_package_has_them(tmp_path):
    """A package is what setup.py says it is; this builds it without installing it."""
    egg = ["egg_info", "--egg-base", tmp_path]
    python("setup.py", "--quiet", *egg, "build_py", "--build-lib", tmp_path / "lib")
    built = tmp_path / "lib" / "elmo_plugin" / "training_configs"
    for name in [*CONFIGS, "lib/elmo.libsonnet"]:
        assert (built / name).read_text() == (SOURCE / name).read_text()
