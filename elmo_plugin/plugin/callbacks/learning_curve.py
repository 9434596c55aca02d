import json
from pathlib import Path
from typing import Any

from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import TrainerCallback

from elmo_plugin.checks import check_count
from elmo_plugin.files.atomic_write import atomic_write, name_full_disk

SAMPLED = "sampled_loss"
"""The metric of a model that trains with a sampled softmax."""
GAP = """The sampled loss cannot be compared with the others, because
it compares a word only with a sample of the vocabulary."""


@TrainerCallback.register("learning_curve")
class LearningCurveCallback(TrainerCallback):
    """
    Writes a line with the current metrics to `learning_curve.jsonl` after every `interval` batches
    and every validation, and draws the curve as `learning_curve.png` after every validation: after
    each epoch, and within it with the callback `validate_every`.

    Registered as a `TrainerCallback` with name "learning_curve".

    # Parameters

    interval : `int`, optional (default = `20`)
        Number of batches per line.
    """

    def __init__(self, serialization_dir: str, interval: int = 20) -> None:
        super().__init__(serialization_dir)
        self.interval = check_count('callback of type "learning_curve": interval', interval)
        self.path = Path(serialization_dir) / "learning_curve.jsonl"
        self._losses: list[float] = []
        self._n_lines = 0

    def on_start(self, trainer: Any, is_primary: bool = True, **_: Any) -> None:
        """
        Remove the lines after the checkpoint, or all without a checkpoint; they will be written
        again.
        """
        if is_primary and self.path.exists():
            lines = self.path.read_text().splitlines(keepends=True)
            with atomic_write(self.path) as temporary:
                temporary.write_text("".join(lines[: self._n_lines]))

    def on_batch(
        self, trainer: Any, *batch: Any, is_training: bool = True, is_primary: bool = True, **_: Any
    ) -> None:
        if not (is_training and is_primary):
            return
        batch_outputs, batch_metrics = batch[1:3]
        # The trainer has added the penalty of a regularizer.
        losses = (output["loss"] - output.get("reg_loss", 0.0) for output in batch_outputs)
        self._losses += [loss.item() for loss in losses]
        if trainer._total_batches_completed % self.interval == 0:
            name = SAMPLED if SAMPLED in batch_metrics else "training_loss"
            self._add(trainer, {name: sum(self._losses) / len(self._losses)})
            self._losses = []

    def on_epoch(
        self, trainer: Any, metrics: Any, *_: Any, is_primary: bool = True, **__: Any
    ) -> None:
        if is_primary and trainer._should_validate_this_epoch:
            found = {key: v for key, v in metrics.items() if key.startswith("validation_")}
            self.add_validation(trainer, found)

    def add_validation(self, trainer: GradientDescentTrainer, metrics: dict[str, Any]) -> None:
        """Add the line of a validation, whose keys begin with `validation_`, and draw the curve."""
        self._add(trainer, metrics)
        draw(self.path)

    def _add(self, trainer: GradientDescentTrainer, metrics: dict[str, Any]) -> None:
        line = json.dumps({"batch": trainer._total_batches_completed, **metrics}) + "\n"
        with name_full_disk(self.path), self.path.open("a") as file:
            file.write(line)
        self._n_lines += 1

    def state_dict(self) -> dict[str, Any]:
        return {"n_lines": self._n_lines, "losses": list(self._losses)}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._n_lines, self._losses = state_dict["n_lines"], list(state_dict["losses"])


def draw(curve: Path) -> None:
    """
    Draw the file `learning_curve.jsonl` as a PNG file next to it: the training loss by batch, and
    that of validation; for a biLM the logarithms of the held-out perplexities, which are losses too
    (nats per token).
    """
    import numpy as np
    from matplotlib.figure import Figure  # not pyplot, whose settings belong to the caller

    lines = [json.loads(line) for line in curve.read_text().splitlines()]
    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()

    unit = "loss"
    curves = {"training_loss": ("training", "-"), "validation_loss": ("held-out", "o--")}
    if any(SAMPLED in line or "validation_forward_perplexity" in line for line in lines):  # a biLM
        unit = "negative log likelihood (nats a token)"
        curves = {
            SAMPLED: ("training, sampled softmax", "-"),
            "training_loss": ("training, full softmax", "-"),
            "validation_forward_perplexity": ("held-out, forward, full softmax", "o--"),
            "validation_backward_perplexity": ("held-out, backward, full softmax", "s--"),
        }
    for key, (label, marker) in curves.items():
        if points := [(line["batch"], line[key]) for line in lines if key in line]:
            batches, values = zip(*points)
            losses = np.log(values) if key.endswith("perplexity") else values
            axes.plot(batches, losses, marker, label=label)
    axes.set_xlabel("batches")
    axes.set_ylabel(unit)
    axes.grid(alpha=0.3)
    title = GAP if any(SAMPLED in line for line in lines) else None
    axes.legend(title=title, fontsize="small", title_fontsize="small")
    with atomic_write(curve.with_suffix(".png")) as temporary:
        figure.savefig(temporary, format="png", dpi=150)
