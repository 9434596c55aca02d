"""
Steps of training: ours beside the same model put together from AllenNLP's own parts, both on the
same windows of our data loader, with the same optimizer.
"""

from itertools import cycle, islice

import torch
from allennlp.common.checks import ConfigurationError
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
from benchmarks.settings import Settings, models, options_of
from elmo_plugin.data.corpus import SPECIAL_WORDS
from elmo_plugin.data.corpus_cache import open_corpus
from elmo_plugin.data.data_loader import BilmDataLoader
from elmo_plugin.data.dataset_reader import BilmDatasetReader
from elmo_plugin.data.vocabulary import BilmVocabulary
from elmo_plugin.models.bilm import BilmLanguageModel
from elmo_plugin.modules.bilm import PRECISIONS
from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.options import BiLMOptions
from elmo_plugin.training.optimizer import ClippedAdagradOptimizer

ROWS, WINDOW = 64, 20
N_NEGATIVE_SAMPLES = 8192
N_WORDS = 50_000
DROPOUT = 0.1
N_WINDOWS = 4

Window = dict[str, Tensor]


def run(settings: Settings) -> Record:
    """Prints the tables and returns them, by name."""
    rows, n_negative_samples, n_words = (
        (8, 256, 4000) if settings.quick else (ROWS, N_NEGATIVE_SAMPLES, N_WORDS)
    )
    words = open_corpus(settings.text).words()
    vocabulary = BilmVocabulary.from_words(filled(words, n_words))
    windows = first_windows(settings.text, vocabulary, rows, WINDOW, N_WINDOWS)
    speeds: list[Record] = []
    costs: list[Record] = []
    for name, model in models(settings).items():
        progress(f"training of {name}")
        options = options_of(name, model)
        torch.manual_seed(0)
        peer = Trainer(
            AllenNLPLanguageModel(options, n_words, n_negative_samples, DROPOUT), windows
        )
        for precision, dtype in PRECISIONS.items():
            torch.manual_seed(0)
            language_model = BilmLanguageModel(
                vocabulary,
                model["lstm"],
                model["char_cnn"],
                dropout=DROPOUT,
                n_negative_samples=n_negative_samples,
                precision=precision,
            )
            ours = Trainer(language_model, windows)
            peak = MatrixProductPeak(dtype or torch.float32, quick=settings.quick)
            _, own, theirs = in_turns(peak, ours.step, peer.step)
            least = peak.seconds_at_least(operations(options, n_negative_samples, windows))
            speeds.append(
                {
                    "model": name,
                    "precision": precision,
                    "ours": ours.n_tokens / own,
                    "allennlp": peer.n_tokens / theirs,
                    "ratio": theirs / own,
                    "gflops_peak": peak.gflops,
                    "limit": ours.n_tokens / least,
                    "share_of_limit": least / own,
                    "distinct_words": sum(len(w["words"]) for w in windows) / len(windows),
                }
            )
            if settings.profile:
                of = {"model": name, "precision": precision}
                costs += [{**of, **cost} for cost in largest_costs(ours.step)]
    print_table(
        f"Training on {settings.text}, {rows} rows x {WINDOW} time steps, {n_negative_samples:,} "
        f"negatives, vocabulary {n_words:,} ({min(len(words), n_words):,} of the text): tokens/s",
        speeds,
    )
    if costs:
        print_table("Our largest costs", costs)
    return {"training": speeds, "costs": costs}


def filled(words: list[str], size: int) -> list[str]:
    """The first `size` words; where there are fewer, others that occur nowhere come after them."""
    others = (f"{SPECIAL_WORDS[2]} {number}" for number in range(size - len(words)))
    return [*words[:size], *others]


def first_windows(
    text: str, vocabulary: BilmVocabulary, rows: int, window: int, count: int
) -> list[Window]:
    """The first `count` of an epoch that are full."""
    loader = BilmDataLoader(BilmDatasetReader(), text, batch_size=rows, window=window)
    loader.index_with(vocabulary)
    windows = ({key: window[key] for key in window} for window in loader)
    full = (window for window in windows if bool((window["forward_targets"] != IGNORE).all()))
    found = list(islice(full, count))
    if len(found) < count:
        raise ConfigurationError(
            f"{text}: expected {count} windows of {rows} x {window} tokens, found {len(found)}"
        )
    return found


class Trainer:
    """
    Steps of training as bilm-tf's, and as our configs have them.

    # Parameters

    model : `nn.Module`
    windows : `list[Window]`
        What its steps read, again and again. The first step warms up, here.
    """

    def __init__(self, model: nn.Module, windows: list[Window]) -> None:
        self.model = model.train()
        self.windows = windows
        self.n_tokens = windows[0]["forward_targets"].numel()
        self.optimizer = ClippedAdagradOptimizer(
            list(model.named_parameters())
        )  # bilm-tf's numbers
        self._following = cycle(windows)
        self.step()

    def step(self) -> None:
        self.optimizer.zero_grad()
        self.model(**next(self._following))["loss"].backward()
        self.optimizer.step()


def operations(options: BiLMOptions, n_negative_samples: int, windows: list[Window]) -> float:
    """The useful ones of a step, the mean over `windows`; each distinct word of a window once."""
    total = 0
    for window in windows:
        n_targets = window["forward_targets"].numel()
        total += lstm_operations(options, n_targets)
        total += char_cnn_operations(options, window["words"].long())
        total += softmax_operations(options, n_targets, n_negative_samples)
    return FORWARD_AND_BACKWARD * total / len(windows)
