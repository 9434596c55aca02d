"""
Compares sentence vectors with AllenNLP's own `Elmo`, both with the same random weights from the
same files, on batches of 32 sentences sorted by length. Each measurement is a first pass over its
text, with no word vectors cached.
"""

import tempfile
from collections.abc import Sequence
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
import torch
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo_lstm import ElmoLstm
from torch import Tensor

from benchmarks.measure import (
    MatrixProductPeak,
    Record,
    in_turns,
    largest_costs,
    print_table,
    progress,
    seconds,
    speed,
)
from benchmarks.operations import reading_operations
from benchmarks.settings import Settings, models, options_of, precisions
from elmo_plugin.checks import InputError
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.modules import BiLM
from elmo_plugin.modules.bilm import INITIAL_STATES
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.lines import read_sentences

ROWS = 32
SENTENCE = 20
"""Length in tokens of the sentences for the latency."""


def run(settings: Settings) -> Record:
    """Print the tables and return them, by name."""
    speeds: list[Record] = []
    latencies: list[Record] = []
    costs: list[Record] = []
    sentences = sample(settings.text, 2 * ROWS if settings.quick else settings.sentences)
    short = sample(settings.text, 20 if settings.quick else 100, SENTENCE)
    for name, model in models(settings).items():
        progress(f"vectors of {name}")
        options = options_of(name, model)
        with tempfile.TemporaryDirectory() as folder:
            files = write_random_weights(options, Path(folder))
            ours, stock = Elmo.from_files(*files).eval(), stock_elmo(*files)
            batches = to_batches(ours, sentences)
            speeds += compare_speed(name, ours, stock, batches, settings.quick)
            latencies.append({"model": name, **compare_latency(ours, stock, short)})
            if settings.profile:
                found = largest_costs(partial(first_pass, ours, batches))
                costs += [{"model": name, **cost} for cost in found]

    n_tokens = sum(map(len, sentences))
    print_table(
        f"Vectors, {n_tokens:,} tokens of {settings.text} in batches of {ROWS}: tokens/s", speeds
    )
    print_table(f"Latency of one sentence of {SENTENCE} tokens, ms", latencies)
    print_table("Our largest costs", costs)
    return {"vectors": speeds, "latency": latencies, "costs": costs}


def sample(text: str, n_sentences: int, length: int | None = None) -> list[list[str]]:
    """
    Return `n_sentences` evenly spread over a text. With `length`, only sentences of at least this
    length are used, truncated to it.
    """
    found = [s[:length] for s in read_sentences(text) if length is None or len(s) >= length]
    if len(found) < n_sentences:
        raise InputError(
            f"{text}: expected {n_sentences} sentences to measure with"
            f"{'' if length is None else f', of at least {length} tokens'}, found {len(found)}"
        )
    return found[:: len(found) // n_sentences][:n_sentences]


def write_random_weights(options: BiLMOptions, folder: Path) -> tuple[str, str]:
    """Write bilm-tf's two files of an untrained biLM."""
    torch.manual_seed(0)
    bilm = BiLM(options)
    bilm.warm_up()
    write_model_files(folder, bilm)
    return str(folder / "options.json"), str(folder / "weights.hdf5")


def stock_elmo(options_file: str, weight_file: str) -> StockElmo:
    return StockElmo(options_file, weight_file, num_output_representations=1, dropout=0.0).eval()


def to_batches(elmo: Elmo, sentences: list[list[str]]) -> list[Tensor]:
    """Sort sentences by length into batches, each of shape `(ROWS, T, C)`."""
    ordered = sorted(sentences, key=len)
    return [elmo.characters(ordered[i : i + ROWS]) for i in range(0, len(ordered), ROWS)]


@torch.no_grad()
def first_pass(elmo: Elmo, batches: Sequence[Tensor]) -> list[Tensor]:
    elmo.clear_caches()
    return [elmo(batch)["elmo_representations"][0] for batch in batches]


@torch.no_grad()
def stock_pass(stock: StockElmo, batches: Sequence[Tensor]) -> list[Tensor]:
    clear_state(stock)
    return [stock(batch)["elmo_representations"][0] for batch in batches]


def compare_speed(
    name: str, ours: Elmo, stock: StockElmo, batches: list[Tensor], quick: bool
) -> list[Record]:
    """
    Return a record for each initial state and precision. The stock module supports only `"carry"`
    and fp32.
    """
    peaks = {
        name: MatrixProductPeak(dtype, quick) for name, dtype in precisions(is_frozen=True).items()
    }
    ways = list(product(INITIAL_STATES, peaks))

    def pass_in(initial_state: str, precision: str) -> list[Tensor]:
        ours.initial_state = initial_state
        ours.bilm.set_precision(precision)
        return first_pass(ours, batches)

    expected = stock_pass(stock, batches)
    # This also warms up all of them.
    found = {way: pass_in(*way) for way in ways if way[0] == "carry"}
    stock_time, *times = in_turns(
        *peaks.values(),
        partial(stock_pass, stock, batches),
        *(partial(pass_in, *way) for way in ways),
    )[len(peaks) :]
    ours.bilm.set_precision("fp32")
    n_tokens = sum(int((batch > 0).any(-1).sum()) for batch in batches)
    records = []
    for way, own in zip(ways, times):
        state, precision = way
        n_operations = operations(ours, batches, state)
        record: Record = {"model": name, "initial_state": state, "precision": precision}
        record |= speed(n_tokens, own, stock_time, peaks[precision], n_operations)
        record |= compare(found[way], expected) if way in found else NOT_COMPARED
        records.append(record)
    return records


NOT_COMPARED = dict.fromkeys(("largest_difference", "largest_number", "mean_cosine"))


def compare(found: Sequence[Tensor], expected: Sequence[Tensor]) -> dict[str, float]:
    """Compare our vectors with those of the stock module, both of shape `(B, T, 2P)`."""
    cosines = [
        torch.cosine_similarity(x[real], y[real], dim=-1)
        for x, y in zip(found, expected)
        for real in [(y != 0).any(dim=-1)]
    ]
    return {
        "largest_difference": max(float((x - y).abs().max()) for x, y in zip(found, expected)),
        "largest_number": max(float(y.abs().max()) for y in expected),
        "mean_cosine": float(torch.cat(cosines).mean()),
    }


def operations(elmo: Elmo, batches: Sequence[Tensor], initial_state: str) -> int:
    """
    If sentences always start from the same state, the step of the first boundary is a constant. The
    step of the last boundary is never needed.
    """
    n_boundaries = 2 * sum(map(len, batches)) if initial_state == "carry" else 0
    return reading_operations(elmo.bilm.options, batches, n_boundaries)


def clear_state(stock: StockElmo) -> None:
    """Clear the states that the stock module carries between batches."""
    for module in stock.modules():
        if isinstance(module, ElmoLstm):
            module.reset_states()


@torch.no_grad()
def compare_latency(ours: Elmo, stock: StockElmo, sentences: list[list[str]]) -> Record:
    """Measure single sentences, with new words in each or with known words."""
    ours.initial_state = "warm"
    ours.clear_caches()
    clear_state(stock)
    batches = [ours.characters([sentence]) for sentence in sentences]
    times = [[1000 * seconds(partial(module, x)) for module in (ours, stock)] for x in batches]
    p50, p99 = np.percentile(times, [50, 99], axis=0).tolist()
    return {
        "ours_p50": p50[0],
        "ours_p99": p99[0],
        "allennlp_p50": p50[1],
        "allennlp_p99": p99[1],
        "ratio_p50": p50[1] / p50[0],
        "sentences": len(batches),
    }
