"""
Plots our work under the machine's limits (a roofline), and compares with BERT:

    python -m benchmarks.roofline --text TEXT --picture docs/roofline.png
"""

import argparse
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor
from transformers import BertConfig, BertModel

from benchmarks.embedding import sample, to_batches
from benchmarks.measure import MatrixProductPeak, Record, in_turns, print_table
from benchmarks.operations import char_cnn_operations, lstm_operations
from benchmarks.settings import PUBLISHED, QUICK, Settings, options_of, precisions
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.ops.sampled_softmax_loss import sampled_softmax_loss
from elmo_plugin.options import BiLMOptions

ROWS, STEPS = 64, 20
N_NEGATIVES = 8192
BANDWIDTH_NUMBERS = 2**26
"""256 MiB of fp32 numbers, larger than any cache."""
BERTS = {
    "2x4096_512": {"hidden_size": 768, "num_hidden_layers": 10, "intermediate_size": 3072},
    "2x1024_128": {"hidden_size": 256, "num_hidden_layers": 7, "intermediate_size": 1024},
    "2x64_16": {"hidden_size": 32, "num_hidden_layers": 1, "intermediate_size": 64},
}
"""BERT models with about as many parameters as ours."""

Work = tuple[Callable[[], object], float, float]
"""A function, its number of operations, and the minimum number of bytes it reads and writes."""


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.roofline", description=__doc__)
    parser.add_argument("--text", default="docs://train", help="a file, a glob or a folder")
    parser.add_argument("--picture", required=True, help="the picture to write")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    run(Settings(text=arguments.text, threads=arguments.threads), arguments.picture)


@torch.no_grad()
def run(settings: Settings, picture: str) -> Record:
    """Print the tables, draws the picture, and return the tables by name."""
    models = QUICK if settings.quick else PUBLISHED
    sentences = sample(settings.text, 96)
    numbers = torch.ones(BANDWIDTH_NUMBERS // (64 if settings.quick else 1))
    other = torch.empty_like(numbers)
    limits: list[Record] = []
    points: list[Record] = []
    rates: list[Record] = []
    for precision, dtype in precisions().items():
        peak = MatrixProductPeak(dtype, settings.quick)
        bandwidth = 0.0
        for name, model in models.items():
            options = options_of(name, model)
            bilm = BiLM(options).eval().requires_grad_(False)
            bilm.set_precision(precision)
            elmo = Elmo(bilm, precision=precision).eval()
            works = works_of(bilm, options, elmo, sentences, dtype)
            for work, _, _ in works.values():
                work()  # packs the weights
            _, copy, *times = in_turns(
                peak, partial(other.copy_, numbers), *(work for work, _, _ in works.values())
            )
            bandwidth = max(bandwidth, 2 * numbers.nbytes / copy / 1e9)
            for (what, (_, operations, n_bytes)), time in zip(works.items(), times):
                points.append(
                    {
                        "model": name,
                        "precision": precision,
                        "work": what,
                        "operations_per_byte": operations / n_bytes,
                        "gflops": operations / time / 1e9,
                        "share_of_peak": operations / time / 1e9 / peak.gflops,
                    }
                )
            rates.append(compare_with_bert(name, precision, elmo, sentences))
        limits.append({"precision": precision, "gflops": peak.gflops, "gb_per_second": bandwidth})
    print_table("Limits: matrix products, and copies of memory", limits)
    print_table(f"Work on {ROWS} rows x {STEPS} steps", points)
    print_table("Vectors of 96 sentences in batches of 32, next to a BERT: tokens/s", rates)
    draw(limits, points, picture)
    return {"limits": limits, "points": points, "rates": rates}


def works_of(
    bilm: BiLM, options: BiLMOptions, elmo: Elmo, sentences: list[list[str]], dtype: torch.dtype
) -> dict[str, Work]:
    """
    A forward pass of an LSTM layer and of the char CNN, and the sampled softmax with its gradient.
    """
    layer = bilm.bilstm.layers[1]
    n, size, number = ROWS * STEPS, layer.projection_dim, dtype.itemsize
    x = torch.randn(2, STEPS, ROWS, size)
    state = torch.zeros(2, ROWS, layer.dim), torch.zeros(2, ROWS, size)
    weights = sum(w.numel() for w in (layer.recurrent_weight, layer.input_weight))
    if layer.projection_weight is not None:
        weights += layer.projection_weight.numel()
    words = elmo.characters([sorted({word for sentence in sentences for word in sentence})])[0]
    encoder_weights = sum(w.numel() for w in bilm.token_encoder.parameters())
    encoded = len(words) * (words.size(1) * 8 + 4 * size)
    hidden, targets = torch.randn(n, size), torch.arange(n)
    # As `SampledSoftmax` initializes them. Larger logits would have to be computed again.
    rows = (size**-0.5 * torch.randn(n + N_NEGATIVES, size)).to(dtype)
    bias = torch.zeros(n + N_NEGATIVES)
    loss = partial(_softmax, hidden, targets, torch.arange(N_NEGATIVES), rows, bias)
    return {
        # Each step reads all weights again.
        "LSTM layer": (
            partial(layer, x, *state),
            lstm_operations(options, n) / options.lstm.n_layers,
            STEPS * weights * number + 2 * x.nbytes,
        ),
        "char CNN": (
            partial(bilm.token_encoder, words),
            char_cnn_operations(options, words),
            encoder_weights * number + encoded,
        ),
        "softmax": (loss, 3 * 2 * n * N_NEGATIVES * size, 2 * rows.nbytes + 2 * hidden.nbytes),
    }


def _softmax(hidden: Tensor, *others: Tensor) -> Tensor:
    with torch.enable_grad():
        return sampled_softmax_loss(hidden.requires_grad_(), *others)


def compare_with_bert(
    name: str, precision: str, elmo: Elmo, sentences: list[list[str]]
) -> dict[str, Any]:
    """
    Compare with a BERT of random weights that reads one word piece per token, fewer than its
    tokenizer makes.
    """
    config = BertConfig(**BERTS[name], num_attention_heads=4)
    bert = BertModel(config, add_pooling_layer=False).eval().to(precisions()[precision])
    batches = to_batches(elmo, sentences)
    masks = [(batch > 0).any(-1) for batch in batches]
    ids = [torch.randint(1000, config.vocab_size, mask.shape) for mask in masks]

    def read() -> None:
        for batch, mask in zip(ids, masks):
            bert(input_ids=batch, attention_mask=mask.long())

    def embed() -> None:
        frozen: Any = elmo.layers.frozen(elmo.bilm)
        frozen._bilm.token_encoder._rows.clear()  # a first pass, with packed weights
        for batch in batches:
            elmo(batch)

    for warm_up in (embed, read):
        warm_up()
    ours, theirs = in_turns(embed, read)
    n_tokens = sum(map(len, sentences))
    return {
        "model": name,
        "precision": precision,
        "parameters": sum(w.numel() for w in elmo.bilm.parameters()),
        "ours": n_tokens / ours,
        "bert_parameters": sum(w.numel() for w in bert.parameters()),
        "bert": n_tokens / theirs,
    }


def draw(limits: list[Record], points: list[Record], picture: str) -> None:
    """Draw the limits as lines and the work as points, by operations per byte."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    colors = {record["precision"]: f"C{k}" for k, record in enumerate(limits)}
    works = dict(zip(dict.fromkeys((p["work"], p["model"]) for p in points), "oDs^v<>P"))
    most = max(2 * point["operations_per_byte"] for point in points)
    for limit in limits:
        corner = limit["gflops"] / limit["gb_per_second"]
        xs = [1.0, corner, max(most, 2 * corner)]
        ys = [min(limit["gflops"], x * limit["gb_per_second"]) for x in xs]
        label = f"limit, {limit['precision']}"
        axes.plot(xs, ys, color=colors[limit["precision"]], label=label)
    for (work, model), marker in works.items():
        label = f"{work}, {model}"
        axes.plot([], [], marker=marker, color="grey", linestyle="none", label=label)
    for point in points:
        marker = works[point["work"], point["model"]]
        color = colors[point["precision"]]
        axes.plot(point["operations_per_byte"], point["gflops"], marker=marker, color=color)
    axes.set(xscale="log", yscale="log", xlabel="operations for each byte that is read or written")
    axes.set_ylabel("billions of operations a second")
    axes.legend(loc="lower right", fontsize="small")
    axes.grid(alpha=0.3, which="both")
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main()
