"""
Compares a training step of AllenNLP's encoders `lstm` and `alternating_lstm`, and of its character
CNN, with the same by the plugin's patches, in turns:

    OMP_NUM_THREADS=1 python -m benchmarks.task_modules
"""

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from importlib.util import find_spec, module_from_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

import torch
from allennlp.common import Params
from allennlp.modules.augmented_lstm import AugmentedLstm
from allennlp.modules.seq2seq_encoders import LstmSeq2SeqEncoder, Seq2SeqEncoder
from allennlp.modules.token_embedders import TokenCharactersEncoder, TokenEmbedder
from cached_path import cached_path
from torch.nn.utils.rnn import pad_sequence

import elmo_plugin.plugin  # noqa: F401  the patches
from allennlp_today import character_cnn
from benchmarks.measure import Record, in_turns, print_table

N_ROWS = 32
SIZES: dict[str, Any] = {"input_size": 256, "hidden_size": 100}
KINDS: dict[str, dict[str, Any]] = {
    "lstm": {"num_layers": 2, "bidirectional": True},
    "alternating_lstm": {"num_layers": 4, "recurrent_dropout_probability": 0.1},
}
CNN: dict[str, Any] = {  # that of training_configs/ner.jsonnet
    "type": "character_encoding",
    "embedding": {"num_embeddings": 256, "embedding_dim": 16},
    "encoder": {
        "type": "cnn",
        "embedding_dim": 16,
        "num_filters": 128,
        "ngram_filter_sizes": [3],
        "conv_layer_activation": "relu",
    },
}


def main() -> None:
    records = [compare(kind, n_steps) for kind in (*KINDS, "cnn") for n_steps in (20, 50, 150, 400)]
    print(f"{N_ROWS} rows of n/2 to n steps, {torch.get_num_threads()} threads")
    print_table("Forward and backward pass: milliseconds", records)


def compare(kind: str, n_steps: int) -> Record:
    torch.manual_seed(0)
    lengths = torch.linspace(n_steps / 2, n_steps, N_ROWS).ceil().int()
    allennlp, our = in_turns(*(cnns(lengths) if kind == "cnn" else encoders(kind, lengths)))
    return {
        "module": kind,
        "n": n_steps,
        "AllenNLP": 1e3 * allennlp,
        "ours": 1e3 * our,
        "ratio": allennlp / our,
    }


def encoders(kind: str, lengths: torch.Tensor) -> tuple[Callable[[], None], Callable[[], None]]:
    """A step of AllenNLP's encoder, and of ours, with random inputs."""
    mask = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    x = torch.randn(*mask.shape, SIZES["input_size"], requires_grad=True)
    parameters = {**SIZES, **KINDS[kind]}
    encoder = Seq2SeqEncoder.from_params(Params({"type": kind, **parameters}))
    stock = LstmSeq2SeqEncoder(**parameters) if kind == "lstm" else encoder
    unpatched = patch.object(AugmentedLstm, "forward", allennlps_augmented_lstm())
    return unpatched(partial(step, stock, x, mask)), partial(step, encoder, x, mask)


def cnns(lengths: torch.Tensor) -> tuple[Callable[[], None], Callable[[], None]]:
    """The same for the character CNN, with rows of a text."""
    text = iter(Path(cached_path("docs://heldout")).read_text("utf-8").split())
    rows = [[next(text).encode("utf-8") for _ in range(n)] for n in lengths]
    n_characters = max(len(word) for row in rows for word in row)
    padded = [[list(word.ljust(n_characters, b"\0")) for word in row] for row in rows]
    x = pad_sequence([torch.tensor(row) for row in padded], batch_first=True)
    embedder = TokenEmbedder.from_params(Params(deepcopy(CNN)))
    unpatched = patch.object(TokenCharactersEncoder, "forward", character_cnn.allennlp_forward)
    return unpatched(partial(step, embedder, x)), partial(step, embedder, x)


def step(module: torch.nn.Module, *inputs: torch.Tensor) -> None:
    module(*inputs).sum().backward()


def allennlps_augmented_lstm() -> Callable[..., Any]:
    """AllenNLP's own loop over the steps, from a fresh import."""
    spec = find_spec("allennlp.modules.augmented_lstm")
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.AugmentedLstm.forward


if __name__ == "__main__":
    main()
