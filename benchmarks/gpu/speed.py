"""The speed of training, of vectors, and of one LSTM layer next to `torch.nn.LSTM`."""

import gc
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor, nn

from benchmarks.gpu.precision import PRECISIONS, Precision, precise_to
from benchmarks.gpu.step import Sizes, TrainingStep
from benchmarks.gpu.text import InventedText, Window
from benchmarks.measure import MatrixProductPeak, Record, in_turns, largest_costs, seconds
from benchmarks.operations import (
    FORWARD_AND_BACKWARD,
    lstm_operations,
    reading_operations,
    training_operations,
)
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.layers import batches_by_length
from elmo_plugin.modules import BiLM, ProjectedLSTM
from elmo_plugin.options import BiLMOptions

N_WINDOWS = 4
N_KERNELS = 12
"""Number of kernels in the table."""
LONG_SENTENCE = 35_213
"""Number of words of the longest text that was read as one sentence on a CPU."""

Peer = Callable[..., Callable[[], object]]
"""Builds the peer of a benchmark; a call of it does the same work."""


def limits(device: torch.device, quick: bool) -> Iterator[Record]:
    """The rate of large matrix products, which is the limit of all others."""
    for precision in each_precision(device):
        peak = MatrixProductPeak(precision.dtype, quick, device)
        yield {"precision": precision.name, "tflops": peak.gflops / 1000}


def training(
    name: str,
    options: BiLMOptions,
    sizes: Sizes,
    device: torch.device,
    quick: bool,
    peer: Peer | None,
) -> Iterator[Record]:
    """Steps with the optimizer; AllenNLP's modules make them in fp32 and TF32 only."""
    windows = windows_of(options, sizes)
    n_tokens = sizes.rows * sizes.steps
    n_operations = training_operations(options, sizes.negatives, windows)
    for precision in each_precision(device):
        step = TrainingStep(options, sizes, precision, device, windows)
        theirs = None
        if peer and precision.bilm == "fp32":
            theirs = partial(peer, options, sizes, device, windows)
        yield {
            "model": name,
            **sizes._asdict(),
            "precision": precision.name,
            **measured(step, n_tokens, n_operations, precision, device, quick, theirs),
        }
        del step


def kernels(
    name: str, options: BiLMOptions, sizes: Sizes, device: torch.device
) -> Iterator[Record]:
    """The kernels of a training step that take the most time."""
    for precision in each_precision(device):
        step = TrainingStep(options, sizes, precision, device, windows_of(options, sizes))
        for cost in largest_costs(step, N_KERNELS, device):
            yield {"model": name, "precision": precision.name, **cost}
        del step


def windows_of(options: BiLMOptions, sizes: Sizes) -> list[Window]:
    assert options.char_cnn is not None
    text = InventedText(sizes.words, options.char_cnn.max_characters_per_token)
    return text.windows(sizes.rows, sizes.steps, N_WINDOWS)


def vectors(
    name: str,
    options: BiLMOptions,
    n_tokens: int,
    most_tokens: int,
    device: torch.device,
    quick: bool,
    peer: Peer | None,
) -> Iterator[Record]:
    """
    A first pass over sentences, in batches of at most `most_tokens` tokens, as `embed` makes.
    AllenNLP's modules make it in fp32 and TF32 only.
    """
    assert options.char_cnn is not None
    sentences = InventedText(50_000, options.char_cnn.max_characters_per_token).sentences(n_tokens)
    elmo = Elmo(BiLM(options)).eval().to(device)
    elmo.bilm.warm_up()
    places = batches_by_length([len(sentence) for sentence in sentences], most_tokens)
    batches = [elmo.characters([sentences[b] for b in batch]) for batch in places]
    n_read, n_operations = sum(map(len, sentences)), reading_operations(options, batches)

    @torch.no_grad()
    def first_pass() -> None:
        elmo.clear_caches()
        for batch in batches:
            elmo(batch)

    for precision in each_precision(device):
        elmo.bilm.set_precision(precision.bilm)
        first_pass()
        theirs = partial(peer, options, batches) if peer and precision.bilm == "fp32" else None
        yield {
            "model": name,
            "tokens_in_a_batch": most_tokens,
            "precision": precision.name,
            **measured(first_pass, n_read, n_operations, precision, device, quick, theirs),
        }


def embed(name: str, options: BiLMOptions, n_tokens: int, device: torch.device) -> Iterator[Record]:
    """
    `Elmo.embed` from lists of words to arrays, with its own batches, in the first pass and in the
    third, which has cached words; and once, in fp32, one sentence of `LONG_SENTENCE` words.
    """
    assert options.char_cnn is not None
    text = InventedText(50_000, options.char_cnn.max_characters_per_token)
    sentences = text.sentences(n_tokens)
    long = [word for sentence in text.sentences(n_tokens) for word in sentence][:LONG_SENTENCE]
    elmo = Elmo(BiLM(options)).eval().to(device)
    elmo.bilm.warm_up()
    elmo.embed(sentences[:10])
    for precision in each_precision(device):
        elmo.bilm.set_precision(precision.bilm)
        texts = {"sentences": sentences}
        if precision.name == "fp32":  # a step of one row, for which a GPU is not made
            texts["one sentence"] = [long]
        for what, given in texts.items():
            elmo.clear_caches()
            passes = [seconds(partial(elmo.embed, given)) for _ in range(3 if given[1:] else 1)]
            n_words = sum(map(len, given))
            yield {
                "model": name,
                "text": what,
                "words": n_words,
                "precision": precision.name,
                "first_pass_ms": 1e3 * passes[0],
                "last_pass_ms": 1e3 * passes[-1],
                "tokens_per_second": n_words / passes[0],
                "peak_gib": peak_gib(device),
            }


def lstm(
    name: str, options: BiLMOptions, sizes: Sizes, device: torch.device, quick: bool
) -> Iterator[Record]:
    """
    Forward and backward pass of one layer in both directions, with clips, next to PyTorch's LSTM
    (cuDNN's on a GPU) of the same size without clips.
    """
    settings = options.lstm
    projected = settings.projection_dim != settings.dim
    shape = sizes.steps, sizes.rows, settings.projection_dim
    n_tokens = sizes.rows * sizes.steps
    n_operations = FORWARD_AND_BACKWARD * lstm_operations(options, n_tokens) / settings.n_layers
    for precision in each_precision(device):
        layer = ProjectedLSTM(
            input_dim=settings.projection_dim,
            dim=settings.dim,
            projection_dim=settings.projection_dim,
            cell_clip=settings.cell_clip,
            proj_clip=settings.proj_clip,
        ).to(device)
        layer.precision = precision.dtype
        peer = nn.LSTM(
            settings.projection_dim,
            settings.dim,
            proj_size=settings.projection_dim if projected else 0,
            bidirectional=True,
        ).to(device, precision.dtype)
        x = torch.randn(2, *shape, device=device, requires_grad=True)
        cell = torch.zeros(2, sizes.rows, settings.dim, device=device)
        hidden = torch.zeros(2, *shape[1:], device=device)
        y = torch.randn(shape, device=device, dtype=precision.dtype, requires_grad=True)
        ours = partial(_pass, layer, x, cell, hidden)
        ours()
        theirs = partial(partial, _pass, peer, y)
        yield {
            "model": name,
            **sizes._asdict(),
            "precision": precision.name,
            **measured(ours, n_tokens, n_operations, precision, device, quick, theirs),
        }


def _pass(module: nn.Module, x: Tensor, *others: Tensor) -> None:
    y = module(x, *others)[0]
    torch.autograd.grad(y, [x, *module.parameters()], torch.ones_like(y))


def measured(
    work: Callable[[], object],
    n_tokens: int,
    n_operations: float,
    precision: Precision,
    device: torch.device,
    quick: bool,
    peer: Peer | None,
) -> Record:
    """
    The speed of `work`, which is warm, in turns with matrix products and with the peer's work, or
    why there is none.
    """
    memory = peak_gib(device)
    peak, error = MatrixProductPeak(precision.dtype, quick, device), None
    works: list[Callable[[], object]] = [peak, work]
    if peer is not None:
        try:
            theirs = peer()
            theirs()
            works.append(theirs)
        except (RuntimeError, TypeError, AttributeError) as refused:  # not for this PyTorch
            error = one_line(refused)
    n_rounds, least_seconds = (1, 0.0) if quick else (5, 1.0)
    _, own, *others = in_turns(*works, n_rounds=n_rounds, least_seconds=least_seconds)
    return {
        "ms": 1e3 * own,
        "tokens_per_second": n_tokens / own,
        "tflops": n_operations / own / 1e12,
        "share_of_limit": peak.seconds_at_least(n_operations) / own,
        "peak_gib": memory,
        "peer_ms": 1e3 * others[0] if others else None,
        "ratio": others[0] / own if others else None,
        "peer_error": error,
    }


def peak_gib(device: torch.device) -> float | None:
    """The most memory of a GPU that was used since `each_precision` began the present one."""
    return torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None


def one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def each_precision(device: torch.device) -> Iterator[Precision]:
    """The precisions, each in effect until the next one, with the peak memory counted again."""
    for precision in PRECISIONS:
        gc.collect()
        if device.type == "cuda":
            torch.cuda.empty_cache()
            torch.cuda.reset_peak_memory_stats()
        with precise_to(precision):
            yield precision
