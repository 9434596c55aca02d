"""The environment variable ALLENNLP_TODAY_FASTER."""

import json

import pytest

from tests.conftest import python

WHERE = """
import json
import allennlp_today
from allennlp.models import archival
from allennlp.modules.augmented_lstm import AugmentedLstm
from allennlp.modules.seq2seq_encoders import Seq2SeqEncoder
from allennlp.modules.token_embedders import TokenCharactersEncoder
functions = [
    Seq2SeqEncoder.by_name("lstm").forward, AugmentedLstm.forward, TokenCharactersEncoder.forward,
]
print(json.dumps([f.__code__.co_filename for f in functions] + [archival.tarfile.open.__module__]))
"""


@pytest.mark.parametrize(("value", "is_on"), [("1", True), ("0", False)])
def test_the_variable(value: str, is_on: bool) -> None:
    """The patched functions are in files of this package, the others in AllenNLP's, or in Python's
    `tarfile`."""
    done = python("-c", WHERE, ALLENNLP_TODAY_FASTER=value)
    *files, tar = json.loads(done.stdout.splitlines()[-1])
    assert all(("/allennlp_today/" in file) == is_on for file in files)
    assert all(("site-packages/allennlp/" in file) != is_on for file in files)
    assert tar == ("functools" if is_on else "tarfile")
