"""Vectors of a transformer, which is made here with random weights."""

import string
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import BertConfig, BertModel, BertTokenizerFast

from elmo_plugin import Elmo
from experiments import probe, transformer
from tests.experiments.test_probe import CONLLU

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


def test_probe(tmp_path: Path) -> None:
    """By hand: a row for each layer and the average, once, in a table of its own."""
    for split in ("train", "dev"):
        (tmp_path / f"en_ewt-ud-{split}.conllu").write_text(CONLLU)
    write_bert(tmp_path / "bert")
    rows = probe.probe_rows("bert", str(tmp_path / "bert"), tmp_path, ["zero", "warm"], tmp_path)
    names = ["embeddings", "layer 1", "layer 2", "average"]
    assert [row["settings"]["layer"] for row in rows] == names
    assert all("initial_state" not in row["settings"] for row in rows)
    last = probe.rows_table([probe.baseline_row(tmp_path), *rows]).split("\n\n")[1]
    assert last.splitlines()[0] == "| vectors | embeddings | layer 1 | layer 2 | average |"
    assert last.splitlines()[2].startswith("| `bert` | ")
