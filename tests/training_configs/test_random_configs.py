"""Random taggers by the library's line: names, sizes, encoders, embedders and lengths. The oracle
is AllenNLP's own encoder, given the columns that are its input, and the mixes of `Elmo`; the
columns are counted here."""

import json
from random import Random
from typing import Any

import _jsonnet
import pytest
import torch
from allennlp.common import Params
from allennlp.data import Vocabulary
from allennlp.models import Model
from allennlp.modules.seq2seq_encoders import Seq2SeqEncoder

from elmo_plugin import Elmo
from tests.compare import assert_close
from tests.conftest import Fuzz
from tests.training_configs.task_models import LIBRARY

WORDS = "the dog threw a stick to him .".split()


def random_encoder(random: Random, input_dim: int) -> dict[str, Any]:
    kind = random.choice(
        ["lstm", "gru", "rnn", "stacked", "pass_through", "feedforward", "compose"]
    )
    hidden = random.randint(1, 5)
    if kind == "pass_through":
        return {"type": kind, "input_dim": input_dim}
    if kind == "feedforward":
        inner = {"input_dim": input_dim, "num_layers": 1, "hidden_dims": hidden}
        return {"type": kind, "feedforward": {**inner, "activations": "tanh"}}
    if kind == "stacked":
        sizes = {"input_size": input_dim, "hidden_size": hidden, "num_layers": 2}
        return {"type": "stacked_bidirectional_lstm", **sizes}
    if kind == "compose":
        first = {"type": "lstm", "input_size": input_dim, "hidden_size": 3}
        second = {"type": "gru", "input_size": 3, "hidden_size": hidden}
        return {"type": kind, "encoders": [first, second]}
    sizes = {"input_size": input_dim, "hidden_size": hidden, "bidirectional": random.random() < 0.6}
    return {"type": kind, **sizes, "num_layers": random.randint(1, 2)}


def shape_of(encoder: dict[str, Any]) -> tuple[int, bool]:
    """The size of an encoder's output, and whether it has two directions; by AllenNLP."""
    built = Seq2SeqEncoder.from_params(Params(json.loads(json.dumps(encoder))))
    return built.get_output_dim(), built.is_bidirectional()


@pytest.fixture(scope="module")
def vocabulary() -> Vocabulary:
    found = Vocabulary()
    for word in WORDS:
        found.add_token_to_namespace(word)
    for label in ("O", "B-X", "I-X"):
        found.add_token_to_namespace(label, "labels")
    return found


@torch.no_grad()
def test_random_taggers(bilm_archive: str, vocabulary: Vocabulary, fuzz: Fuzz) -> None:
    """Expected: see above. The mask is of random lengths, of which one is not 0, and padding has
    zeros at the output."""
    for number, random in enumerate(fuzz.cases(4)):
        place, key = random.choice(["input", "output", "both"]), random.choice(["elmo", "a", "z"])
        sizes = {
            name: random.randint(1, 6) for name in random.sample("bhmqx", random.randint(1, 3))
        }
        embedder: dict[str, Any] = {"archive_file": bilm_archive, "dropout": 0.0}
        embedder["do_layer_norm"] = random.random() < 0.5
        embedder["initial_state"] = random.choice(["zero", "warm"])
        dim = 16
        if random.random() < 0.3 and place == "input":
            dim = embedder["projection_dim"] = random.randint(1, 9)
        encoder = random_encoder(random, sum(sizes.values()))
        indexers = dict.fromkeys(sizes, "single_id")
        base = {
            "dataset_reader": {"type": "sequence_tagging", "token_indexers": indexers},
            "model": {
                "type": "simple_tagger",
                "text_field_embedder": {
                    "token_embedders": {
                        name: {"type": "embedding", "embedding_dim": size}
                        for name, size in sizes.items()
                    }
                },
                "encoder": encoder,
            },
        }
        line = f"{json.dumps(base)}, {json.dumps(embedder)}, dim={dim}, key='{key}'"
        config = json.loads(_jsonnet.evaluate_snippet("test", f"{LIBRARY}.{place}({line})"))
        torch.manual_seed(number)
        model = Model.from_params(Params(config["model"]), vocab=vocabulary).eval()
        for name, parameter in model.named_parameters():
            if "scalar_mix" in name:
                parameter.normal_()
        lengths = [random.randint(1, 6), *random.choices(range(7), k=random.randint(0, 3))]
        random.shuffle(lengths)
        sentences = [random.choices(WORDS, k=n) for n in lengths]
        indexed = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
        for row, sentence in zip(indexed, sentences):
            row[: len(sentence)] = torch.tensor([vocabulary.get_token_index(w) for w in sentence])
        elmo = Elmo.from_archive(
            bilm_archive,
            num_output_representations=2 if place == "both" else 1,
            do_layer_norm=embedder["do_layer_norm"],
            initial_state=embedder["initial_state"],
        ).eval()
        text = {name: {"tokens": indexed} for name in sizes}
        text[key] = {"elmo_tokens": elmo.characters(sentences)}
        own = getattr(model.text_field_embedder, f"token_embedder_{key}")
        state = own.state_dict()
        for k, mix in enumerate(elmo.mixes):
            weights = {
                n.split(f"scalar_mix_{k}.")[1]: x for n, x in state.items() if f"mix_{k}." in n
            }
            mix.load_state_dict(weights)
        mixes = elmo(text[key]["elmo_tokens"])["elmo_representations"]
        if own.get_output_dim() != len(mixes) * 16:
            mixes = [own._projection(mixes[0])]
        columns = {
            name: getattr(model.text_field_embedder, f"token_embedder_{name}")(indexed)
            for name in sizes
        }
        if place != "output":
            columns[key] = mixes[0]
        read = torch.cat([columns[name] for name in sorted(columns)], dim=-1)
        at_output = [] if place == "input" else [mixes[-1]]
        # AllenNLP's own encoder, with as many columns as are read.
        wrapped = model.encoder if place == "input" else model.encoder._encoder
        assert (
            wrapped.get_input_dim()
            == read.size(-1)
            == sum(sizes.values()) + dim * (place != "output")
        )
        mask = indexed > 0
        encoded = wrapped(read, mask)
        size, has_two = shape_of(encoder)
        grown = encoder["type"] == "pass_through" and place != "output"
        assert encoded.size(-1) == size + dim * grown
        n = 2 if has_two else 1
        parts = [encoded.chunk(n, dim=-1), *((x * mask[..., None]).chunk(n, -1) for x in at_output)]
        expected = torch.cat([part for direction in zip(*parts) for part in direction], dim=-1)
        embedded = model.text_field_embedder(text)
        assert_close(model.encoder(embedded, mask), expected, atol=1e-5, what=f"{number}: {place}")
        logits = model(text)["logits"]
        assert logits.shape == (*mask.shape, 3)
        assert_close(logits, model.tag_projection_layer(expected), atol=1e-5, what="logits")
