import json
from pathlib import Path

import _jsonnet
import pytest

CONFIGS = Path(__file__).parents[2] / "training_configs"
BASE = """{
  dataset_reader: { type: 'any' },
  validation_dataset_reader: { type: 'any', token_indexers: { words: { type: 'single_id' } } },
  model: {
    type: 'crf_tagger',
    text_field_embedder: { token_embedders: {
      characters: { type: 'character_encoding', embedding_dim: 7 },
      tokens: { type: 'embedding', embedding_dim: 5 },
    } },
    encoder: { type: 'qanet_encoder', input_dim: 12 },
    feedforward: { input_dim: 9 },
  },
}"""
EMBEDDER = "{ archive_file: 'a.tar.gz', dropout: 0.1 }"


def turned(how: str, base: str = BASE) -> dict:
    call = f"(import 'lib/elmo.libsonnet').{how}({base}, {EMBEDDER}, dim=20)"
    return json.loads(_jsonnet.evaluate_snippet(f"{CONFIGS}/test.jsonnet", call))


def test_input():
    """By hand: 20 columns more to read, and nothing else of another size."""
    model = turned("input")["model"]
    assert model["encoder"] == {"type": "qanet_encoder", "input_dim": 32}
    assert model["feedforward"] == {"input_dim": 9}
    assert model["text_field_embedder"]["token_embedders"]["elmo"] == {
        "type": "elmo",
        "num_output_representations": 1,
        "elmo_dim": 20,
        "archive_file": "a.tar.gz",
        "dropout": 0.1,
    }


@pytest.mark.parametrize(
    "how, mixes, input_dim, start", [("output", 1, 12, 7), ("both", 2, 32, 27)]
)
def test_output(how, mixes, input_dim, start):
    """By hand: "characters" (7) comes before "elmo" in the alphabet, "tokens" after it."""
    model = turned(how)["model"]
    assert model["encoder"] == {
        "type": "elmo_output",
        "encoder": {"type": "qanet_encoder", "input_dim": input_dim},
        "elmo_dim": 20,
        "start": start,
    }
    assert model["feedforward"] == {"input_dim": 29}
    embedders = model["text_field_embedder"]["token_embedders"]
    assert embedders["elmo"]["num_output_representations"] == mixes


def test_readers_keep_their_indexers():
    """AllenNLP's default indexer is there by its name where a reader named none."""
    config = turned("input")
    elmo = {"type": "elmo", "max_characters_per_token": 50}
    assert config["dataset_reader"]["token_indexers"] == {"tokens": "single_id", "elmo": elmo}
    assert config["validation_dataset_reader"]["token_indexers"] == {
        "words": {"type": "single_id"},
        "elmo": elmo,
    }


def test_an_embedder_of_unknown_size_in_front():
    """Where the second mix starts can't be told; at the input it does not matter."""
    base = BASE.replace("embedding_dim: 7", "num_embeddings: 7")
    turned("input", base)
    with pytest.raises(RuntimeError, match=r'"characters".*before "characters"'):
        turned("both", base)
