"""ELMo by the library's line in every text model of allennlp-models: at the input, at the output
and at both. It trains, and is evaluated and predicts in another folder, when the biLM is gone."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.plugin.elmo_output import BcnElmo, ElmoOutputEncoder
from elmo_plugin.plugin.token_embedders.elmo_token_embedder import ElmoEmbedder
from tests.conftest import allennlp, write_bilm_archive
from tests.training_configs.task_models import LIBRARY, build, evaluated, train_and_move, with_elmo

MODELS = evaluated("std.objectFields(models)")
TYPES = {
    *("basic_classifier", "bcn", "biaffine_parser", "bidaf", "bimpm", "composed_seq2seq"),
    *("constituency_parser", "copynet_seq2seq", "coref", "crf_tagger", "decomposable_attention"),
    *("dialog_qa", "esim", "graph_parser", "naqanet", "qanet", "simple_seq2seq", "simple_tagger"),
    "srl",
}
WITHOUT_ENCODER = {"basic_classifier_without_encoder", "decomposable_attention"}
WITHOUT_INITIALIZER = {"simple_seq2seq"}
WITHOUT_REGULARIZER = {"copynet_seq2seq", "dialog_qa", "simple_seq2seq"}
COMMON = "both"
"""The place that `make test` trains; the other ones are long."""

SHORT = [(name, "input" if name in WITHOUT_ENCODER else COMMON) for name in MODELS if name in TYPES]
LONG = [
    (name, place)
    for name in MODELS
    for place in ("input", "output", "both")
    if (name, place) not in SHORT and not (name in WITHOUT_ENCODER and place != "input")
]


def models(*short: str, without: set[str]) -> pytest.MarkDecorator:
    """A test of all models but some, of which `make test` runs the `short` ones."""
    names = [name for name in MODELS if name not in without]
    long = [pytest.param(name, marks=pytest.mark.long) for name in names if name not in short]
    return pytest.mark.parametrize("name", [*filter(names.__contains__, short), *long])


def test_every_model_is_tried():
    """Expected: the models that the library knows, as its error lists them."""
    with pytest.raises(RuntimeError, match="expected one of") as error:
        with_elmo("srl { model+: { type: 'nonsense' } }", "input", "gone")
    listed = str(error.value).split("expected one of ")[1].split(", or paths=")[0]
    assert set(listed.split(", ")) == TYPES
    assert {evaluated(f"models.{name}.model.type") for name in MODELS} == TYPES


@pytest.fixture
def run_through(tmp_path, monkeypatch) -> Callable[[Any], None]:
    """A function that trains a config with biLMs of `tmp_path/bilms`. Expected: the same loss after
    the archive was moved, and a prediction for each line."""

    def run(config: dict[str, Any]) -> None:
        file, data = tmp_path / "config.json", config["train_data_path"]
        file.write_text(json.dumps(config))
        train_and_move(file, data, tmp_path, monkeypatch)
        arguments = ["--use-dataset-reader", "--silent", "--output-file", "out.jsonl"]
        allennlp("predict", "model.tar.gz", data, *arguments)
        predictions = Path("out.jsonl").read_text().splitlines()
        assert predictions and all(json.loads(line) for line in predictions)

    return run


@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    "name, place", SHORT + [pytest.param(*case, marks=pytest.mark.long) for case in LONG]
)
def test_train_evaluate_predict(name, place, tmp_path, run_through):
    """See `run_through`."""
    run_through(with_elmo(name, place, write_bilm_archive(tmp_path / "bilms")))


@models("bidaf", without={*WITHOUT_ENCODER, "bcn"})
def test_two_bilms(name, tmp_path, run_through):
    """See `run_through`; and by hand, the sizes of the two biLMs."""
    one, other = (
        json.dumps({"archive_file": write_bilm_archive(tmp_path / "bilms" / str(n), n)})
        for n in (8, 4)
    )
    config = evaluated(
        f"local elmo = {LIBRARY}; "
        f"elmo.both(elmo.both(models.{name}, {one}, dim=16), {other}, dim=8, key='another')"
    )
    model, _ = build(config)
    assert sorted(m.output_dim for m in model.modules() if isinstance(m, Elmo)) == [8, 16]
    run_through(config)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", [name for name in MODELS if name not in WITHOUT_ENCODER])
@pytest.mark.parametrize("place", ["output", pytest.param("both", marks=pytest.mark.long)])
def test_the_output_is_elmo(name, place, bilm_archive):
    """Expected: in the encoder's output the last mix of the embedder, bit-identical, whatever
    the model does to the embedded text before."""
    model, batch = build(with_elmo(name, place, bilm_archive))
    embedded: list[torch.Tensor] = []
    encoded: list[torch.Tensor] = []
    (embedder,) = (m for m in model.modules() if isinstance(m, ElmoEmbedder))
    embedder.register_forward_hook(lambda _, __, output: embedded.append(output))
    if isinstance(model, BcnElmo):
        pooling = model._self_attentive_pooling_projection
        pooling.register_forward_pre_hook(lambda _, inputs: encoded.append(inputs[0]))
        n_directions = 1
    else:
        encoder = next(m for m in model.modules() if isinstance(m, ElmoOutputEncoder))
        encoder.register_forward_hook(lambda _, __, output: encoded.append(output))
        n_directions = 2 if encoder.is_bidirectional() else 1
    with torch.no_grad():
        model(**batch)
    assert len(encoded) >= 1
    mixes = {mix.shape[-2]: mix[..., -16:].flatten(0, -3) for mix in embedded}
    for output in encoded:
        halves = output.chunk(n_directions, dim=-1)
        elmo = torch.cat([half[..., -16 // n_directions :] for half in halves], dim=-1)
        mix = mixes[output.size(-2)]
        # `dialog_qa` encodes a passage once for each of its questions.
        assert torch.equal(elmo, mix.repeat_interleave(len(elmo) // len(mix), dim=0))


@models("bidaf", "naqanet", "qanet", without={*WITHOUT_ENCODER, "bcn"})
def test_the_encoder_itself_does_not_read_the_output_mix(name, bilm_archive):
    """Expected: what the encoder gives in AllenNLP's model without ELMo, which has the same weights
    up to there."""
    ours, batch = build(with_elmo(name, "output", bilm_archive))
    stock, stock_batch = build(evaluated(f"models.{name}"))
    (path, encoder) = next(
        (path, m) for path, m in ours.named_modules() if isinstance(m, ElmoOutputEncoder)
    )
    target = ours.state_dict()
    for key, tensor in stock.state_dict().items():
        in_wrapper = key.replace(f"{path}.", f"{path}._encoder.")
        for own in (key, in_wrapper, key.replace(".", "._module.", 1)):
            if own in target and target[own].shape == tensor.shape:
                target[own].copy_(tensor)
    found: list[torch.Tensor] = []
    expected: list[torch.Tensor] = []
    encoder._encoder.register_forward_hook(lambda _, __, output: found.append(output))
    stock.get_submodule(path).register_forward_hook(lambda _, __, output: expected.append(output))
    with torch.no_grad():
        ours(**batch), stock(**stock_batch)
    assert found
    torch.testing.assert_close(found, expected)


@models("crf_tagger", "qanet", without={"bcn"})
def test_a_stock_config_after_changing_the_two_types(name, bilm_files):
    """Expected: the loss of the same config with AllenNLP's own indexer and embedder, from the same
    files and with the same weights of the task. For `bcn` see below."""
    ours = with_elmo(name, "input", None, initial_state="carry", **bilm_files._asdict())
    stock = json.loads(json.dumps(ours))
    parameter = next(key for key in stock["dataset_reader"] if key.endswith("token_indexers"))
    stock["dataset_reader"][parameter]["elmo"] = {"type": "elmo_characters"}
    embedder = next(m for key, m in stock["model"].items() if key.endswith("_embedder"))
    stock_elmo = {"type": "elmo_token_embedder", **bilm_files._asdict()}
    embedder["token_embedders"]["elmo"] = stock_elmo
    (model, batch), (expected_model, expected_batch) = build(ours), build(stock)
    model.load_state_dict(expected_model.state_dict(), strict=False)
    with torch.no_grad():
        found, expected = model(**batch)["loss"], expected_model(**expected_batch)["loss"]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("place", ["input", "output", "both"])
def test_bcn_is_allennlps(place, bilm_files):
    """Expected: the loss of AllenNLP's `bcn` with its own ELMo, from the same files and with the
    same weights."""
    ours = with_elmo("bcn", place, None, initial_state="carry", **bilm_files._asdict())
    stock = json.loads(json.dumps(ours))
    stock["dataset_reader"]["token_indexers"]["elmo"] = {"type": "elmo_characters"}
    n_mixes = 2 if place == "both" else 1
    elmo = {**bilm_files._asdict(), "num_output_representations": n_mixes}
    stock["model"] |= {"type": "bcn", "elmo": elmo}
    (model, batch), (expected_model, expected_batch) = build(ours), build(stock)
    for name, parameter in expected_model.named_parameters():
        if "scalar_mix" in name:
            parameter.data.normal_()
    weights = {
        name.replace("_elmo.", "_elmo._embedder._elmo.", 1): x
        for name, x in expected_model.state_dict().items()
        if "_elmo_lstm" not in name
    }
    missing = model.load_state_dict(weights, strict=False)
    assert not missing.unexpected_keys
    assert all("._elmo.bilm." in name for name in missing.missing_keys)
    with torch.no_grad():
        found, expected = model(**batch)["loss"], expected_model(**expected_batch)["loss"]
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.sampled(7)
@pytest.mark.parametrize("name", [name for name in MODELS if name not in WITHOUT_INITIALIZER])
def test_initializers_leave_the_bilm_as_it_is(name, bilm_archive):
    """Expected: the weights of the biLM's own archive, and 7 in every parameter of the task. By
    hand, an L2 penalty of 0.1 on three weights in each mix."""
    place, n_mixes = ("input", 1) if name in WITHOUT_ENCODER else ("both", 2)
    has_penalty = name not in WITHOUT_REGULARIZER
    config = with_elmo(name, place, bilm_archive, f"dim=16, l2={'0.1' if has_penalty else 'null'}")
    config["model"]["initializer"] = {"regexes": [[".*", {"type": "constant", "val": 7.0}]]}
    model, _ = build(config)
    (elmo,) = (m for m in model.modules() if isinstance(m, Elmo))
    expected = Elmo.from_archive(bilm_archive).bilm.state_dict()
    found = elmo.bilm.state_dict()
    assert found.keys() == expected.keys()
    assert all(torch.equal(tensor, expected[key]) for key, tensor in found.items())
    for key, parameter in model.named_parameters():
        assert "_elmo.bilm." in key or (parameter == 7).all(), key
    if has_penalty:
        penalty = model.get_regularization_penalty()
        assert penalty.item() == pytest.approx(0.1 * n_mixes * 3 * 7**2)
