import random
from functools import partial

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from benchmarks import __main__ as command
from benchmarks import changes, embedding, installed, kernels, task_modules, training
from benchmarks.measure import MatrixProductPeak, in_turns
from benchmarks.operations import (
    FORWARD_AND_BACKWARD,
    char_cnn_operations,
    lstm_operations,
    softmax_operations,
)
from benchmarks.peer_language_model import AllenNLPLanguageModel
from benchmarks.settings import QUICK, Settings, blocks, options_of
from elmo_plugin.checks import InputError
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM, lstm
from elmo_plugin.ops.backend import quantizes
from elmo_plugin.ops.lstm import reference_lstm
from elmo_plugin.ops.private_torch import CPU_HAS_BFLOAT16
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data.data_loader import LazyWindow
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


def test_operations_of_the_lstms_by_hand():
    """A step of a layer in a direction takes 2 x 12 multiplications for the input, 2 x 12 for the
    last output and 3 x 2 for the projection, which is 54. There are two layers and two directions,
    and each multiplication counts twice, with its addition."""
    assert lstm_operations(tiny_options(), 1) == 2 * 4 * 54
    assert lstm_operations(tiny_options(), 7) == 7 * lstm_operations(tiny_options(), 1)


def test_operations_of_the_lstms_as_pytorch_counts_them(monkeypatch):
    """The expected numbers are those of PyTorch's own counter on the reference loop, for the
    forward pass and for the gradients of weights and inputs. The last output before the first step
    needs no gradient, which is one product less."""
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


def test_operations_of_vectors():
    """A word that occurs again costs only the LSTMs, and under `"carry"` each sentence has two more
    boundaries to read."""
    options = options_of(NAME, MODEL)
    elmo = Elmo(BiLM(options))
    batch = elmo.characters([["one", "two", "one"], ["two"]])
    once = embedding.operations(elmo, [batch], "warm")
    words = elmo.characters([["one", "two"]])[0]
    assert once == lstm_operations(options, 4) + char_cnn_operations(options, words)
    twice = embedding.operations(elmo, [batch, batch], "warm")
    assert twice - once == lstm_operations(options, 4)
    carried = embedding.operations(elmo, [batch], "carry")
    assert carried - once == lstm_operations(options, 2 * 2)


def test_in_turns():
    """The expected order is A B A B A B."""
    calls: list[str] = []
    times = in_turns(
        lambda: calls.append("a"), lambda: calls.append("b"), n_rounds=3, least_seconds=0
    )
    assert "".join(calls) == "ababab"
    assert len(times) == 2 and min(times) > 0


def test_peak_is_the_best_of_all_tries():
    """Another try can only raise the peak, and the limit is the operations divided by the rate."""
    peak = MatrixProductPeak(quick=True)
    before = peak.gflops
    peak()
    assert peak.gflops >= before > 0
    assert peak.seconds_at_least(3e9) == pytest.approx(3 / peak.gflops)


def test_peer_is_the_same_model():
    """Both models have the same numbers of parameters, and all of the peer's are trained."""
    n_words = 40
    vocabulary = BiLMVocabulary.from_words(["<S>", "</S>", "<UNK>", *map(str, range(n_words - 3))])
    options = options_of(NAME, MODEL)
    ours = BiLMModel(vocabulary, **MODEL, n_negative_samples=8)
    peer = AllenNLPLanguageModel(options, n_words, 8, dropout=0.0)

    def count(model: torch.nn.Module) -> int:
        return sum(parameter.numel() for parameter in model.parameters())

    assert count(peer) == count(ours)
    tokens = torch.arange(10).view(2, 5)
    words = torch.from_numpy(words_to_characters(list(map(str, range(10))), 50))
    window = {
        "words": words,
        "forward_inputs": tokens,
        "forward_targets": tokens + 3,
        "backward_targets": tokens + 4,
    }
    peer(torch.ones(2).bool(), LazyWindow(lambda: window))["loss"].backward()
    unused = [name for name, x in peer.named_parameters() if x.grad is None or not x.grad.any()]
    assert not unused


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


def test_sample(text):
    """Of 600 sentences the sample has every twentieth."""
    lines = open(text).read().splitlines()
    assert embedding.sample(text, 30) == [line.split() for line in lines[::20]]
    assert {len(sentence) for sentence in embedding.sample(text, 10, 7)} == {7}
    with pytest.raises(InputError, match=r"text\.txt: expected 601 sentences.*found 600"):
        embedding.sample(text, 601)


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


def test_kernels_run(once):
    """The ratio is that of the two times."""
    softmax = kernels.compare_softmax(torch.float32, 16, 32)
    layer = kernels.compare_layer(torch.float32, 64, 16, 4, 3, train=True)
    for record in (softmax, layer, kernels.compare_convolutions(train=True)):
        assert record["ratio"] == pytest.approx(record["pytorch"] / record["kernel"])
    assert softmax["share_of_limit"] > 0


@pytest.mark.parametrize("kind", ["lstm", "cnn"])
def test_task_modules_runs(once, kind):
    """The ratio is that of the two times."""
    record = task_modules.compare(kind, 3)
    assert record["ratio"] == pytest.approx(record["AllenNLP"] / record["ours"])


def test_changes_runs(monkeypatch, capsys):
    """The numbers are those of the arguments."""
    arguments = "--words 3 --uses 4 --size 5 --permutations 6 --measures apd jsd"
    monkeypatch.setattr("sys.argv", ["changes", *arguments.split()])
    changes.main()
    printed = capsys.readouterr().out
    assert "3 words, 4 uses of each in both texts: {'measures': ['apd', 'jsd']" in printed
    assert "s of CPU time" in printed and "GiB" in printed


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["speed"], "expected parts out of embedding, installed, scores, training, found"),
        (["--threads", "0"], "--threads: expected at least 1, found 0"),
        (["--json", "/no/such/out.json"], "expected a file in a folder, found no /no/such"),
    ],
)
def test_bad_arguments(arguments, message, monkeypatch, capsys):
    """The error is one sentence."""
    monkeypatch.setattr("sys.argv", ["benchmarks", *arguments])
    with pytest.raises(SystemExit):
        command.parse()
    assert message in capsys.readouterr().err
