"""
Measures `allennlp elmo` on a whole text, from the first sentence to the closed file, and the shares
of reading text, computing vectors and writing them.
"""

import contextlib
import io
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import Record, print_table, progress, seconds
from benchmarks.settings import QUICK, SMALL, Settings, options_of
from elmo_plugin.elmo.dump import Sentence, dump
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.text.lines import read_sentences

MOST_TOKENS, QUICK_TOKENS = 1_200_000, 20_000


def run(settings: Settings) -> Record:
    """Print the table and return it, by name."""
    [(name, model)] = (QUICK if settings.quick else SMALL).items()
    progress(f"vectors of a whole text by {name}")
    torch.manual_seed(0)
    elmo = Elmo(BiLM(options_of(name, model))).eval()
    most = QUICK_TOKENS if settings.quick else MOST_TOKENS
    counts = {"tokens": 0, "sentences": 0}

    def sentences() -> Iterator[Sentence]:
        for line, words in enumerate(read_sentences(settings.text)):
            counts["tokens"] += len(words)
            counts["sentences"] += 1
            yield Sentence(line, " ".join(words))
            if counts["tokens"] > most:
                return

    reading, computing = Stopwatch(), Stopwatch()
    for part, method in ((elmo, "embed"), (elmo.layers, "read_words")):
        setattr(part, method, computing.timed(getattr(part, method)))
    following = reading.timed(partial(next, sentences(), None))
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stderr(io.StringIO()):
        out = Path(folder) / "vectors.hdf5"
        total = seconds(lambda: dump(elmo, iter(following, None), out, layer="top"))
        mebibytes = out.stat().st_size / 2**20
    record = {
        "model": name,
        **counts,
        "MiB": mebibytes,
        "seconds": total,
        "tokens_per_second": counts["tokens"] / total,
        "share_of_reading": reading.seconds / total,
        "share_of_computing": computing.seconds / total,
        "share_of_writing": 1 - (reading.seconds + computing.seconds) / total,
    }
    print_table(f"Top layer of all words of {settings.text}, fp32, written to a file", [record])
    return {"dump": [record]}


class Stopwatch:
    """Adds up the seconds of calls."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def timed(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            began = time.perf_counter()
            try:
                return work(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - began

        return call
