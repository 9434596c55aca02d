"""Tokens a second in training, for vectors, and of one LSTM layer next to `torch.nn.LSTM`."""

import gc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks.gpu.precision import PRECISIONS, Precision, precise_to
from benchmarks.gpu.step import Sizes, TrainingStep
from benchmarks.gpu.text import InventedText, Window
from benchmarks.measure import MatrixProductPeak, Record, in_turns, largest_costs
from benchmarks.operations import (
    FORWARD_AND_BACKWARD,
    char_cnn_operations,
    lstm_operations,
    training_operations,
)
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.sentences import batches_by_length
from elmo_plugin.modules import BiLM, ProjectedLSTM
from elmo_plugin.modules.bilm import unique_words
from elmo_plugin.options import BiLMOptions

N_WINDOWS = 4

Peer = Callable[..., Callable[[], object]]
"""Builds the peer of a benchmark; a call of it does the same work."""


def limits(device: torch.device, quick: bool) -> Iterator[Record]:
    """The rate of large matrix products, which is the limit of all others."""
    for precision in PRECISIONS:
        with precise_to(precision):
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
    windows = _windows(options, sizes)
    n_tokens = sizes.rows * sizes.steps
    n_operations = training_operations(options, sizes.negatives, windows)
    for precision in PRECISIONS:
        with precise_to(precision):
            start_memory(device)
            step = TrainingStep(options, sizes, precision, device, windows)
            record: Record = {"model": name, **sizes._asdict(), "precision": precision.name}
            record |= rates(step, n_tokens, n_operations, precision, device, quick)
            del step
            if precision.bilm == "fp32":
                record |= next_to(peer, record["ms"], quick, options, sizes, device, windows)
        yield record


def kernels(
    name: str, options: BiLMOptions, sizes: Sizes, device: torch.device
) -> Iterator[Record]:
    """The kernels of a training step that take the most time."""
    for precision in PRECISIONS[1:]:
        with precise_to(precision):
            step = TrainingStep(options, sizes, precision, device, _windows(options, sizes))
            for cost in largest_costs(step, 12, device):
                yield {"model": name, "precision": precision.name, **cost}


def _windows(options: BiLMOptions, sizes: Sizes) -> list[Window]:
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
    """A first pass over sentences, in batches of at most `most_tokens` tokens, as `embed` makes."""
    sentences = InventedText(50_000, options.char_cnn.max_characters_per_token).sentences(n_tokens)
    elmo = Elmo(BiLM(options)).eval().to(device)
    elmo.bilm.warm_up()
    places = batches_by_length([len(sentence) for sentence in sentences], most_tokens)
    batches = [elmo.characters([sentences[b] for b in batch]) for batch in places]
    words, _ = unique_words(torch.cat([batch[(batch > 0).any(-1)] for batch in batches])[None])
    n_read = sum(map(len, sentences))
    n_operations = lstm_operations(options, n_read) + char_cnn_operations(options, words.cpu())

    @torch.no_grad()
    def first_pass() -> None:
        elmo.clear_caches()
        for batch in batches:
            elmo(batch)

    for precision in PRECISIONS:
        with precise_to(precision):
            start_memory(device)
            elmo.bilm.set_precision(precision.bilm)
            first_pass()
            record: Record = {
                "model": name,
                "tokens_in_a_batch": most_tokens,
                "precision": precision.name,
            }
            record |= rates(first_pass, n_read, n_operations, precision, device, quick)
            if precision.bilm == "fp32":
                record |= next_to(peer, record["ms"], quick, options, batches)
        yield record


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
    for precision in PRECISIONS:
        with precise_to(precision):
            ours = ProjectedLSTM(
                input_dim=settings.projection_dim,
                dim=settings.dim,
                projection_dim=settings.projection_dim,
                cell_clip=settings.cell_clip,
                proj_clip=settings.proj_clip,
            ).to(device)
            ours.precision = precision.dtype
            theirs = nn.LSTM(
                settings.projection_dim,
                settings.dim,
                proj_size=settings.projection_dim if projected else 0,
                bidirectional=True,
            ).to(device, precision.dtype)
            x = torch.randn(2, *shape, device=device, requires_grad=True)
            cell = torch.zeros(2, sizes.rows, settings.dim, device=device)
            hidden = torch.zeros(2, *shape[1:], device=device)
            y = torch.randn(shape, device=device, dtype=precision.dtype, requires_grad=True)
            own_work, their_work = partial(_pass, ours, x, cell, hidden), partial(_pass, theirs, y)
            own_work()
            works: list[Callable[[], object]] = [own_work]
            error = None
            try:
                their_work()
                works.append(their_work)
            except RuntimeError as refused:  # cuDNN lacks this size or precision
                error = one_line(refused)
            peak = MatrixProductPeak(precision.dtype, quick, device)
            _, own, *peers = turns(quick, peak, *works)
        yield {
            "model": name,
            **sizes._asdict(),
            "precision": precision.name,
            "ours_ms": 1e3 * own,
            "torch_nn_lstm_ms": 1e3 * peers[0] if peers else None,
            "ratio": peers[0] / own if peers else None,
            "share_of_limit": peak.seconds_at_least(n_operations) / own,
            "torch_nn_lstm_error": error,
        }


def _pass(module: nn.Module, x: Tensor, *others: Tensor) -> None:
    y = module(x, *others)[0]
    torch.autograd.grad(y, [x, *module.parameters()], torch.ones_like(y))


def rates(
    work: Callable[[], object],
    n_tokens: int,
    n_operations: float,
    precision: Precision,
    device: torch.device,
    quick: bool,
) -> Record:
    """The speed of `work`, which is warm, in turns with matrix products."""
    peak = MatrixProductPeak(precision.dtype, quick, device)
    _, time = turns(quick, peak, work)
    return {
        "ms": 1e3 * time,
        "tokens_per_second": n_tokens / time,
        "tflops": n_operations / time / 1e12,
        "share_of_limit": peak.seconds_at_least(n_operations) / time,
        "peak_gib": torch.cuda.max_memory_allocated() / 2**30 if device.type == "cuda" else None,
        "allennlp_ms": None,
        "ratio": None,
        "allennlp_error": None,
    }


def turns(quick: bool, *works: Callable[[], object]) -> list[float]:
    """The median seconds of each of `works`, in turns."""
    return in_turns(*works, n_rounds=1 if quick else 5, least_seconds=0.0 if quick else 1.0)


def next_to(peer: Peer | None, own_ms: float, quick: bool, *arguments: Any) -> Record:
    """AllenNLP's time and the ratio to it, or why there is none."""
    if peer is None:
        return {}
    try:
        work = peer(*arguments)
        work()
        [time] = turns(quick, work)
    except (RuntimeError, TypeError, AttributeError) as error:  # it was made for another PyTorch
        return {"allennlp_error": one_line(error)}
    return {"allennlp_ms": 1e3 * time, "ratio": 1e3 * time / own_ms}


def one_line(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"


def start_memory(device: torch.device) -> None:
    """Start to count the peak memory again."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
