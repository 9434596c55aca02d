"""What works without AllenNLP, and how AllenNLP finds the plugin. Each test starts processes of its
own, because a module is imported once in a process."""

import json

import numpy as np
import pytest
from allennlp.predictors import Predictor

from elmo_plugin import Elmo
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
ABSENT += ["overrides", "spacy", "transformers", "zstandard"]


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


COMPILER = """
import sys
from elmo_plugin import Elmo
Elmo.from_pretrained("small").embed("He threw the stick .")
Elmo.from_archive("pretrained://tiny").embed("He threw the stick .")
print("torch._dynamo" in sys.modules)
"""


def test_vectors_do_not_import_the_compiler():
    """PyTorch imports it by itself, which takes longer than all of the rest."""
    assert python("-c", COMPILER).stdout.split() == ["False"]


def test_an_address_without_cached_path():
    """The error names the package that an address needs."""
    script = without(*ABSENT) + (
        "from elmo_plugin import Elmo\n"
        "try:\n    Elmo.from_archive('https://a.b/c.tar.gz')\n"
        "except ValueError as error:\n    print(error)\n"
    )
    assert "pip install cached-path" in python("-c", script).stdout


def test_the_import_alone_brings_no_allennlp():
    """The modules are those that Python lists after the import."""
    script = "import json, sys, elmo_plugin; print(json.dumps(list(sys.modules)))"
    found = {name.partition(".")[0] for name in json.loads(python("-c", script).stdout)}
    assert not found & set(ABSENT)


REGISTERED = "from allennlp.models import Model; print(Model.by_name('bilm').__module__)"


@pytest.mark.parametrize(
    "imports",
    [
        "import allennlp, elmo_plugin",
        "from allennlp.common.util import import_module_and_submodules as f; f('elmo_plugin')",
    ],
)
def test_what_registers(imports):
    """In Python, and by `--include-package`. `test_an_archive_in_python` imports the plugin itself,
    and tests/test_install.py has the plugins file."""
    found = python("-c", f"{imports}\n{REGISTERED}").stdout
    assert "elmo_plugin.plugin.models.language_model" in found


def test_the_plugins_file_in_the_home_folder(tmp_path):
    """In a folder without one, `allennlp` has the plugin's commands."""
    (tmp_path / "home" / ".allennlp").mkdir(parents=True)
    (tmp_path / "home" / ".allennlp" / "plugins").write_text("elmo_plugin\n")
    command = ["-m", "allennlp", "bilm-encode", "--help"]
    assert "usage" in python(*command, folder=tmp_path, HOME=str(tmp_path / "home")).stdout


def test_an_archive_in_python(bilm_archive):
    """What AllenNLP loads by itself in a process that has imported the plugin."""
    script = (
        "import sys, elmo_plugin.plugin\n"
        "from allennlp.models.archival import load_archive\n"
        "from allennlp.predictors import Predictor\n"
        f"model = load_archive({bilm_archive!r}).model\n"
        f"print(Predictor.from_path({bilm_archive!r}).predict_json({{'sentence': 'the dog'}})"
        "['perplexity'])"
    )
    expected = Predictor.from_path(bilm_archive).predict_json({"sentence": "the dog"})["perplexity"]
    assert float(python("-c", script).stdout.splitlines()[-1]) == pytest.approx(expected)
