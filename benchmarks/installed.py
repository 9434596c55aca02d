"""
Measures the vectors of the installed models, from lists of tokens to all layers, on one thread and
on all: by `Elmo.embed` with no word vectors cached, by AllenNLP's own `Elmo` from the same files in
batches of 32 sentences sorted by length, and by a transformer if there is one.
"""

from collections.abc import Callable
from functools import partial

import torch
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids

from benchmarks.embedding import ROWS, clear_state, sample, stock_elmo
from benchmarks.measure import Record, in_turns, print_table, progress
from benchmarks.settings import Settings
from elmo_plugin import Elmo
from elmo_plugin.pretrained import pretrained_files
from experiments.transformer import Transformer

NAMES = ("small", "medium")


def run(settings: Settings) -> Record:
    """Print the table and return it, by name."""
    sentences = sample(settings.text, 2 * ROWS if settings.quick else settings.sentences)
    works: dict[tuple[str, str], Callable[[list[list[str]]], object]] = {}
    for name in ("tiny",) if settings.quick else NAMES:
        options_file, weight_file, _ = pretrained_files(name)
        works[name, "ours"] = partial(first_pass, Elmo.from_pretrained(name))
        works[name, "allennlp"] = partial(stock_pass, stock_elmo(options_file, weight_file))
    if settings.transformer:
        works[settings.transformer.name, "transformer"] = Transformer(settings.transformer).embed
    n_tokens = sum(map(len, sentences))
    records: list[Record] = []
    for n_threads in sorted({1, settings.threads}):
        progress(f"vectors of installed models, threads: {n_threads}")
        torch.set_num_threads(n_threads)
        for work in works.values():  # to warm up
            work(sentences[: 2 * ROWS])
        times = in_turns(*(partial(work, sentences) for work in works.values()))
        records += [
            {"model": model, "by": by, "threads": n_threads, "tokens_per_second": n_tokens / time}
            for (model, by), time in zip(works, times)
        ]
    print_table(f"All layers of {n_tokens:,} tokens of {settings.text}: tokens/s", records)
    return {"installed": records}


def first_pass(elmo: Elmo, sentences: list[list[str]]) -> None:
    elmo.clear_caches()
    elmo.embed(sentences, layer="all")


@torch.no_grad()
def stock_pass(stock: StockElmo, sentences: list[list[str]]) -> None:
    clear_state(stock)
    ordered = sorted(sentences, key=len)
    for start in range(0, len(ordered), ROWS):
        stock(batch_to_ids(ordered[start : start + ROWS]))
