"""The page of a run, with all its tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.measure import Record, markdown

TITLES = {
    "limits": "Limits: the rate of large matrix products, in TFLOP/s",
    "numerics": "Numbers of the fast paths, compared with the equations in double precision",
    "repeats": "Two trainings with one seed, without and with PyTorch's deterministic algorithms",
    "trainers": "Trainings by AllenNLP with mixed precision (use_amp)",
    "training": "Training steps with the optimizer, next to AllenNLP's modules",
    "lstm": "Forward and backward pass of one LSTM layer, next to torch.nn.LSTM",
    "vectors": "Vectors, a first pass over sentences, next to AllenNLP's modules",
    "embed": "Elmo.embed, from lists of words to arrays",
    "kernels": "The kernels of a training step that take the most time",
    "failures": "What failed",
}
"""The tables, in the order in which they are printed."""

HEAD = """# Speed on a GPU

`make bench-gpu` writes this page. The text is of invented words with the frequencies and lengths of
English. Times are medians. A share of the limit is that of large matrix products of the same
precision in the same run; fp32 is without TF32. The LSTM layer is compared with cuDNN's
(`torch.nn.LSTM` with `proj_size`), which does not clip.
"""


def page(conditions: Mapping[str, Any], tables: Mapping[str, Sequence[Record]]) -> str:
    """The page as Markdown."""
    sentence = ", ".join(f"{key} {value}" for key, value in conditions.items())
    parts = [HEAD, f"Measured with: {sentence}.\n"]
    parts += [markdown(title, tables[name]) for name, title in TITLES.items() if name in tables]
    return "\n".join(parts)
