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
    Worker,
    in_turns,
    largest_costs,
    print_table,
    progress,
    speed,
)
from benchmarks.operations import training_operations
from benchmarks.peer_language_model import AllenNLPLanguageModel
from benchmarks.settings import Settings, models, options_of, precisions
from elmo_plugin.checks import InputError
from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.plugin.callbacks.keep_freed_memory import keep_freed_memory
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.plugin.training.optimizer import ClippedAdagradOptimizer
from elmo_plugin.text.characters import SPECIAL_WORDS
from elmo_plugin.text.corpus_cache import open_corpus

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
    windows = list(map(tensors, first_batches(encoded, vocabulary_of(encoded))))
    n_unique = sum(len(window["words"]) for window in windows) / len(windows)
    speeds: list[Record] = []
    costs: list[Record] = []
    for name, model in models(settings).items():
        progress(f"training of {name}")
        n_operations = training_operations(options_of(name, model), n_negative_samples, windows)
        # Each has a separate process, because ours keeps the memory that it frees.
        with Worker(settings.threads, trainer, encoded, name) as peer:
            for precision, dtype in precisions().items():
                peak = MatrixProductPeak(dtype, quick=settings.quick)
                with Worker(settings.threads, trainer, encoded, name, precision) as ours:
                    _, own, theirs = in_turns(
                        peak, partial(ours, "step"), partial(peer, "step"), n_rounds=N_ROUNDS
                    )
                    found = ours("largest_costs") if settings.profile else []
                key = {"model": name, "precision": precision}
                speeds.append({**key, **speed(rows * WINDOW, own, theirs, peak, n_operations)})
                speeds[-1]["unique_words"] = n_unique
                costs += [{**key, **cost} for cost in found]
    of_text = min(corpus.num_words, n_words)
    print_table(
        f"Training on {settings.text}, {rows} rows x {WINDOW} time steps, {n_negative_samples:,} "
        f"negatives, vocabulary {n_words:,} ({of_text:,} of the text): tokens/s",
        speeds,
    )
    print_table("Our largest costs", costs)
    return {"training": speeds, "costs": costs}


def sizes(settings: Settings) -> tuple[int, int, int]:
    """Return the numbers of rows, of negatives and of words."""
    return (8, 256, 4000) if settings.quick else (ROWS, N_NEGATIVE_SAMPLES, N_WORDS)


def vocabulary_of(settings: Settings) -> BiLMVocabulary:
    """Return the first words of the text, padded with invented words if there are fewer."""
    *_, size = sizes(settings)
    words = open_corpus(settings.text).words()[:size]
    others = (f"{SPECIAL_WORDS[2]} {number}" for number in range(size - len(words)))
    return BiLMVocabulary.from_words([*words, *others])


def first_batches(settings: Settings, vocabulary: BiLMVocabulary) -> list[Batch]:
    """Return the first batches of an epoch whose windows are full."""
    rows, text = sizes(settings)[0], settings.text
    loader = BiLMDataLoader(BiLMDatasetReader(), text, batch_size=rows, window=WINDOW)
    loader.index_with(vocabulary)
    full = (batch for batch in loader if bool((tensors(batch)["forward_targets"] != IGNORE).all()))
    found = list(islice(full, N_WINDOWS))
    if len(found) < N_WINDOWS:
        raise InputError(
            f"{text}: expected {N_WINDOWS} windows of {rows} x {WINDOW} tokens, found {len(found)}"
        )
    return found


def tensors(batch: Batch) -> dict[str, Tensor]:
    return batch["window"].tensors()


def trainer(settings: Settings, name: str, precision: str | None = None) -> "Trainer":
    """Return our trainer in a precision, or without one the peer's."""
    _, n_negative_samples, n_words = sizes(settings)
    vocabulary, blocks = vocabulary_of(settings), models(settings)[name]
    torch.manual_seed(0)
    model: nn.Module
    if precision is None:
        options = options_of(name, blocks)
        model = AllenNLPLanguageModel(options, n_words, n_negative_samples, DROPOUT)
    else:
        keep_freed_memory()  # as the callback of our configs does
        model = BiLMModel(
            vocabulary,
            blocks["lstm"],
            blocks["char_cnn"],
            dropout=DROPOUT,
            n_negative_samples=n_negative_samples,
            precision=precision,
        )
    return Trainer(model, first_batches(settings, vocabulary))


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
        # bilm-tf's numbers
        self.optimizer = ClippedAdagradOptimizer(list(model.named_parameters()))
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
