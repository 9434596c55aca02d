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


@pytest.mark.long
def test_the_variable() -> None:
    """With 0, these functions are in AllenNLP's files, and Python's `tarfile` opens archives. The
    tests of the faster ones, such as test_lstm_encoder.py, show that they are used without it."""
    done = python("-c", WHERE, ALLENNLP_TODAY_FASTER="0")
    *files, tar = json.loads(done.stdout.splitlines()[-1])
    assert all("site-packages/allennlp/" in file for file in files)
    assert tar == "tarfile"
