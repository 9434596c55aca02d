"""What works without AllenNLP, and how AllenNLP finds the plugin. Each test starts processes of its
own, because a module is imported once in a process."""

import json
import sys

import numpy as np
import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from tests.conftest import python, without

ABSENT = ["allennlp", "allennlp_models", "cached_path", "jsonnet", "_jsonnet", "matplotlib", "nltk"]
ABSENT += ["nupunkt", "overrides", "spacy", "transformers", "zstandard"]

EMBED = f"""
import json, sys, elmo_plugin
imported = list(sys.modules)
{without(*ABSENT)}
from elmo_plugin import Elmo
options, weights, archive = sys.argv[1:]
elmos = [Elmo.from_pretrained("small"), Elmo.from_files(options, weights)]
elmos += [Elmo.from_archive(archive), Elmo.from_archive("pretrained://tiny")]
vectors = [elmo.embed("He threw the stick .").tolist() for elmo in elmos]
print(json.dumps([imported, vectors, "torch._dynamo" in sys.modules]))
"""


def test_vectors_without_allennlp(bilm_files, bilm_archive):
    """The expected vectors are those of this process, in which AllenNLP is imported. By the list of
    Python: the import alone brings no AllenNLP. Vectors need no compiler, which PyTorch imports by
    itself, and which takes longer than all of the rest."""
    done = python("-c", EMBED, *bilm_files, bilm_archive)
    imported, found, has_compiler = json.loads(done.stdout)
    expected = [Elmo.from_pretrained("small"), Elmo.from_files(*bilm_files)]
    expected += [Elmo.from_archive(bilm_archive), Elmo.from_pretrained("tiny")]
    for one, elmo in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, elmo.embed("He threw the stick ."), atol=1e-6)
    assert not {name.partition(".")[0] for name in imported} & set(ABSENT)
    assert not has_compiler


def test_an_address_without_cached_path(monkeypatch):
    """The error names the package that an address needs."""
    monkeypatch.setitem(sys.modules, "cached_path", None)
    with pytest.raises(InputError, match="pip install cached-path"):
        Elmo.from_archive("https://a.b/c.tar.gz")
