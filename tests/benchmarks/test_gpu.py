"""No GPU is needed: `--quick` runs on a CPU."""

import json
import re
import sys
from importlib import import_module
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import numerics, trainers
from benchmarks.gpu.page import page
from benchmarks.gpu.peers import training_step, vectors
from benchmarks.gpu.precision import PRECISIONS, precise_to
from benchmarks.gpu.step import Sizes, TrainingStep
from benchmarks.gpu.text import InventedText
from benchmarks.settings import QUICK, options_of
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.ops import backend, lstm
from elmo_plugin.text.characters import BEGIN_WORD, END_WORD, words_to_characters
from tests.conftest import ROOT, python, without

[(NAME, MODEL)] = QUICK.items()
OPTIONS = options_of(NAME, MODEL)
SIZES = Sizes(rows=3, steps=4, negatives=20, words=100)
CPU = torch.device("cpu")

WITHOUT_ALLENNLP = f"""{without("allennlp", "allennlp_models", "transformers")}
sys.argv = ["benchmarks.gpu", "--quick", "--out", sys.argv[1]]
from benchmarks.gpu.__main__ import main
main()
"""


def test_quick_run_without_allennlp(tmp_path):
    """In a process in which importing AllenNLP raises an error, every table has its records, and
    all numbers are those of the equations."""
    out = tmp_path / "gpu.json"
    done = python("-c", WITHOUT_ALLENNLP, out)
    tables = json.loads(out.read_text())["tables"]
    expected = "limits numerics repeats training lstm vectors embed kernels"
    assert set(tables) == set(expected.split())
    names = [precision.name for precision in PRECISIONS]
    for name in ("limits", "training", "lstm", "vectors"):
        assert [record["precision"] for record in tables[name]] == names
    checked = [(record["part"], record["precision"]) for record in tables["numerics"]]
    assert checked == [(part, name) for part in numerics.PARTS for name in names]
    assert all(record["ok"] for record in tables["numerics"])
    assert all(record["ok"] for record in tables["repeats"]) and len(tables["repeats"]) == 6
    whole, one, *_ = tables["embed"]
    assert (whole["text"], one["text"]) == ("sentences", "one sentence") and one["words"] >= 200
    assert "no trainings with use_amp" in done.stderr
    for record in tables["training"]:
        n_tokens = record["rows"] * record["steps"]
        rate = n_tokens * 1000 / record["ms"]
        assert record["tokens_per_second"] == pytest.approx(rate)
    kernels = [record for record in tables["kernels"] if record["precision"] == "bf16"]
    shares = [record["share_of_time"] for record in kernels]
    assert shares == sorted(shares, reverse=True) and 0.3 < sum(shares) <= 1
    assert "Numbers of the fast paths" in done.stdout and "without AllenNLP" in done.stderr


def test_trainings_by_allennlp():
    """A biLM and a tagger train on this device, and their losses are those of chance or better: the
    sum of two directions' means over 6 words, and the mean over 12 tags at most, in nats."""
    bilm, tagger = trainers.run(CPU)
    assert bilm["ok"] and 0 < bilm["loss"] < 2 * np.log(6 + 1) and not bilm["use_amp"]
    assert tagger["ok"] and 0 < tagger["loss"] < 1.2 * np.log(12)


def test_the_kernels_of_a_run_are_named(monkeypatch):
    """Without a GPU there are none; a kernel that fails its self-test is missing in the list."""
    assert command.triton_kernels(CPU) == "none"
    monkeypatch.setattr(
        command.backend,
        "fastest",
        lambda operator, x: x[0].itemsize == 4 and import_module(f"{operator.__name__}.triton_ops"),
    )
    assert command.triton_kernels(CPU) == "lstm in torch.float32 and softmax in torch.float32"


def test_late_parts_are_skipped(monkeypatch, tmp_path, capsys):
    """After six minutes a line says what is not measured any more, and what was stays written."""
    monkeypatch.setattr(command, "MOST_SECONDS", -1)
    monkeypatch.setattr(command, "parts", lambda *_: [("limits", iter([{"tflops": 1.0}]))])
    monkeypatch.setattr(
        command,
        "parse",
        lambda: SimpleNamespace(count=False, quick=False, out=tmp_path / "out.json", page=None),
    )
    with pytest.raises(SystemExit) as exit_status:
        command.main()
    assert exit_status.value.code == 0
    assert json.loads((tmp_path / "out.json").read_text())["tables"] == {}
    assert "no more limits, because 0 s have passed" in capsys.readouterr().err


def test_a_wrong_number_is_found_and_named(monkeypatch, tmp_path, capsys):
    """A tanh that is wrong by a hundredth is found in all precisions, and the line names the part
    and the difference."""
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    monkeypatch.setattr(
        lstm.torch_ops, "quick_tanh", lambda x, out: torch.tanh(x, out=out).mul_(1.01)
    )
    monkeypatch.setattr(numerics, "PARTS", {"LSTM layer": numerics.PARTS["LSTM layer"]})
    records = list(numerics.run(CPU, quick=True))
    assert [record["ok"] for record in records][:2] == [False, False]
    assert command.report_failures({"numerics": records}) == 1
    line = capsys.readouterr().err.splitlines()[0]
    assert line.startswith("wrong: LSTM layer, ") and "fp32: expected a difference of" in line


def test_a_nan_is_not_within_the_bound():
    """NaN compares false with everything."""
    found = numerics.compare("p", "t", PRECISIONS[0], torch.tensor([np.nan]), torch.ones(1), False)
    assert not found["ok"]


def test_failed_parts_do_not_stop_the_others(monkeypatch, tmp_path, capsys):
    """The records before the error are in the file, and the exit status is 1."""

    def fails():
        yield {"precision": "fp32", "tflops": 1.0}
        raise RuntimeError("out of memory")

    other = iter([{"model": "m", "ms": 2.0}])
    monkeypatch.setattr(command, "parts", lambda *_: [("limits", fails()), ("training", other)])
    monkeypatch.setattr(sys, "argv", ["gpu", "--quick", "--out", str(tmp_path / "out.json")])
    with pytest.raises(SystemExit) as exit_status:
        command.main()
    tables = json.loads((tmp_path / "out.json").read_text())["tables"]
    assert exit_status.value.code == 1 and tables["training"] == [{"model": "m", "ms": 2.0}]
    assert tables["limits"] == [{"precision": "fp32", "tflops": 1.0}]
    assert "failed: limits: RuntimeError: out of memory" in capsys.readouterr().err


def test_peers_do_the_same_work():
    """AllenNLP's modules read the same windows and the same batches: the step trains all weights,
    and the vectors have the same shape as ours."""
    windows = InventedText(SIZES.words, 50).windows(SIZES.rows, SIZES.steps, 2)
    training_step(OPTIONS, SIZES, CPU, windows)()
    elmo = Elmo(BiLM(OPTIONS)).eval()
    batch = elmo.characters(InventedText(SIZES.words, 50).sentences(30))
    [found] = vectors(OPTIONS, [batch])()
    assert found.shape == elmo(batch)["elmo_representations"][0].shape


def test_training_step_trains():
    """The loss of the same windows falls, and it is the mean over tokens and directions times the
    window's length, which for random weights is log(n + 1) for n negatives, about."""
    windows = InventedText(SIZES.words, 50).windows(SIZES.rows, SIZES.steps, 1)
    step = TrainingStep(OPTIONS, SIZES, PRECISIONS[0], CPU, windows)
    before = float(step.loss().detach()) / SIZES.steps
    for _ in range(30):
        step()
    after = float(step.loss().detach()) / SIZES.steps
    assert after < before < 2 * np.log(SIZES.negatives + 1)


def test_invented_text():
    """The targets are the next words, by their characters. The first word has about 1 / 2.7 of the
    frequencies' sum, and rarer words are longer."""
    text = InventedText(1000, 50)
    [window] = text.windows(4, 6, 1)
    distinct = window["words"]
    assert len(distinct.unique(dim=0)) <= len(distinct) and distinct.shape[1] == 50
    assert (distinct[:, 0] == BEGIN_WORD).all() and (distinct == END_WORD).any(dim=1).all()
    number_of = {}
    for way in ("forward", "backward"):
        inputs, targets = window[f"{way}_inputs"], window[f"{way}_targets"]
        for place, number in zip(inputs[:, 1:].flatten(), targets[:, :-1].flatten()):
            assert number_of.setdefault(int(place), int(number)) == int(number)
    for place, number in number_of.items():
        expected = torch.from_numpy(words_to_characters([text._word(number)], 50))[0]
        assert torch.equal(distinct[place], expected)
    words = [word for sentence in text.sentences(5000) for word in sentence]
    share = words.count(text._word(0)) / len(words)
    assert share == pytest.approx(1 / 2.7 / sum(1 / (k + 2.7) for k in range(1000)), rel=0.2)
    assert np.mean([len(text._word(k)) for k in range(500, 1000)]) > 5 > len(text._word(0)) / 2


def test_precisions_are_set_and_restored():
    """PyTorch's old and new switches agree, inside and after."""
    before = torch.backends.cuda.matmul.fp32_precision
    for precision in PRECISIONS:
        with precise_to(precision):
            assert torch.backends.cuda.matmul.allow_tf32 == precision.tf32
            assert torch.backends.cudnn.allow_tf32 == precision.tf32
            assert (torch.backends.cuda.matmul.fp32_precision == "tf32") == precision.tf32
    assert torch.backends.cuda.matmul.fp32_precision == before


def test_page():
    """A table has the columns that some record fills."""
    tables = {"limits": [{"precision": "a|b", "tflops": 512.3, "none": None}]}
    found = page({"device": "X"}, tables)
    assert "Measured with: device X." in found
    assert "| precision | tflops |\n| --- | --- |\n| a/b | 512 |\n" in found


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "expected a GPU, found none; --quick runs on a CPU"),
        (["--quick", "--page", "gpu.md"], "--page: expected a GPU, found none"),
        (["--quick", "--page", "/no/such/gpu.md"], "a file in a folder, found no /no/such"),
    ],
)
def test_bad_arguments(arguments, message, monkeypatch, capsys, tmp_path):
    """The error is one sentence."""
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    monkeypatch.setattr(sys, "argv", ["gpu", "--out", str(tmp_path / "out.json"), *arguments])
    with pytest.raises(SystemExit):
        command.parse()
    assert message in capsys.readouterr().err


@pytest.mark.long
def test_operators_of_a_step():
    """The figures of docs/speed.md, and the aims that were set: at most 660 computing operators
    with launches and 250 views for a step in bf16, in which PyTorch joins the rows of two sparse
    gradients and nothing else waits, and one copy to the CPU for a batch of sentences."""
    pytest.importorskip("triton", reason="Triton is not installed")
    printed = python("-m", "benchmarks.gpu", "--count").stdout
    pattern = r"^([\w ]+): (\d+) computing operators with launches, (\d+) views, \d+ waits; ([^;]+)"
    counts = {name: x for name, *x in re.findall(pattern, printed, re.M)}
    names = [precision.name for precision in PRECISIONS]
    assert set(counts) == {*names, *(f"sentences of a {x} biLM" for x in ("frozen", "trained"))}
    n_computing, n_views, _ = counts["bf16"]
    assert int(n_computing) <= 660 and int(n_views) <= 250
    for name, (_, _, waits) in counts.items():
        assert waits == ("_coalesce 2" if name in names else "cpu 1")
    page = (ROOT / "docs/speed.md").read_text()
    assert f"a step in bf16 dispatches {n_computing} operators and kernels" in " ".join(
        page.split()
    )
