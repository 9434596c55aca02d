"""What works without AllenNLP, and how AllenNLP finds the plugin. Each test starts processes of its
own, because a module is imported once in a process."""

import json
import sys

import numpy as np
import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from tests.conftest import python, without

EMBED = """
import json
from elmo_plugin import Elmo
elmos = [
    Elmo.from_pretrained("small"),
    Elmo.from_files({options!r}, {weights!r}),
    Elmo.from_archive({archive!r}),
    Elmo.from_archive("pretrained://tiny"),
]
print(json.dumps([elmo.embed("He threw the stick .").tolist() for elmo in elmos]))
"""

ABSENT = ["allennlp", "allennlp_models", "cached_path", "jsonnet", "_jsonnet", "matplotlib", "nltk"]
ABSENT += ["nupunkt", "overrides", "spacy", "transformers", "zstandard"]


def test_vectors_without_allennlp(bilm_files, bilm_archive):
    """The expected vectors are those of this process, in which AllenNLP is imported."""
    options, weights = bilm_files
    script = EMBED.format(options=options, weights=weights, archive=bilm_archive)
    found = json.loads(python("-c", without(*ABSENT) + script).stdout.splitlines()[-1])
    expected = [
        Elmo.from_pretrained("small"),
        Elmo.from_files(options, weights),
        Elmo.from_archive(bilm_archive),
        Elmo.from_pretrained("tiny"),
    ]
    for one, elmo in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, elmo.embed("He threw the stick ."), atol=1e-6)


def test_an_address_without_cached_path(monkeypatch):
    """The error names the package that an address needs."""
    monkeypatch.setitem(sys.modules, "cached_path", None)
    with pytest.raises(InputError, match="pip install cached-path"):
        Elmo.from_archive("https://a.b/c.tar.gz")


IMPORTED = """
import json, sys, elmo_plugin
imported = list(sys.modules)
elmo_plugin.Elmo.from_pretrained("small").embed("He threw the stick .")
elmo_plugin.Elmo.from_archive("pretrained://tiny").embed("He threw the stick .")
print(json.dumps([imported, "torch._dynamo" in sys.modules]))
"""


def test_what_is_not_imported():
    """By the list of Python: the import alone brings no AllenNLP. Vectors need no compiler, which
    PyTorch imports by itself, and which takes longer than all of the rest."""
    imported, has_compiler = json.loads(python("-c", IMPORTED).stdout)
    assert not {name.partition(".")[0] for name in imported} & set(ABSENT)
    assert not has_compiler


REGISTERED = "from allennlp.models import Model; print(Model.by_name('bilm').__module__)"


@pytest.mark.parametrize("imports", ["allennlp, elmo_plugin", "elmo_plugin.plugin"])
def test_what_registers(imports):
    """tests/allennlp_today/test_include_package.py has `--include-package`, and
    tests/test_install.py the plugins file."""
    found = python("-c", f"import {imports}\n{REGISTERED}").stdout
    assert "elmo_plugin.plugin.models.bilm_model" in found


def test_the_plugins_file_in_the_home_folder(tmp_path):
    """In a folder without one, `allennlp` has the plugin's commands."""
    (tmp_path / "home" / ".allennlp").mkdir(parents=True)
    (tmp_path / "home" / ".allennlp" / "plugins").write_text("elmo_plugin\n")
    command = ["-m", "allennlp", "bilm-encode", "--help"]
    assert "usage" in python(*command, folder=tmp_path, HOME=str(tmp_path / "home")).stdout
