"""`bcn` with this package's ELMo is `bcn` with AllenNLP's own."""

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.modules.elmo import batch_to_ids

ELMO_DIM = 16
SENTENCES = ["the dog threw the stick .".split(), ["he"]]


def lstm(input_size: int) -> dict:
    return {"type": "lstm", "input_size": input_size, "hidden_size": 3, "bidirectional": True}


def build(model: str, elmo: dict, at_input: bool, at_output: bool) -> Model:
    vocab = Vocabulary()
    vocab.add_tokens_to_namespace(["good", "bad"], "labels")
    words = {"type": "embedding", "num_embeddings": 9, "embedding_dim": 5}
    relu = {"num_layers": 1, "activations": "relu"}
    elmo_dim = {True: ELMO_DIM, False: 0}
    params = {
        "type": model,
        "text_field_embedder": {"token_embedders": {"tokens": words}},
        "embedding_dropout": 0.0,
        "pre_encode_feedforward": {"input_dim": 5 + elmo_dim[at_input], "hidden_dims": 4, **relu},
        "encoder": lstm(4),
        "integrator": lstm(18),
        "integrator_dropout": 0.0,
        "output_layer": {"input_dim": 4 * (6 + elmo_dim[at_output]), "hidden_dims": 2, **relu},
        "elmo": {**elmo, "dropout": 0.0, "num_output_representations": at_input + at_output},
        "use_input_elmo": at_input,
        "use_integrator_output_elmo": at_output,
    }
    return Model.from_params(Params(params), vocab=vocab).eval()


@pytest.mark.parametrize("at_input, at_output", [(True, False), (False, True), (True, True)])
def test_it_is_stock(bilm_files, at_input, at_output):
    """Expected: AllenNLP's `bcn` with its own ELMo, from the same files and with the same
    weights."""
    files = bilm_files._asdict()
    stock = build("bcn", files, at_input, at_output)
    ours = build(
        "bcn_elmo", {**files, "type": "elmo", "initial_state": "carry"}, at_input, at_output
    )
    weights = {name: torch.randn_like(p) for name, p in stock.named_parameters()}
    weights = {name: p for name, p in weights.items() if "_elmo_lstm" not in name}
    stock.load_state_dict(weights, strict=False)
    renamed = {
        name.replace("_elmo.", "_elmo._embedder._elmo.", 1): p for name, p in weights.items()
    }
    missing = ours.load_state_dict(renamed, strict=False)
    assert not missing.unexpected_keys
    assert all("._elmo.bilm." in name for name in missing.missing_keys)
    characters = batch_to_ids(SENTENCES)
    ids = torch.tensor([[1, 2, 3, 1, 4, 5], [6, 0, 0, 0, 0, 0]])
    tokens = {"tokens": {"tokens": ids}, "elmo": {"elmo_tokens": characters}}
    with torch.no_grad():
        torch.testing.assert_close(
            ours(tokens)["logits"], stock(tokens)["logits"], atol=1e-5, rtol=1e-5
        )
