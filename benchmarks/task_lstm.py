"""
Compares a training step of AllenNLP's encoders `lstm` and `alternating_lstm` with the same by the
plugin's patches, in turns:

    OMP_NUM_THREADS=1 python -m benchmarks.task_lstm
"""

from functools import partial
from importlib.util import find_spec, module_from_spec
from typing import Any
from unittest.mock import patch

import torch
from allennlp.common import Params
from allennlp.modules.augmented_lstm import AugmentedLstm
from allennlp.modules.seq2seq_encoders import LstmSeq2SeqEncoder, Seq2SeqEncoder

import elmo_plugin.plugin  # noqa: F401  the patches
from benchmarks.measure import Record, in_turns, print_table

N_ROWS = 32
SIZES: dict[str, Any] = {"input_size": 256, "hidden_size": 100}
KINDS: dict[str, dict[str, Any]] = {
    "lstm": {"num_layers": 2, "bidirectional": True},
    "alternating_lstm": {"num_layers": 4, "recurrent_dropout_probability": 0.1},
}


def main() -> None:
    records = [compare(kind, n_steps) for kind in KINDS for n_steps in (20, 50, 150, 400)]
    print(f"{N_ROWS} rows of n/2 to n steps, {torch.get_num_threads()} threads")
    print_table("Forward and backward pass: milliseconds", records)


def compare(kind: str, n_steps: int) -> Record:
    torch.manual_seed(0)
    x = torch.randn(N_ROWS, n_steps, SIZES["input_size"])
    mask = torch.arange(n_steps) < torch.linspace(n_steps / 2, n_steps, N_ROWS).unsqueeze(1)
    parameters = {**SIZES, **KINDS[kind]}
    encoder = Seq2SeqEncoder.from_params(Params({"type": kind, **parameters}))
    stock = LstmSeq2SeqEncoder(**parameters) if kind == "lstm" else encoder
    ours = partial(step, encoder, x, mask)
    allennlp, our = in_turns(unpatched(partial(step, stock, x, mask)), ours)
    return {
        "encoder": kind,
        "n": n_steps,
        "AllenNLP": 1e3 * allennlp,
        "ours": 1e3 * our,
        "ratio": allennlp / our,
    }


def step(encoder: Seq2SeqEncoder, x: torch.Tensor, mask: torch.Tensor) -> None:
    encoder(x, mask).sum().backward()


def unpatched(work: partial[None]) -> partial[None]:
    """`work` with AllenNLP's own loop over the steps, from a fresh import."""
    spec = find_spec("allennlp.modules.augmented_lstm")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return partial(patch.object(AugmentedLstm, "forward", module.AugmentedLstm.forward)(work))


if __name__ == "__main__":
    main()
