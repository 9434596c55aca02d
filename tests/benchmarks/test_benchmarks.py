import random
from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import embedding, installed, kernels, task_modules, training
from benchmarks.measure import in_turns
from benchmarks.operations import (
    FORWARD_AND_BACKWARD,
    char_cnn_operations,
    lstm_operations,
    softmax_operations,
)
from benchmarks.peer_language_model import AllenNLPLanguageModel
from benchmarks.settings import QUICK, Settings, blocks, options_of
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM, lstm
from elmo_plugin.ops.backend import quantizes
from elmo_plugin.ops.lstm import reference_lstm
from elmo_plugin.ops.private_torch import CPU_HAS_BFLOAT16
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.text.characters import words_to_characters

[(NAME, MODEL)] = QUICK.items()
PRECISIONS = ["fp32", *(["bf16"] if CPU_HAS_BFLOAT16 else [])]


def tiny_options() -> BiLMOptions:
    """Return options with D = 3, P = 2 and F = 3."""
    model = blocks(3, 2, [[1, 2], [2, 1]], 1)
    model["char_cnn"]["embedding"]["dim"] = 2
    return options_of("tiny", model)


@pytest.fixture
def text(tmp_path, monkeypatch) -> str:
    """Write 600 sentences of 3000 words, the first 300 of which are common."""
    draw = random.Random(0)
    monkeypatch.setattr("elmo_plugin.text.corpus_cache.DEFAULT_CACHE", tmp_path / "cache")
    path = tmp_path / "text.txt"
    with path.open("w") as file:
        for _ in range(600):
            ranks = (draw.randrange(draw.choice((300, 3000))) for _ in range(draw.randint(5, 30)))
            file.write(" ".join(f"w{rank}" for rank in ranks) + "\n")
    return str(path)


@pytest.fixture
def once(monkeypatch) -> None:
    """Make each figure take one round instead of several."""
    for module in (embedding, installed, training, kernels, task_modules):
        monkeypatch.setattr(module, "in_turns", partial(in_turns, n_rounds=1, least_seconds=0))


def test_operations_of_the_lstms_as_pytorch_counts_them(monkeypatch):
    """The expected numbers are those of PyTorch's own counter on the reference loop, for the
    forward pass of a layer and for the gradients of weights and inputs. The last output before the
    first step needs no gradient, which is one product less."""
    options = options_of(NAME, MODEL)
    layer = BiLM(options).bilstm.layers[0]
    n_steps, n_rows, dim, projected = 4, 3, layer.dim, layer.projection_dim
    inputs = torch.randn(2, n_steps, n_rows, projected, requires_grad=True)
    cell, hidden = torch.zeros(2, n_rows, dim), torch.zeros(2, n_rows, projected)
    monkeypatch.setattr(lstm, "lstm_scan", reference_lstm)
    with FlopCounterMode(display=False) as forward:
        outputs, _, _ = layer(inputs, cell, hidden)
    with FlopCounterMode(display=False) as backward:
        outputs.sum().backward()
    ours = lstm_operations(options, n_steps * n_rows) // options.lstm.n_layers
    spared = 2 * 2 * n_rows * projected * 4 * dim
    assert forward.get_total_flops() == ours
    assert backward.get_total_flops() == (FORWARD_AND_BACKWARD - 1) * ours - spared


def test_operations_of_the_character_cnn_by_hand():
    """With its marks, "a" has three of six characters, so four windows of width 1 or 2 until all is
    padding; "abcd" fills all six, so six windows of width 1 and five of width 2. A window takes 1 x
    2 x 2 and 2 x 2 x 1 multiplications, a word's highway 2 x 9, and its projection 6."""
    words = torch.from_numpy(words_to_characters(["a", "abcd"], 6)).long()
    convolutions = (4 + 6) * 4 + (4 + 5) * 4
    assert char_cnn_operations(tiny_options(), words) == 2 * (convolutions + 2 * 18 + 2 * 6)


def test_operations_of_the_softmax_by_hand():
    """There are two directions and five targets, each with one true and three other words, and P =
    2."""
    assert softmax_operations(tiny_options(), 5, 3) == 2 * (2 * 5 * 4 * 2)


def test_peer_is_the_same_model():
    """Both models have the same number of parameters."""
    words = ["<S>", "</S>", "<UNK>", *map(str, range(37))]
    ours = BiLMModel(BiLMVocabulary.from_words(words), **MODEL, n_negative_samples=8)
    peer = AllenNLPLanguageModel(options_of(NAME, MODEL), len(words), 8, dropout=0.0)
    counts = [sum(x.numel() for x in model.parameters()) for model in (peer, ours)]
    assert counts[0] == counts[1]


def test_vectors_are_those_of_the_stock_module(text, tmp_path, once):
    """The oracle is AllenNLP's `Elmo` with the same weights. The record's figures follow from one
    another."""
    files = embedding.write_random_weights(options_of(NAME, MODEL), tmp_path)
    ours, stock = Elmo.from_files(*files).eval(), embedding.stock_elmo(*files)
    batches = embedding.to_batches(ours, embedding.sample(text, 64))
    records = embedding.compare_speed(NAME, ours, stock, batches, quick=True)
    ways = [(record["initial_state"], record["precision"]) for record in records]
    precisions = [*PRECISIONS, *(["int8"] if quantizes(torch.empty(0)) else [])]
    assert ways == [(state, p) for state in ("carry", "zero", "warm") for p in precisions]
    assert records[0]["largest_difference"] < 1e-5 < records[0]["largest_number"]
    cosines = [record["mean_cosine"] for record in records[: len(precisions)]]
    assert 0.999 < cosines[-1] <= cosines[0] < 1.00001
    for record in records:
        assert record["ratio"] == pytest.approx(record["ours"] / record["allennlp"])
        assert record["share_of_limit"] == pytest.approx(record["ours"] / record["limit"])


def test_installed_runs(text, once):
    """By hand: one row for each model and program, on one thread and on all."""
    records = installed.run(Settings(text=text, quick=True, threads=2))["installed"]
    found = [(row["model"], row["by"], row["threads"]) for row in records]
    assert found == [("tiny", by, n) for n in (1, 2) for by in ("ours", "allennlp")]
    assert all(row["tokens_per_second"] > 0 for row in records)


@pytest.mark.long
def test_training_runs(text, once, capsys):
    """The figures of a record follow from one another."""
    settings = Settings(text=text, quick=True, profile=True)
    records = training.run(settings)["training"]
    assert [record["precision"] for record in records] == PRECISIONS
    for record in records:
        assert record["ratio"] == pytest.approx(record["ours"] / record["allennlp"])
        assert record["share_of_limit"] == pytest.approx(record["ours"] / record["limit"])
    printed = capsys.readouterr().out
    assert "vocabulary 4,000 (" in printed and "Our largest costs" in printed


@pytest.mark.parametrize(
    ("measure", "ours", "theirs"),
    [
        (partial(kernels.compare_softmax, torch.float32, 16, 32), "kernel", "pytorch"),
        (partial(kernels.compare_layer, torch.float32, 64, 16, 4, 3, True), "kernel", "pytorch"),
        (partial(kernels.compare_convolutions, train=True), "kernel", "pytorch"),
        (partial(task_modules.compare, "lstm", 3), "ours", "AllenNLP"),
        (partial(task_modules.compare, "cnn", 3), "ours", "AllenNLP"),
    ],
)
def test_ratios(once, measure, ours, theirs, text, monkeypatch):
    """The ratio is that of the two times."""
    monkeypatch.setattr(task_modules, "cached_path", lambda _: text)  # instead of docs://
    record = measure()
    assert record["ratio"] == pytest.approx(record[theirs] / record[ours])
