"""A language model that reads words from a table, instead of their characters."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.models import Model

from elmo_plugin import Elmo
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from tests import oracle
from tests.conftest import WORDS, allennlp
from tests.plugin.models.running_text import (
    TEXT,
    UNKNOWN,
    batch,
    language_model,
    log_probabilities,
    windows,
)
from tests.random_bilm import LSTM, arrays_of

SIZE = LSTM["projection_dim"]


def words_model(tied: bool, **params: Any) -> BiLMModel:
    return language_model(char_cnn=None, words={"dim": SIZE, "tied": tied}, **params)


def windows_with_ids(n_steps: int) -> list[dict[str, torch.Tensor]]:
    """Windows as the data loader makes them: the last two words are none of the vocabulary's."""
    ids = torch.tensor([*range(len(WORDS)), UNKNOWN, UNKNOWN])
    return [{**window, "word_ids": ids} for window in windows(TEXT, n_steps)]


@pytest.mark.parametrize("by_ids", [True, False])
@pytest.mark.parametrize("tied", [True, False])
def test_the_loss(tied, by_ids, tmp_path):
    """The oracle reads rows of the table and computes every probability, over two windows whose
    state is carried. The loader's ids and the characters of the words give the same."""
    model = words_model(tied)
    arrays = arrays_of(model.bilm, tmp_path, model.softmax)
    if tied:
        assert "softmax/W" not in arrays
        arrays["softmax/W"] = arrays["embedding"]
    options = {**model.bilm.options.to_dict(), "vocabulary": WORDS}
    rows = [log_probabilities(arrays, options, row, oracle.zero_state(options))[0] for row in TEXT]
    found, n_tokens = 0.0, 0
    for window in windows_with_ids(8):
        if not by_ids:
            del window["word_ids"]
        n = int((window["forward_targets"] >= 0).sum())
        found += model(**batch(window))["loss"].item() * n
        n_tokens += n
    expected = -sum(x.sum() for row in rows for x in row) / 2
    assert found / n_tokens == pytest.approx(expected / n_tokens, rel=1e-6)


def test_words_count_in_snapshots_and_digests():
    """By hand: two words change places, so that each gets the vectors of the other."""
    elmo = Elmo(words_model(False).float().bilm)
    before, digest = [elmo.embed([word], layer=0) for word in WORDS[3:5]], elmo.fingerprint()
    elmo.bilm.token_encoder.words.fill([*WORDS[:3], WORDS[4], WORDS[3], *WORDS[5:]])
    after = [elmo.embed([word], layer=0) for word in WORDS[3:5]]
    np.testing.assert_array_equal(after, before[::-1])
    assert elmo.fingerprint() != digest


CONFIG: dict[str, Any] = {
    "dataset_reader": {"type": "bilm", "max_characters_per_token": 100},
    "vocabulary": {"type": "bilm", "corpus": "fixtures/text", "min_count": 1},
    "train_data_path": "fixtures/text",
    "data_loader": {"type": "bilm", "batch_size": 4, "window": 20},
    "model": {"type": "bilm", "lstm": LSTM, "n_negative_samples": 20, "sparse_gradients": True},
    "trainer": {
        "num_epochs": 1,
        "optimizer": {"type": "clipped_adagrad", "lr": 0.1},
        "grad_norm": False,
    },
}


@pytest.mark.parametrize("tied", [True, False])
def test_train_export_and_use(tied, tmp_path):
    """A property: a trained model has the same vectors from its archive, from bilm-tf's files, and
    from an archive that these files are imported into; and the same probabilities."""
    config = {**CONFIG, "model": {**CONFIG["model"], "words": {"dim": SIZE, "tied": tied}}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    allennlp("train", tmp_path / "config.json", "-s", tmp_path / "run")
    archive, files = tmp_path / "run" / "model.tar.gz", tmp_path / "files"
    allennlp("bilm-export", archive, files, "--softmax")
    names = [str(files / name) for name in ("options.json", "weights.hdf5", "vocabulary.txt")]
    allennlp("bilm-import", *names, tmp_path / "again.tar.gz")
    options = json.loads((files / "options.json").read_text())
    assert options["n_tokens_vocab"] == options["words"]["n_words"]
    assert options["share_embedding_softmax"] == tied and "char_cnn" not in options
    sentences = [["the", "dog", "zyxqvish", "."], []]
    hidden, targets = torch.ones(3, SIZE), torch.tensor([3, 4, 5])
    expected = Elmo.from_archive(archive).embed(sentences, layer="all")
    log_p = []
    for place in (archive, files, tmp_path / "again.tar.gz"):
        found = Elmo.from_archive(place).embed(sentences, layer="all")
        assert all(map(np.array_equal, found, expected))
        models = [find_bilm(place, with_softmax=True)]
        models += [] if place == files else [Model.from_archive(place)]
        for model in models:
            assert (model.softmax.weight is model.bilm.token_encoder.embedding.weight) == tied
            log_p.append(model.softmax.log_probabilities(hidden, targets))
    assert all(torch.equal(x, log_p[0]) for x in log_p)
    (files / "vocabulary.txt").unlink()
    np.testing.assert_array_equal(Elmo.from_archive(files).embed(sentences, "all")[0], expected[0])


@pytest.mark.parametrize("name", ["", "weights.hdf5"])
def test_pretrained_file_with_other_words(name, tmp_path):
    """By hand: the rows of words that both have are copied, and "zebra" keeps its initial value.
    The weights alone have the words of the table, and none of the softmax."""
    source = words_model(False).float()
    write_model_files(tmp_path / "source", source.bilm, softmax=source.softmax, words=WORDS)
    words = [*WORDS[:3], "zebra", *WORDS[:2:-1]]
    block = {"type": "bilm", "lstm": LSTM, "words": {"dim": SIZE}, "n_negative_samples": None}
    block["pretrained_file"] = str(tmp_path / "source" / name)
    model = Model.from_params(Params(block), vocab=BiLMVocabulary.from_words(words))
    table, old = model.bilm.token_encoder, source.bilm.token_encoder
    parts = [(table.embedding, old.embedding), (model.softmax, source.softmax)]
    assert table.words.words() == words
    for k, word in enumerate(words):
        for new, other in parts[: 1 if name else 2]:
            rows = [(other.weight == new.weight[k]).all(dim=1).nonzero()[:, 0].tolist()]
            assert rows == [[WORDS.index(word)] if word in WORDS else []]
    for name, tensor in source.bilm.bilstm.state_dict().items():
        assert torch.equal(tensor, model.bilm.bilstm.state_dict()[name])
