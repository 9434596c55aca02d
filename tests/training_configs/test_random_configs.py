"""Random taggers by the library's line: names, sizes, encoders, embedders and lengths. The oracle
is AllenNLP's own encoder, given the columns that are its input, and the mixes of `Elmo`
(tests/plugin/token_embedders compares them with AllenNLP's); the columns are counted here."""

import json
from random import Random
from typing import Any

import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.modules.seq2seq_encoders import Seq2SeqEncoder

from tests.compare import assert_close
from tests.conftest import Fuzz
from tests.training_configs.task_models import LIBRARY, evaluated

WORDS = "the dog threw a stick to him .".split()
DIM = 16
"""Twice the projection_dim of the test's biLM."""


def encoders(random: Random, input_dim: int) -> list[dict[str, Any]]:
    """Encoders of each kind, two of which have parts."""
    sizes = {"input_size": input_dim, "hidden_size": random.randint(1, 5)}
    layer = {"input_dim": input_dim, "num_layers": 1, "hidden_dims": 3, "activations": "tanh"}
    same = {"type": "pass_through", "input_dim": input_dim}
    has_two, n_layers = random.random() < 0.6, random.randint(1, 2)
    recurrent = {**sizes, "bidirectional": has_two, "num_layers": n_layers}
    return [
        *({"type": kind, **recurrent} for kind in ("lstm", "gru", "rnn")),
        {"type": "stacked_bidirectional_lstm", **sizes, "num_layers": 2},
        same,
        {"type": "feedforward", "feedforward": layer},
        {"type": "compose", "encoders": [same, {"type": "lstm", **sizes}]},
    ]


def shape_of(encoder: dict[str, Any]) -> tuple[int, bool]:
    """The size of an encoder's output, and whether it has two directions; by AllenNLP."""
    built = Seq2SeqEncoder.from_params(Params(json.loads(json.dumps(encoder))))
    return built.get_output_dim(), built.is_bidirectional()


@torch.no_grad()
def test_random_taggers(bilm_archive: str, fuzz: Fuzz) -> None:
    """Expected: see above. The mask is of random lengths, of which one is not 0, and padding has
    zeros at the output."""
    vocabulary = Vocabulary(tokens_to_add={"tokens": WORDS, "labels": ["O", "B-X", "I-X"]})
    for number, random in enumerate(fuzz.cases(7)):
        place, key = ["input", "both", "output"][number % 3], random.choice(["elmo", "a", "z"])
        names = random.sample("bhmqx", random.randint(1, 3))
        sizes = {name: random.randint(1, 6) for name in names}
        embedder: dict[str, Any] = {"archive_file": bilm_archive, "dropout": 0.0}
        embedder["do_layer_norm"] = random.random() < 0.5
        embedder["initial_state"] = random.choice(["zero", "warm"])
        encoder = encoders(random, sum(sizes.values()))[number % 7]
        tokens = {name: {"type": "embedding", "embedding_dim": sizes[name]} for name in names}
        text_embedder = {"token_embedders": tokens}
        config = {"type": "simple_tagger", "text_field_embedder": text_embedder, "encoder": encoder}
        indexers = dict.fromkeys(names, "single_id")
        reader = {"type": "sequence_tagging", "token_indexers": indexers}
        base = json.dumps({"dataset_reader": reader, "model": config})
        line = f"{LIBRARY}.{place}({base}, {json.dumps(embedder)}, dim={DIM}, key='{key}')"
        torch.manual_seed(number)
        model = Model.from_params(Params(evaluated(line)["model"]), vocab=vocabulary).eval()
        for name, parameter in model.named_parameters():
            if "scalar_mix" in name:
                parameter.normal_()
        lengths = [random.randint(1, 6), *random.choices(range(7), k=random.randint(0, 3))]
        random.shuffle(lengths)
        sentences = [random.choices(WORDS, k=n) for n in lengths]
        indexed = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
        for row, sentence in zip(indexed, sentences):
            row[: len(sentence)] = torch.tensor([vocabulary.get_token_index(w) for w in sentence])
        of_model = model.text_field_embedder
        embedders = {name: getattr(of_model, f"token_embedder_{name}") for name in (*names, key)}
        elmo = embedders[key]._elmo
        assert len(elmo.mixes) == (2 if place == "both" else 1)
        text = {name: {"tokens": indexed} for name in names}
        text[key] = {"elmo_tokens": elmo.characters(sentences)}
        mixes = elmo(text[key]["elmo_tokens"])["elmo_representations"]
        columns = {name: embedders[name](indexed) for name in names}
        if place != "output":
            columns[key] = mixes[0]
        read = torch.cat([columns[name] for name in sorted(columns)], dim=-1)
        # AllenNLP's own encoder, with as many columns as are read.
        wrapped = model.encoder if place == "input" else model.encoder._encoder
        n_read = sum(sizes.values()) + DIM * (place != "output")
        assert wrapped.get_input_dim() == read.size(-1) == n_read
        mask = indexed > 0
        encoded = wrapped(read, mask)
        size, has_two = shape_of(encoder)
        grown = encoder["type"] == "pass_through" and place != "output"
        assert encoded.size(-1) == size + DIM * grown
        behind = [] if place == "input" else [mixes[-1] * mask[..., None]]
        parts = [x.chunk(2 if has_two else 1, dim=-1) for x in (encoded, *behind)]
        expected = torch.cat([part for direction in zip(*parts) for part in direction], dim=-1)
        assert_close(
            model.encoder(of_model(text), mask), expected, atol=1e-5, what=f"{number}: {place}"
        )
        logits = model.tag_projection_layer(expected)
        assert_close(model(text)["logits"], logits, atol=1e-5, what="logits")
