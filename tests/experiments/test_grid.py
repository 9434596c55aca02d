"""The grid of trainings, with a tagger of one epoch on fixtures and the model `tiny`."""

import json
import multiprocessing
import os
import shutil
import signal
import time
from collections import Counter
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from allennlp.data import DatasetReader
from allennlp.training import Checkpointer

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.plugin.training.checkpointer import BiLMCheckpointer
from experiments.grid import __main__ as grid_command
from experiments.grid import readers, training
from experiments.grid.__main__ import GridRunner
from experiments.grid.cells import read_grid
from experiments.grid.training import CpuSeconds
from experiments.rows import append_row, bilm_digest, read_rows
from tests.conftest import ROOT, python
from tests.experiments.test_probe import CONLLU
from tests.experiments.test_transformer import write_bert

GRID = """
local cells = (import '%(root)s/experiments/grid/cells.libsonnet').cells;
local tagger = (import '%(root)s/training_configs/tagger.jsonnet') + {
  train_data_path: '@data@/tagging/train.tsv',
  validation_data_path: '@data@/tagging/dev.tsv',
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


def test_cells(runner: GridRunner) -> None:
    """By hand: seeds vary slowest, and the second table shares a cell with the first one."""
    names = [cell.name for cell in runner.grid.cells()]
    assert names == [
        "tag-none-0.5-1",
        "tag-tiny-0.1-input-0.5-1",
        "tag-none-0.5-2",
        "tag-tiny-0.1-input-0.5-2",
        "tag-tiny-top-input-0.5-1",
    ]
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


def test_a_part_is_repeated(tmp_path: Path) -> None:
    """By hand: it has settings of its own, so that its rows are not those of the plain part. A row
    counts its different instances, half of the file."""
    [plain, *_] = read_grid(edited(tmp_path, "'accuracy'", "'accuracy'")).cells()
    file = edited(tmp_path, "bilms: ['none', 'tiny'],", "bilms: ['none'], repeated: true,")
    [repeated, *_] = read_grid(file).cells()
    assert repeated.config["dataset_reader"] == {**plain.config["dataset_reader"], "repeated": True}
    assert repeated.settings == {**plain.settings, "repeated": True} and repeated.key != plain.key
    runner = GridRunner(read_grid(file), tmp_path / "rows", ROOT / "fixtures", tmp_path / "work")
    assert runner.run([repeated]) == 0
    n_sentences = len((ROOT / "fixtures/tagging/train.tsv").read_text().splitlines())
    assert read_rows(tmp_path / "rows")[0]["instances"] == round(n_sentences / 2)


def test_layers_with_fixed_weights(tmp_path: Path) -> None:
    """The expected weights of the three layers follow from the names."""
    text = (GRID % {"root": ROOT}).replace("['top', 0.1]", "['words', 'average']")
    (tmp_path / "grid.jsonnet").write_text(text)
    for cell in read_grid(tmp_path / "grid.jsonnet").tables["table 2"]:
        elmo = cell.config["model"]["text_field_embedder"]["token_embedders"]["elmo"]
        weights = torch.tensor(elmo["scalar_mix_parameters"], dtype=torch.float32).softmax(0)
        expected = {"words": [1, 0, 0], "average": [1 / 3] * 3}[cell.settings["layers"]]
        assert weights.tolist() == pytest.approx(expected, abs=1e-7)


def test_the_grid_of_the_paper() -> None:
    """All tasks have five seeds, or three if a run is long, and no cell has a path of this machine.
    No run stops early, and all points of a curve of figure 1 have the same batches and trainer."""
    grid = read_grid(ROOT / "experiments" / "grid" / "paper.jsonnet")
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
    which is made the best, so that it is not the last."""
    trainer = "trainer+: { num_epochs: 3, validation_metric: '-accuracy' }"
    text = (GRID % {"root": ROOT}).replace("trainer+: { num_epochs: 1 }", trainer)
    (tmp_path / "grid.jsonnet").write_text(text)
    grid = read_grid(tmp_path / "grid.jsonnet")
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


def test_a_killed_run_leaves_no_row(
    runner: GridRunner, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The others continue; a row follows when the run is repeated."""
    train = grid_command.train
    monkeypatch.setattr(
        grid_command, "train", lambda config, out: os.kill(os.getpid(), signal.SIGKILL)
    )
    assert runner.run(runner.left({})[:2], jobs=2) == 2
    assert not runner.rows_file.exists()
    assert "tag-none-0.5-1 failed with -9: " in capsys.readouterr().out
    monkeypatch.setattr(grid_command, "train", train)
    assert runner.run(runner.left({})[:1]) == 0
    assert len(read_rows(runner.rows_file)) == 1


@pytest.mark.parametrize(("commit", "n_folders"), [("0123456789ab", 1), ("0123456789ab-dirty", 0)])
def test_a_killed_grid_leaves_no_process(
    commit: str, n_folders: int, runner: GridRunner, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor a row. It leaves the folder of a run that can continue: the code is that of a commit."""
    monkeypatch.setitem(grid_command.ORIGIN, "commit", commit)

    def wait(sentinels: list[int]) -> list[int]:
        raise SystemExit(143)

    monkeypatch.setattr(grid_command, "train", lambda config, out: time.sleep(1000))
    monkeypatch.setattr(grid_command, "wait", wait)
    with pytest.raises(SystemExit):
        runner.run(runner.left({"table": {"table 2"}}))
    assert multiprocessing.active_children() == []
    assert len(list((runner.work / "runs").iterdir())) == n_folders
    assert not runner.rows_file.exists()


@pytest.mark.parametrize(
    ("n_epochs", "checkpointer", "setting"),
    [
        (1, BiLMCheckpointer, ""),
        (3, BiLMCheckpointer, ""),
        (1, Checkpointer, "moving_average: { type: 'exponential', decay: 0.9 },"),
    ],
)
def test_a_killed_run_continues_with_the_same_numbers(
    n_epochs: int,
    checkpointer: type[Checkpointer],
    setting: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It was killed after one of three epochs, or after the last. The oracle is a run that was not,
    of a tagger with dropout. The CPU time includes that of the epochs before, to which the test
    adds a thousand seconds, but not with a moving average, with which the run starts again. The
    config has a callback of its own."""
    # Of a clone with changes, no run continues.
    monkeypatch.setitem(grid_command.ORIGIN, "commit", "0123456789ab")
    trainer = f"{{ {setting} num_epochs: 3, callbacks: [{{ type: 'learning_curve' }}] }}"
    file = edited(tmp_path, "{ num_epochs: 1 }", trainer)
    whole, killed = (
        GridRunner(read_grid(file), tmp_path / name, ROOT / "fixtures", tmp_path / "work" / name)
        for name in ("whole", "killed")
    )
    cell = whole.grid.cells()[1]
    assert whole.run([cell]) == 0
    save = checkpointer.maybe_save_checkpoint

    def save_and_die(self: Checkpointer, trainer: Any, epochs: int, batches: int) -> bool:
        saved = save(self, trainer, epochs, batches)
        if (epochs, batches) == (n_epochs, 0):
            os.kill(os.getpid(), signal.SIGKILL)
        return saved

    seconds = CpuSeconds.seconds.fget
    with monkeypatch.context() as patch:
        patch.setattr(checkpointer, "maybe_save_checkpoint", save_and_die)
        patch.setattr(CpuSeconds, "seconds", property(lambda self: 1000 + seconds(self)))
        assert killed.run([cell]) == 1
    (out,) = (killed.work / "runs").iterdir()
    assert (out / f"model_state_e{n_epochs}_b0.th").exists()
    assert killed.run([cell]) == 0
    [expected], [found] = (read_rows(runner.rows_file) for runner in (whole, killed))
    before = 0 if setting else 1000
    assert before < found.pop("cpu_seconds") < before + 10 * expected.pop("cpu_seconds")
    assert found == expected


def test_costs(runner: GridRunner) -> None:
    """By hand: half of the data cost half of the 10 s that the grid expects, or what runs of half
    of the data took on average. A part that is repeated is as long as all data."""
    without, with_elmo = runner.left({})[:2]
    assert runner.costs([without]) == [5.0]
    for fraction, seconds in ((1, 8.0), (0.5, 6.0), (0.5, 7.0)):
        settings = {**without.settings, "fraction": fraction, "seed": 99}
        append_row(runner.rows_file, {"settings": settings, "cpu_seconds": seconds})
    repeated = replace(without, settings={**without.settings, "repeated": True})
    assert runner.costs([without, with_elmo, repeated]) == [6.5, 5.0, 8.0]


def test_rows_are_checked(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"key": 1}\n{"ke')
    with pytest.raises(
        ValueError, match=r"rows.jsonl: line 2: expected a JSON object, found '{\"ke'"
    ):
        read_rows(tmp_path / "rows.jsonl")


def test_subsets_are_nested() -> None:
    """A property: in the order of the whole, a larger part has all of a smaller one."""
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
    with pytest.raises(InputError, match="fraction: expected a number above 0"):
        readers.SubsetReader(base, 0.0)


def test_documents_are_left_out(tmp_path: Path) -> None:
    """AllenNLP's reader of the whole file gives the same documents and the one left out."""
    text = (ROOT / "fixtures" / "coref" / "train.gold_conll").read_text()
    for name in "abcd":
        text = text.replace("(fixtures/train);", f"({name});", 1)
    (tmp_path / "train.gold_conll").write_text(text)
    read = {
        kind: [
            str(instance)
            for instance in DatasetReader.by_name(kind)(max_span_width=5, **rest).read(
                str(tmp_path / "train.gold_conll")
            )
        ]
        for kind, rest in (("coref", {}), ("coref_without", {"without": ["b"]}))
    }
    first, _, *others = read["coref"]
    assert len(others) == 2 and read["coref_without"] == [first, *others]
    reader = readers.CorefWithoutReader(without=["b", "e"], max_span_width=5)
    with pytest.raises(InputError, match=r"expected documents \['e'\], found none"):
        list(reader.read(str(tmp_path / "train.gold_conll")))


def test_universal_tags(tmp_path: Path) -> None:
    """The words and tags of the probe's treebank, from its file."""
    (tmp_path / "dev.conllu").write_text(CONLLU)
    first, _ = readers.UposReader().read(str(tmp_path / "dev.conllu"))
    assert [token.text for token in first["tokens"]] == ["the", "dog", "barks"]
    assert first["tags"].labels == ["DET", "NOUN", "VERB"]


@pytest.mark.long
def test_command(runner: GridRunner, tmp_path: Path) -> None:
    """The usage in the docstring: by hand, five cells of which two are wanted."""
    command = ["-m", "experiments.grid", tmp_path / "grid.jsonnet", "--data", "fixtures"]
    command += ["--work", tmp_path, "--rows", tmp_path / "rows", "--where", "seed=2", "--dry-run"]
    done = python(*command)
    assert done.stdout.splitlines() == [
        "table 1\ttag-none-0.5-2\t5 s",
        "table 1\ttag-tiny-0.1-input-0.5-2\t5 s",
        "2 runs, 0.0 core-hours",
    ]


def edited(tmp_path: Path, old: str, new: str) -> Path:
    """The grid of these tests with a change."""
    text = GRID % {"root": ROOT}
    assert old in text
    (tmp_path / "grid.jsonnet").write_text(text.replace(old, new))
    return tmp_path / "grid.jsonnet"


@pytest.mark.parametrize("kind", ["archive_file", "two files"])
def test_a_bilm_of_your_own(kind: str, tmp_path: Path, bilm_archive: str, bilm_files: Any) -> None:
    """The expected sizes are those of its options: 64 columns of words, and twice projection_dim 8.
    A run with it gets a row with its digest."""
    options, weights = map(str, bilm_files[:2])
    keys = (
        {"archive_file": bilm_archive}
        if kind == "archive_file"
        else {"options_file": options, "weight_file": weights}
    )
    expected = json.loads(Path(options).read_text())["lstm"]["projection_dim"] * 2
    if kind == "archive_file":
        expected = Elmo.from_archive(bilm_archive).output_dim
    grid = read_grid(edited(tmp_path, "{ pretrained: 'tiny' }", json.dumps(keys)))
    runner = GridRunner(grid, tmp_path / "rows.jsonl", ROOT / "fixtures", tmp_path / "work")
    cell = runner.left({"bilm": {"tiny"}})[0]
    assert cell.config["model"]["encoder"]["input_size"] == 64 + expected
    if kind == "archive_file":
        assert runner.run([cell]) == 0
        (row,) = read_rows(runner.rows_file)
        assert row["bilm_digest"] == bilm_digest(Elmo.from_archive(bilm_archive))
    else:
        archive = cell.config_in(runner.folders)["model"]["text_field_embedder"]["token_embedders"]
        found = Elmo.from_archive(archive["elmo"]["archive_file"]).embed("the dog")
        assert np.array_equal(found, Elmo.from_files(options, weights).embed("the dog"))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("{ pretrained: 'tiny' }", "{ archive: 'a' }", "bilms: tiny: expected .*, found archive"),
        ("{ pretrained: 'tiny' }", "{ dim: 64 }", "bilms: tiny: expected pretrained.*, found dim"),
        ("{ pretrained: 'tiny' }", "'tiny'", "bilms: tiny: expected pretrained.*, found 'tiny'"),
        ("{ pretrained: 'tiny' }", "{ pretrained: 'x' }", "pretrained: expected one of.*'x'"),
        ("{ pretrained: 'tiny' }", "{ archive_file: 'gone' }", "gone"),
        ("bilms: ['none', 'tiny']", "bilms: ['tiny', 'all']", 'bilms: .*one of tiny, found "all"'),
        ("tasks: ['tag']", "tasks: ['tags']", 'tasks: expected one of tag, found "tags"'),
        ("seeds: [1, 2]", "seed: [1, 2]", "seed: expected one of tasks, bilms"),
        ("fractions: [0.5]", "fractions: 0.5", "fractions: expected a list, found 0.5"),
        ("fractions: [0.5]", "fractions: [2]", "fractions: expected a number above 0.*found 2"),
        ("fractions: [0.5]", "fractions: [1], repeated: 2", "repeated: expected true.*found 2"),
        ("layers: ['top', 0.1]", "layers: ['last']", "layers: expected 'top'.*found \"last\""),
        ("place: 'input', ", "", "tasks: tag: expected config, place.*found no place"),
        ("metric: 'accuracy', ", "", "tasks: tag: expected title.*found no metric"),
        ("      name: 'table 1',\n", "", "tables: 0: expected name, cells, found no name"),
        (
            "validation_data_path: '@data@/tagging/dev.tsv'",
            "validation_data_path:: null",
            "tables: table 1: tag: expected a config with validation_data_path",
        ),
        ("'table 2'", "'my table'", "tables: expected names among table 1, .*found 'my table'"),
        ("  bilms: bilms,\n", "", "field does not exist: bilms"),
        ("trainer+: { num_epochs: 1 },", "trainer+: {", "STATIC ERROR"),
    ],
)
def test_a_mistake_is_one_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    """By hand: the line names the file or the key, what was expected and what was found."""
    with pytest.raises((ValueError, OSError), match=message) as caught:
        read_grid(edited(tmp_path, old, new))
    assert "\n" not in str(caught.value)


def test_a_metric_that_the_task_lacks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each run says which metrics there are. Its row is kept, so that it counts as done when the
    metric is corrected."""
    rest = tmp_path / "rows.jsonl", ROOT / "fixtures", tmp_path / "work"
    runner = GridRunner(read_grid(edited(tmp_path, "metric: 'accuracy'", "metric: 'f1'")), *rest)
    assert runner.run(runner.left({})[:1]) == 0
    assert "f1: expected one of accuracy, " in capsys.readouterr().out
    corrected = GridRunner(read_grid(edited(tmp_path, "accuracy", "accuracy")), *rest)
    assert len(corrected.left({})) == len(runner.grid.cells()) - 1


def test_a_transformer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: the accuracy and the loss of AllenNLP's embedder as it is, which computes each
    sentence again in each epoch; and no digest, so another row, without the transformer."""
    data = tmp_path / "data"
    shutil.copytree(ROOT / "fixtures" / "tagging", data / "tagging")
    write_bert(data / "bert")
    text = GRID.replace("{ num_epochs: 1 }", "{ num_epochs: 2 }").replace("['top', 0.1]", "[0.1]")
    text = text.replace("{ pretrained: 'tiny' }", "{ transformer: 'bert', dim: 8 }")
    (tmp_path / "grid.jsonnet").write_text(text % {"root": ROOT})
    grid = read_grid(tmp_path / "grid.jsonnet")
    cell = grid.tables["table 1"][1]
    assert cell.settings["layers"] == 0 and cell.settings["place"] == "input"
    found = []
    for name in ("remembered", "again"):
        runner = GridRunner(grid, tmp_path / f"{name}.jsonl", data, tmp_path / "work")
        assert runner.run([cell]) == 0
        found += read_rows(tmp_path / f"{name}.jsonl")
        monkeypatch.setattr(training, "remember_transformers", lambda model: None)
    remembered, again = found
    assert remembered["metrics"] == pytest.approx(again["metrics"], rel=1e-5)
    assert remembered["bilm_digest"] == runner.bilms["tiny"].digest is not None
    shutil.rmtree(data / "bert")
    without = GridRunner(grid, tmp_path / "again.jsonl", data, tmp_path / "work")
    assert without.bilms["tiny"].digest is None and cell in without.left({})
