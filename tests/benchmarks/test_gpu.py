"""No GPU is needed: `--quick` runs on a CPU."""

import json
import re

import numpy as np
import pytest
import torch

from benchmarks.gpu import __main__ as command
from benchmarks.gpu import numerics, trainers
from benchmarks.gpu.peers import training_step, vectors
from benchmarks.gpu.precision import PRECISIONS, precise_to
from benchmarks.gpu.step import Sizes
from benchmarks.gpu.text import InventedText
from benchmarks.settings import QUICK, options_of
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.ops import backend, lstm
from tests.benchmarks.test_tables import page
from tests.conftest import python, without

[(NAME, MODEL)] = QUICK.items()
OPTIONS = options_of(NAME, MODEL)
SIZES = Sizes(rows=3, steps=4, negatives=20, words=100)
CPU = torch.device("cpu")

WITHOUT_ALLENNLP = f"""{without("allennlp", "allennlp_models", "transformers")}
sys.argv = ["benchmarks.gpu", "--quick", "--out", sys.argv[1]]
from benchmarks.gpu.__main__ import main
main()
"""


@pytest.mark.long
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
    for record in tables["training"]:
        rate = record["rows"] * record["steps"] * 1000 / record["ms"]
        assert record["tokens_per_second"] == pytest.approx(rate)
    assert "Numbers of the fast paths" in done.stdout and "without AllenNLP" in done.stderr


def test_trainings_by_allennlp():
    """A biLM and a tagger train on this device, and their losses are those of chance or better: the
    sum of two directions' means over 6 words, and the mean over 12 tags at most, in nats."""
    bilm, tagger = trainers.run(CPU)
    assert bilm["ok"] and 0 < bilm["loss"] < 2 * np.log(6 + 1) and not bilm["use_amp"]
    assert tagger["ok"] and 0 < tagger["loss"] < 1.2 * np.log(12)


def test_a_wrong_number_is_found_and_named(monkeypatch, tmp_path, capsys):
    """A tanh that is wrong by a hundredth is found in all precisions, and the line names the part
    and the difference. So is NaN, which compares false with everything."""
    assert not numerics.compare("", "", PRECISIONS[0], *torch.tensor([np.nan, 1]), False)["ok"]
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


def test_peers_do_the_same_work():
    """AllenNLP's modules read the same windows and the same batches: the step trains all weights,
    and the vectors have the same shape as ours."""
    windows = InventedText(SIZES.words, 50).windows(SIZES.rows, SIZES.steps, 2)
    training_step(OPTIONS, SIZES, CPU, windows)()
    elmo = Elmo(BiLM(OPTIONS)).eval()
    batch = elmo.characters(InventedText(SIZES.words, 50).sentences(30))
    [found] = vectors(OPTIONS, [batch])()
    assert found.shape == elmo(batch)["elmo_representations"][0].shape


def test_precisions_are_set_and_restored():
    """PyTorch's old and new switches agree, inside and after."""
    before = torch.backends.cuda.matmul.fp32_precision
    for precision in PRECISIONS:
        with precise_to(precision):
            assert torch.backends.cuda.matmul.allow_tf32 == precision.tf32
            assert torch.backends.cudnn.allow_tf32 == precision.tf32
            assert (torch.backends.cuda.matmul.fp32_precision == "tf32") == precision.tf32
    assert torch.backends.cuda.matmul.fp32_precision == before


@pytest.mark.long
def test_operators_of_a_step():
    """The figures of benchmarks/README.md, and the aims that were set: at most 660 computing
    operators with launches and 250 views for a step in bf16, in which PyTorch joins the rows of two
    sparse gradients and nothing else waits, and one copy to the CPU for a batch of sentences."""
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
    dispatched = f"a step in bf16 dispatches {n_computing} operators and kernels"
    assert dispatched in page("benchmarks/README.md")
