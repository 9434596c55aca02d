"""
The gain from fine-tuning a biLM on the text of a task:

    python -m experiments.finetuning pretrained://small experiments/tasks/snli.jsonnet --work WORK

For each task, `bilm_finetune.jsonnet` continues training the biLM on the text of the task's
training data. The table shows the joint perplexity of the text of its validation data before and
after (see `experiments.perplexity`; with `warm`), and the task's validation metric after training
with frozen vectors of each biLM at the encoder's input. A step whose output for the same biLM and
config is in `--work` is not repeated.
"""

import argparse
import json
import os
from pathlib import Path
from typing import Any

from allennlp.commands.train import train_model_from_file
from allennlp.common import Params
from allennlp.common.file_utils import cached_path
from allennlp.common.plugins import import_plugins

from elmo_plugin.files.digest import file_digest, new_digest
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.text.corpus_cache import open_corpus
from experiments import run
from experiments.markdown import table
from experiments.perplexity import perplexity, unknown_rate

CONFIGS = Path(__file__).parents[1] / "training_configs"


def text_of(task: Path, key: str) -> str:
    """The `task://` address of a task's training or validation text."""
    return f"task://{task}#{key}"


def fine_tune(archive_file: str, task: Path, out: Path) -> str:
    """
    Fine-tune a biLM on a task's text, unless `out` has its archive. Returns the archive. The number
    of negative samples is the biLM's, or the config's for a model in the package, which lacks it.
    """
    parameters = find_bilm(archive_file).parameters
    assert parameters is not None  # it is an archive
    keys = ("lstm", "char_cnn", "n_negative_samples")
    sizes = {f"model.{key}": parameters[key] for key in keys if parameters[key] is not None}
    os.environ["BILM_ARCHIVE"] = archive_file
    os.environ["BILM_TEXT"] = text_of(task, "train_data_path")
    os.environ["BILM_DEV"] = text_of(task, "validation_data_path")
    return _train(CONFIGS / "bilm_finetune.jsonnet", sizes, out)


def train_task(archive_file: str, task: Path, out: Path) -> float:
    """
    Train a task with the frozen vectors of a biLM, unless `out` has its metrics. Returns the best
    value of its validation metric.
    """
    dim = 2 * find_bilm(archive_file).options.lstm.projection_dim
    embedder = {"archive_file": archive_file, "cache_dir": str(out.parent / "layers")}
    out.parent.mkdir(parents=True, exist_ok=True)
    config = out.with_suffix(".jsonnet")
    config.write_text(
        f"(import {json.dumps(str(CONFIGS / 'lib' / 'elmo.libsonnet'))}).input("
        f"import {json.dumps(str(task.resolve()))}, {json.dumps(embedder)}, dim={dim})\n"
    )
    _train(config, {}, out)
    metric = Params.from_file(str(config))["trainer"]["validation_metric"].lstrip("+-")
    return json.loads((out / "metrics.json").read_text())[f"best_validation_{metric}"]


def _train(config: Path, overrides: dict[str, Any], out: Path) -> str:
    archive = out / "model.tar.gz"
    if not archive.exists():
        train_model_from_file(str(config), str(out), overrides, force=True)
    return str(archive)


def _inputs_digest(archive_file: str, task: Path) -> str:
    config = Params.from_file(str(task)).as_dict(quiet=True)
    found = new_digest(json.dumps(config, sort_keys=True).encode(), size=8)
    found.update(file_digest(archive_file).encode())
    return found.hexdigest()


def finetuning_table(archive_file: str, tasks: list[Path], work: Path) -> str:
    """One row for each task."""
    before = load_language_model(archive_file)
    rows: list[list[object]] = []
    for task in tasks:
        folder = work / f"{task.stem}-{_inputs_digest(archive_file, task)}"
        tuned = fine_tune(archive_file, task, folder / "bilm")
        text, heldout = (
            open_corpus(text_of(task, key)) for key in ("train_data_path", "validation_data_path")
        )
        after = load_language_model(tuned)
        rows.append(
            [
                task.stem,
                text.num_tokens,
                f"{unknown_rate(before, heldout):.1f} %",
                *(perplexity(model, heldout, "warm").joint for model in (before, after)),
                *(
                    f"{100 * train_task(archive, task, folder / name):.1f}"
                    for name, archive in (("before", archive_file), ("after", tuned))
                ),
            ]
        )
    columns = ["task", "tokens", "`<UNK>` in dev", "perplexity before", "after"]
    return table([*columns, "task before", "after"], rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="archive of a bilm")
    parser.add_argument("tasks", nargs="+", type=Path, help="configs of tasks without ELMo")
    parser.add_argument("--work", type=Path, default=Path("experiments-out"))
    arguments = parser.parse_args()
    import_plugins()
    archive_file = str(cached_path(arguments.model))
    print(finetuning_table(archive_file, arguments.tasks, arguments.work))


if __name__ == "__main__":
    run("finetuning", main)
