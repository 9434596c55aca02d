"""The grid of trainings, with a tagger of one epoch on fixtures and the model `tiny`."""

import json
import os
import shutil
import signal
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.data import DatasetReader
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.training import Checkpointer

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.training.checkpointer import BiLMCheckpointer
from experiments.grid import __main__ as grid_command
from experiments.grid import readers, training
from experiments.grid.__main__ import GridRunner
from experiments.grid.cells import read_grid
from experiments.grid.training import CpuSeconds
from experiments.rows import read_rows
from tests.conftest import ROOT
from tests.experiments.test_report import PAPER, read_once
from tests.experiments.test_transformer import write_bert

GRID = """
local cells = (import '%(root)s/experiments/grid/cells.libsonnet').cells;
local tagger = (import '%(root)s/training_configs/tagger.jsonnet') + {
  train_data_path: '@data@/tagging/train.tsv',
  validation_data_path: '@data@/tagging/dev.tsv',
  test_data_path: 'not/there',  // is not read
  trainer+: { num_epochs: 1 },
};
local tasks = {
  tag: { config: tagger, place: 'input', layers: 0.1, embedder: { dropout: 0.0 } },
};
local bilms = { tiny: { pretrained: 'tiny' } };
{
  tasks: { tag: { title: 'tags', data: 'fixtures', metric: 'accuracy', seconds: 10 } },
  bilms: bilms,
  tables: [
    {
      name: 'table 1',
      cells: cells(tasks, bilms, {
        tasks: ['tag'], bilms: ['none', 'tiny'], fractions: [0.5], seeds: [1, 2],
      }),
    },
    {
      name: 'table 2',
      cells: cells(tasks, bilms, {
        tasks: ['tag'], bilms: ['tiny'], fractions: [0.5], seeds: [1], layers: ['top', 0.1],
      }),
    },
  ],
}
"""


@pytest.fixture
def runner(tmp_path: Path) -> GridRunner:
    (tmp_path / "grid.jsonnet").write_text(GRID % {"root": ROOT})
    grid = read_grid(tmp_path / "grid.jsonnet")
    return GridRunner(grid, tmp_path / "rows.jsonl", ROOT / "fixtures", tmp_path / "work")


def edited(tmp_path: Path, old: str, new: str) -> Path:
    """The grid of these tests with a change."""
    text = GRID % {"root": ROOT}
    assert old in text
    (tmp_path / "grid.jsonnet").write_text(text.replace(old, new))
    return tmp_path / "grid.jsonnet"


def test_cells(runner: GridRunner) -> None:
    """By hand: seeds vary slowest, and the second table shares a cell with the first one."""
    names = [cell.name for cell in runner.grid.cells()]
    of_seeds = [f"tag-{x}-0.5-{seed}" for seed in (1, 2) for x in ("none", "tiny-0.1-input")]
    assert names == [*of_seeds, "tag-tiny-top-input-0.5-1"]
    assert [len(cells) for cells in runner.grid.tables.values()] == [4, 2]
    none, tiny, *_, top = runner.grid.cells()
    elmo = tiny.config["model"]["text_field_embedder"]["token_embedders"]["elmo"]
    assert elmo["archive_file"] == "@tiny@" and "use_top_only" not in elmo
    alpha = tiny.config["model"]["regularizer"]["regexes"][0][1]["alpha"]
    assert (alpha, tiny.config["model"]["encoder"]["input_size"]) == (0.1, 64 + 64)
    elmo = top.config["model"]["text_field_embedder"]["token_embedders"]["elmo"]
    assert elmo["use_top_only"] and "regularizer" not in top.config["model"]
    assert none.config["numpy_seed"] == 1
    assert none.config["dataset_reader"]["fraction"] == 0.5
    assert none.config["validation_dataset_reader"] == {"type": "sequence_tagging"}


@pytest.mark.parametrize("layers, expected", [("words", [1, 0, 0]), ("average", [1 / 3] * 3)])
def test_layers_with_fixed_weights(layers: str, expected: list[float], tmp_path: Path) -> None:
    """The expected weights of the three layers follow from the names."""
    (cell,) = read_grid(edited(tmp_path, "['top', 0.1]", f"['{layers}']")).tables["table 2"]
    elmo = cell.config["model"]["text_field_embedder"]["token_embedders"]["elmo"]
    weights = torch.tensor(elmo["scalar_mix_parameters"], dtype=torch.float32).softmax(0)
    assert weights.tolist() == pytest.approx(expected, abs=1e-7)


def test_the_grid_of_the_paper() -> None:
    """All tasks have five seeds, or three if a run is long, and no cell has a path of this machine.
    No run stops early, and all points of a curve of figure 1 have the same batches and trainer."""
    grid = read_once(PAPER)
    seeds = Counter(cell.settings["task"] for cell in grid.tables["table 1"])
    assert seeds == {
        **dict.fromkeys(("ner", "sst", "pos"), 5 * 6),  # none, four biLMs and a transformer
        **dict.fromkeys(("snli", "srl"), 5 * 5),
        **dict.fromkeys(("coref", "squad"), 3 * 4),
    }
    for cell in grid.cells():
        assert str(ROOT) not in json.dumps(cell.config)
        assert cell.config["trainer"].get("patience") is None
    of_curves: dict[str, set[str]] = {}
    for cell in grid.tables["figure 1"]:
        facts = [cell.config["data_loader"], cell.config["trainer"]]
        of_curves.setdefault(cell.settings["task"], set()).add(json.dumps(facts))
    assert {task: len(facts) for task, facts in of_curves.items()} == {"pos": 1, "ner": 1}


def test_rows_and_resuming(runner: GridRunner, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: half of the instances, a learned mix of three layers, no folder left. What is
    finished is not run again, unless its config or its biLM is another one."""
    cells = runner.left({"seed": {"1"}})
    assert runner.run(cells[:2]) == 0
    none, tiny = read_rows(runner.rows_file)
    n_sentences = len((ROOT / "fixtures/tagging/train.tsv").read_text().splitlines())
    assert none["instances"] == tiny["instances"] == round(n_sentences / 2)
    assert 0 < none["metrics"]["accuracy"] <= 1 and none["epochs"] == 1
    assert none["cpu_seconds"] > 0 and none["mixes"] == []
    (mix,) = tiny["mixes"]
    assert len(mix["s"]) == 3 and sum(mix["s"]) == pytest.approx(1)
    assert mix["gamma"] != 1.0
    assert (none["bilm_digest"], tiny["bilm_digest"]) == (None, runner.bilms["tiny"].digest)
    assert list((runner.work / "runs").iterdir()) == []

    assert [cell.name for cell in runner.left({"seed": {"1"}})] == ["tag-tiny-top-input-0.5-1"]
    other = runner.bilms["tiny"]._replace(digest="another")
    monkeypatch.setitem(runner.bilms, "tiny", other)
    assert len(runner.left({"seed": {"1"}})) == 2
    cells[0].config["trainer"]["num_epochs"] = 2
    assert len(runner.left({"seed": {"1"}})) == 3


def test_the_best_epoch_is_reported(tmp_path: Path) -> None:
    """Expected: the validation metrics that AllenNLP wrote for the epoch of the least accuracy,
    which is made the best, so that it is not the last. The run starts a process of its own."""
    both = "{ num_epochs: 3, validation_metric: '-accuracy' }, data_loader+: { num_workers: 1 }"
    grid = read_grid(edited(tmp_path, "{ num_epochs: 1 }", both))
    runner = GridRunner(grid, tmp_path / "rows.jsonl", ROOT / "fixtures", tmp_path / "work")
    run = runner._start(grid.cells()[0])
    run.process.join()
    epochs = [json.loads((run.out / f"metrics_epoch_{k}.json").read_text()) for k in range(3)]
    accuracies = [epoch["validation_accuracy"] for epoch in epochs]
    best = accuracies.index(min(accuracies))
    assert accuracies[best] < accuracies[-1]
    row = runner._finish(run)
    assert (row["epochs"], row["best_epoch"]) == (3, best + 1)
    expected = {k: v for k, v in epochs[best].items() if k.startswith("validation_")}
    assert {f"validation_{k}": v for k, v in row["metrics"].items()} == expected


@pytest.mark.long
def test_a_killed_run_continues_with_the_same_numbers(tmp_path, monkeypatch):
    """It was killed after one of three epochs, or after the last. The oracle is a run that was not,
    of a tagger with dropout. The CPU time includes that of the epochs before, to which the test
    adds a thousand seconds. The config has a callback of its own."""
    # Of a clone with changes, no run continues.
    monkeypatch.setitem(grid_command.ORIGIN, "commit", "0123456789ab")
    trainer = "{ num_epochs: 3, callbacks: [{ type: 'learning_curve' }] }"
    file = edited(tmp_path, "{ num_epochs: 1 }", trainer)
    whole, *killed = (
        GridRunner(read_grid(file), tmp_path / name, ROOT / "fixtures", tmp_path / "work" / name)
        for name in ("whole", "after_1", "after_3")
    )
    cell = whole.grid.cells()[1]
    assert whole.run([cell]) == 0
    [expected] = read_rows(whole.rows_file)
    most_seconds = 1000 + 10 * expected.pop("cpu_seconds")
    save, seconds = BiLMCheckpointer.maybe_save_checkpoint, CpuSeconds.seconds.fget
    for runner, n_epochs in zip(killed, (1, 3)):

        def save_and_die(self: Checkpointer, trainer: Any, epochs: int, batches: int) -> bool:
            saved = save(self, trainer, epochs, batches)
            if (epochs, batches) == (n_epochs, 0):  # noqa: B023
                os.kill(os.getpid(), signal.SIGKILL)
            return saved

        with monkeypatch.context() as patch:
            patch.setattr(BiLMCheckpointer, "maybe_save_checkpoint", save_and_die)
            patch.setattr(CpuSeconds, "seconds", property(lambda self: 1000 + seconds(self)))
            assert runner.run([cell]) == 1
        assert not runner.rows_file.exists()
        assert runner.run([cell]) == 0
        [found] = read_rows(runner.rows_file)
        assert 1000 < found.pop("cpu_seconds") < most_seconds
        assert found == expected, n_epochs


def test_subsets_are_nested() -> None:
    """A property: in the order of the whole, a larger part has all of a smaller one. Workers of a
    data loader read the same part."""
    base = DatasetReader.by_name("sequence_tagging")()
    path = str(ROOT / "fixtures" / "tagging" / "train.tsv")
    texts = [str(instance["tokens"]) for instance in base.read(path)]
    parts = [
        [str(instance["tokens"]) for instance in readers.SubsetReader(base, f).read(path)]
        for f in (0.001, 0.3, 0.7, 1)
    ]
    assert [len(part) for part in parts] == [1, *(round(f * len(texts)) for f in (0.3, 0.7, 1))]
    assert parts[-1] == texts
    assert parts[1] != texts[: len(parts[1])]  # drawn from the whole text
    for part, larger in pairwise(parts):
        assert set(part) <= set(larger)
        assert part == [text for text in texts if text in part]
    repeated = readers.SubsetReader(base, 0.3, repeated=True).read(path)
    found = [str(instance["tokens"]) for instance in repeated]
    assert found == (parts[1] * 4)[: len(texts)]
    subset = readers.SubsetReader(base, 0.3)
    loader = MultiProcessDataLoader(subset, path, batch_size=4, num_workers=2)
    found = [str(instance["tokens"]) for instance in loader.iter_instances()]
    assert sorted(found) == sorted(parts[1])
    with pytest.raises(InputError, match="fraction: expected a number above 0"):
        readers.SubsetReader(base, 0.0)


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("{ pretrained: 'tiny' }", "{ archive: 'a' }", "bilms: tiny: expected .*, found archive"),
        ("bilms: ['none', 'tiny']", "bilms: ['tiny', 'all']", 'bilms: .*one of tiny, found "all"'),
        ("fractions: [0.5]", "fractions: [2]", "fractions: expected .*found 2"),
        ("layers: ['top', 0.1]", "layers: ['last']", 'layers: expected .*found "last"'),
        ("'table 2'", "'my table'", "tables: expected .*found 'my table'"),
    ],
)
def test_a_mistake_is_one_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    """By hand: the line names the key, what was expected and what was found."""
    with pytest.raises(ValueError, match=message) as caught:
        read_grid(edited(tmp_path, old, new))
    assert "\n" not in str(caught.value)


def test_a_transformer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: the accuracy and the loss of AllenNLP's embedder as it is, which computes each
    sentence again in each epoch."""
    data = tmp_path / "data"
    shutil.copytree(ROOT / "fixtures" / "tagging", data / "tagging")
    write_bert(data / "bert")
    edited(tmp_path, "{ pretrained: 'tiny' }", "{ transformer: 'bert', dim: 8 }")
    text = (tmp_path / "grid.jsonnet").read_text().replace("num_epochs: 1", "num_epochs: 2")
    (tmp_path / "grid.jsonnet").write_text(text.replace("['top', 0.1]", "[0.1]"))
    grid = read_grid(tmp_path / "grid.jsonnet")
    found = []
    for name in ("remembered", "again"):
        runner = GridRunner(grid, tmp_path / f"{name}.jsonl", data, tmp_path / "work")
        assert runner.run([grid.tables["table 1"][1]]) == 0
        found += read_rows(tmp_path / f"{name}.jsonl")
        monkeypatch.setattr(training, "remember_transformers", lambda model: None)
    assert found[0]["metrics"] == pytest.approx(found[1]["metrics"], rel=1e-5)
    assert found[0]["bilm_digest"] == runner.bilms["tiny"].digest is not None
