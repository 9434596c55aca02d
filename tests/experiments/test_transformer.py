"""Vectors of a transformer, which is made here with random weights."""

import string
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from elmo_plugin import Elmo
from experiments import transformer

LETTERS = [*string.ascii_letters, *(f"##{letter}" for letter in string.ascii_letters), ".", ","]


def write_bert(folder: Path) -> None:
    """A BERT of two layers of size 8, whose word pieces are letters."""
    folder.mkdir(parents=True)
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *LETTERS]))
    tokenizer = BertTokenizerFast(str(folder / "vocab.txt"))
    tokenizer.save_pretrained(folder)
    sizes = {"num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(len(tokenizer), 8, **sizes)).save_pretrained(folder)


def test_vectors(tmp_path: Path) -> None:
    """Expected: the hidden states of each sentence alone, averaged over the letters of a word,
    which follow one another after the first token, `[CLS]`."""
    write_bert(tmp_path / "bert")
    model = transformer.load_vectors(str(tmp_path / "bert"))
    sentences = [["the", "dog", "barks", "."], ["it"], ["a", "dog"]]
    found = model.embed(sentences, layer="all")
    bert = BertModel.from_pretrained(tmp_path / "bert").eval()
    tokenizer = BertTokenizerFast.from_pretrained(tmp_path / "bert")
    for sentence, vectors in zip(sentences, found):
        pieces = tokenizer(" ".join(sentence), return_tensors="pt")
        with torch.no_grad():
            layers = torch.cat(bert(**pieces, output_hidden_states=True).hidden_states).numpy()
        ends = 1 + np.cumsum(list(map(len, sentence)))
        starts = [1, *ends[:-1]]
        expected = [layers[:, a:b].mean(axis=1) for a, b in zip(starts, ends)]
        assert vectors == pytest.approx(np.stack(expected, axis=1), abs=1e-5)
    assert isinstance(transformer.load_vectors("pretrained://tiny"), Elmo)
