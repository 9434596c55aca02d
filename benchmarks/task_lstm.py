"""
Compares a training step of AllenNLP's encoder `lstm` with that of the class that the plugin
registers in its place, in turns:

    OMP_NUM_THREADS=1 python -m benchmarks.task_lstm
"""

from functools import partial

import torch
from allennlp.common import Params
from allennlp.modules.seq2seq_encoders import LstmSeq2SeqEncoder, Seq2SeqEncoder

import elmo_plugin.plugin  # noqa: F401  registers the other class
from benchmarks.measure import Record, in_turns, print_table

SIZES = {"input_size": 256, "hidden_size": 100, "num_layers": 2, "bidirectional": True}
N_ROWS = 32


def main() -> None:
    records = [compare(n_steps) for n_steps in (20, 50, 150, 400)]
    print(f"{N_ROWS} rows of up to n steps, {torch.get_num_threads()} threads")
    print_table("Forward and backward pass: milliseconds", records)


def compare(n_steps: int) -> Record:
    torch.manual_seed(0)
    x = torch.randn(N_ROWS, n_steps, SIZES["input_size"])
    mask = torch.arange(n_steps) < torch.linspace(n_steps / 2, n_steps, N_ROWS).unsqueeze(1)
    parameters = Params({"type": "lstm", **SIZES})
    encoders = LstmSeq2SeqEncoder(**SIZES), Seq2SeqEncoder.from_params(parameters)
    works = [partial(step, encoder, x, mask) for encoder in encoders]
    stock, ours = in_turns(*works)
    return {"n": n_steps, "AllenNLP": 1e3 * stock, "ours": 1e3 * ours, "ratio": stock / ours}


def step(encoder: Seq2SeqEncoder, x: torch.Tensor, mask: torch.Tensor) -> None:
    encoder(x, mask).sum().backward()


if __name__ == "__main__":
    main()
