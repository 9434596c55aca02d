"""
Measures how the time of our training step grows with rows, window, vocabulary and negatives,
varying one at a time; the vocabulary also with row-sparse gradients.
"""

from typing import Any

import torch

from benchmarks.measure import MatrixProductPeak, Record, in_turns, print_table, progress
from benchmarks.settings import QUICK, SMALL, Settings, options_of
from benchmarks.training import DROPOUT, Trainer, filled, first_batches, operations
from elmo_plugin.plugin.callbacks.keep_freed_memory import keep_freed_memory
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.language_model import LanguageModel
from elmo_plugin.text.corpus_cache import open_corpus

BASE = {"rows": 64, "window": 20, "vocabulary": 50_000, "negatives": 8192, "gradients": "dense"}
VARIED = {
    "rows": (16, 64, 256),
    "window": (5, 20, 80),
    "vocabulary": (10_000, 50_000, 200_000, 800_000),
    "negatives": (1024, 4096, 16_384),
}
QUICK_BASE = {"rows": 8, "window": 5, "vocabulary": 1000, "negatives": 64, "gradients": "dense"}
QUICK_VARIED = {
    "rows": (4, 16),
    "window": (5, 20),
    "vocabulary": (1000, 10_000),
    "negatives": (64, 512),
}


def run(settings: Settings) -> Record:
    """Print the tables and return them, by name."""
    keep_freed_memory()
    base, varied = (QUICK_BASE, QUICK_VARIED) if settings.quick else (BASE, VARIED)
    [(name, model)] = (QUICK if settings.quick else SMALL).items()
    words = open_corpus(settings.text).words()
    records: list[Record] = []
    cases_of: dict[str, list[dict[str, Any]]] = {
        factor: [{**base, factor: value} for value in values] for factor, values in varied.items()
    }
    cases_of["vocabulary, sparse"] = [
        {**case, "gradients": "sparse"} for case in cases_of["vocabulary"]
    ]
    for factor, cases in cases_of.items():
        progress(f"what {factor} cost")
        trainers = [trainer(model, words, settings.text, **case) for case in cases]
        peak = MatrixProductPeak(quick=settings.quick)
        _, *times = in_turns(peak, *(each.step for each in trainers))
        for case, each, time in zip(cases, trainers, times):
            n_operations = operations(options_of(name, model), case["negatives"], each.batches)
            least = peak.seconds_at_least(n_operations)
            records.append(
                {
                    "varied": factor,
                    **case,
                    "ms_per_step": 1000 * time,
                    "tokens_per_second": each.n_tokens / time,
                    "gflops_peak": peak.gflops,
                    "limit": each.n_tokens / least,
                    "share_of_limit": least / time,
                }
            )
    print_table(
        f"Training {name} on {settings.text}, one size varied at a time (beyond the "
        f"{len(words):,} words of the text, the vocabulary is filled with others)",
        records,
    )
    return {"scaling": records}


def trainer(
    model: dict[str, dict[str, Any]],
    words: list[str],
    text: str,
    rows: int,
    window: int,
    vocabulary: int,
    negatives: int,
    gradients: str,
) -> Trainer:
    torch.manual_seed(0)
    made = BiLMVocabulary.from_words(filled(words, vocabulary))
    language_model = LanguageModel(
        made,
        model["lstm"],
        model["char_cnn"],
        dropout=DROPOUT,
        n_negative_samples=negatives,
        sparse_gradients=gradients == "sparse",
    )
    return Trainer(language_model, first_batches(text, made, rows, window, 4))
