"""
Compares our training steps with those of the same model built from AllenNLP's modules, on the same
windows of our data loader and with the same optimizer.
"""

import time
from dataclasses import replace
from functools import partial
from itertools import cycle, islice
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.measure import (
    MatrixProductPeak,
    Record,
    in_turns,
    largest_costs,
    print_table,
    progress,
)
from benchmarks.operations import (
    FORWARD_AND_BACKWARD,
    char_cnn_operations,
    lstm_operations,
    softmax_operations,
)
from benchmarks.peer_language_model import AllenNLPLanguageModel
from benchmarks.settings import Settings, models, options_of, precisions
from benchmarks.workers import Worker
from elmo_plugin.checks import InputError
from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.callbacks.keep_freed_memory import keep_freed_memory
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.language_model import LanguageModel
from elmo_plugin.plugin.training.optimizer import ClippedAdagradOptimizer
from elmo_plugin.text.corpus_cache import open_corpus
from elmo_plugin.text.special_words import SPECIAL_WORDS

ROWS, WINDOW = 64, 20
N_NEGATIVE_SAMPLES = 8192
N_WORDS = 50_000
DROPOUT = 0.1
N_WINDOWS = 4
N_ROUNDS = 5
WARM_UP_SECONDS = 10

Batch = dict[str, Any]


def run(settings: Settings) -> Record:
    """Print the tables and return them, by name."""
    corpus = open_corpus(settings.text)
    encoded = replace(settings, text=str(corpus.folder))
    rows, n_negative_samples, n_words = sizes(settings)
    batches = first_batches(encoded.text, vocabulary_of(encoded), rows, WINDOW, N_WINDOWS)
    n_tokens = rows * WINDOW
    speeds: list[Record] = []
    costs: list[Record] = []
    for name, model in models(settings).items():
        progress(f"training of {name}")
        n_operations = operations(options_of(name, model), n_negative_samples, batches)
        # Each has a separate process, because ours keeps the memory that it frees.
        with Worker(settings.threads, peer_trainer, encoded, name) as peer:
            for precision, dtype in precisions().items():
                peak = MatrixProductPeak(dtype, quick=settings.quick)
                with Worker(settings.threads, own_trainer, encoded, name, precision) as ours:
                    _, own, theirs = in_turns(
                        peak, partial(ours, "step"), partial(peer, "step"), n_rounds=N_ROUNDS
                    )
                    found = ours("largest_costs") if settings.profile else []
                least = peak.seconds_at_least(n_operations)
                speeds.append(
                    {
                        "model": name,
                        "precision": precision,
                        "ours": n_tokens / own,
                        "allennlp": n_tokens / theirs,
                        "ratio": theirs / own,
                        "gflops_peak": peak.gflops,
                        "limit": n_tokens / least,
                        "share_of_limit": least / own,
                        "unique_words": sum(len(tensors(batch)["words"]) for batch in batches)
                        / len(batches),
                    }
                )
                costs += [{"model": name, "precision": precision, **cost} for cost in found]
    of_text = min(corpus.num_words, n_words)
    print_table(
        f"Training on {settings.text}, {rows} rows x {WINDOW} time steps, {n_negative_samples:,} "
        f"negatives, vocabulary {n_words:,} ({of_text:,} of the text): tokens/s",
        speeds,
    )
    if costs:
        print_table("Our largest costs", costs)
    return {"training": speeds, "costs": costs}


def sizes(settings: Settings) -> tuple[int, int, int]:
    """Return the numbers of rows, of negatives and of words."""
    return (8, 256, 4000) if settings.quick else (ROWS, N_NEGATIVE_SAMPLES, N_WORDS)


def vocabulary_of(settings: Settings) -> BiLMVocabulary:
    return BiLMVocabulary.from_words(filled(open_corpus(settings.text).words(), sizes(settings)[2]))


def peer_trainer(settings: Settings, name: str) -> "Trainer":
    rows, n_negative_samples, n_words = sizes(settings)
    torch.manual_seed(0)
    options = options_of(name, models(settings)[name])
    model = AllenNLPLanguageModel(options, n_words, n_negative_samples, DROPOUT)
    vocabulary = vocabulary_of(settings)
    return Trainer(model, first_batches(settings.text, vocabulary, rows, WINDOW, N_WINDOWS))


def own_trainer(settings: Settings, name: str, precision: str) -> "Trainer":
    keep_freed_memory()  # as the callback of our configs does
    rows, n_negative_samples, _ = sizes(settings)
    torch.manual_seed(0)
    vocabulary = vocabulary_of(settings)
    model = LanguageModel(
        vocabulary,
        models(settings)[name]["lstm"],
        models(settings)[name]["char_cnn"],
        dropout=DROPOUT,
        n_negative_samples=n_negative_samples,
        precision=precision,
    )
    return Trainer(model, first_batches(settings.text, vocabulary, rows, WINDOW, N_WINDOWS))


def filled(words: list[str], size: int) -> list[str]:
    """Return the first `size` words, padded with invented words if there are fewer."""
    others = (f"{SPECIAL_WORDS[2]} {number}" for number in range(size - len(words)))
    return [*words[:size], *others]


def first_batches(
    text: str, vocabulary: BiLMVocabulary, rows: int, window: int, count: int
) -> list[Batch]:
    """Return the first `count` batches of an epoch whose windows are full."""
    loader = BiLMDataLoader(BiLMDatasetReader(), text, batch_size=rows, window=window)
    loader.index_with(vocabulary)
    full = (batch for batch in loader if bool((tensors(batch)["forward_targets"] != IGNORE).all()))
    found = list(islice(full, count))
    if len(found) < count:
        raise InputError(
            f"{text}: expected {count} windows of {rows} x {window} tokens, found {len(found)}"
        )
    return found


def tensors(batch: Batch) -> dict[str, Tensor]:
    return batch["window"].tensors()


class Trainer:
    """
    Training steps as in bilm-tf and in our configs.

    # Parameters

    model : `nn.Module`
    batches : `list[Batch]`
        Batches that the steps read in turn. Each is first read here to warm up, several times if
        that is fast, because every number of distinct words allocates other shapes.
    """

    def __init__(self, model: nn.Module, batches: list[Batch]) -> None:
        self.model = model.train()
        self.batches = batches
        self.n_tokens = tensors(batches[0])["forward_targets"].numel()
        self.optimizer = ClippedAdagradOptimizer(
            list(model.named_parameters())
        )  # bilm-tf's numbers
        self._following = cycle(batches)
        began = time.perf_counter()
        for _ in range(3):
            for _ in batches:
                self.step()
            if time.perf_counter() - began > WARM_UP_SECONDS:
                break

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(**next(self._following))["loss"].backward()
        self.optimizer.step()

    def largest_costs(self) -> list[Record]:
        return largest_costs(self.step)


def operations(options: BiLMOptions, n_negative_samples: int, batches: list[Batch]) -> float:
    """
    Return the useful operations of a step, the mean over `batches`. Each distinct word counts once.
    """
    total = 0
    for window in map(tensors, batches):
        n_targets = window["forward_targets"].numel()
        total += lstm_operations(options, n_targets)
        total += char_cnn_operations(options, window["words"].long())
        total += softmax_operations(options, n_targets, n_negative_samples)
    return FORWARD_AND_BACKWARD * total / len(batches)
