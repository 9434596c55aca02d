"""ELMo by the library's line in every text model of allennlp-models: at the input, at the output
and at both. It trains, and is evaluated and predicts in another folder, when the biLM is gone."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.plugin.elmo_output import BcnElmo, ElmoOutputEncoder
from elmo_plugin.plugin.token_embedders.elmo_token_embedder import ElmoEmbedder
from tests.conftest import allennlp, write_bilm_archive
from tests.training_configs.task_models import LIBRARY, build, evaluated, with_elmo

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


def run_through(config, bilms: Path, tmp_path, monkeypatch) -> None:
    """Expected: the loss that training computed on the same data, after the archive was moved, and
    a prediction for each line."""
    (tmp_path / "config.json").write_text(json.dumps(config))
    allennlp("train", tmp_path / "config.json", "-s", tmp_path / "run")
    trained = json.loads((tmp_path / "run" / "metrics.json").read_text())

    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    shutil.move(tmp_path / "run" / "model.tar.gz", elsewhere)
    shutil.rmtree(bilms)
    shutil.rmtree(tmp_path / "run")
    monkeypatch.chdir(elsewhere)
    data = config["train_data_path"]
    allennlp("evaluate", "model.tar.gz", data, "--output-file", "metrics.json")
    evaluated = json.loads(Path("metrics.json").read_text())
    assert evaluated["loss"] == pytest.approx(trained["validation_loss"], rel=1e-4)

    arguments = ["predict", "model.tar.gz", data, "--use-dataset-reader", "--silent"]
    allennlp(*arguments, "--output-file", "out.jsonl")
    predictions = Path("out.jsonl").read_text().splitlines()
    assert predictions and all(json.loads(line) for line in predictions)


@pytest.mark.parametrize(
    "name, place", SHORT + [pytest.param(*case, marks=pytest.mark.long) for case in LONG]
)
def test_train_evaluate_predict(name, place, tmp_path, monkeypatch):
    """See `run_through`."""
    bilms = tmp_path / "bilms"
    config = with_elmo(name, place, write_bilm_archive(bilms))
    run_through(config, bilms, tmp_path, monkeypatch)


@models("bidaf", without={*WITHOUT_ENCODER, "bcn"})
def test_two_bilms(name, tmp_path, monkeypatch):
    """See `run_through`; and by hand, the sizes of the two biLMs."""
    bilms = tmp_path / "bilms"
    archives = [write_bilm_archive(bilms / str(dim), projection_dim=dim) for dim in (8, 4)]
    one, other = (json.dumps({"archive_file": archive}) for archive in archives)
    config = evaluated(
        f"local elmo = {LIBRARY}; "
        f"elmo.both(elmo.both(models.{name}, {one}, dim=16), {other}, dim=8, key='another')"
    )
    model, _ = build(config)
    assert sorted(m.output_dim for m in model.modules() if isinstance(m, Elmo)) == [8, 16]
    run_through(config, bilms, tmp_path, monkeypatch)


@pytest.mark.long
@pytest.mark.parametrize("name", ["bidaf", "bcn", "crf_tagger"])
@pytest.mark.parametrize(
    "arguments, embedder",
    [
        ("dim=16", {"do_layer_norm": True}),
        ("dim=16", {"use_top_only": True}),
        ("dim=16", {"requires_grad": True}),
        ("dim=16", {"initial_state": "zero", "cache_dir": "layers"}),
        ("dim=4", {"projection_dim": 4}),
        ("dim=16, max_characters_per_token=20", {}),
        ("dim=16, l2=0.1", {}),
        ("dim=16, key='mine'", {}),
    ],
)
def test_special_arguments(name, arguments, embedder, tmp_path, monkeypatch):
    """See `run_through`."""
    bilms = tmp_path / "bilms"
    archive = write_bilm_archive(bilms, max_characters=20 if "characters" in arguments else 50)
    if "cache_dir" in embedder:
        embedder = {**embedder, "cache_dir": str(tmp_path / "layers")}
    place = "input" if name == "bcn" and "key" in arguments else "both"
    run_through(
        with_elmo(name, place, archive, arguments, **embedder), bilms, tmp_path, monkeypatch
    )


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
        renamed = [
            key,
            key.replace(f"{path}.", f"{path}._encoder."),
            key.replace(".", "._module.", 1),
        ]
        for found in renamed:
            if found in target and target[found].shape == tensor.shape:
                target[found].copy_(tensor)
    outputs: dict[str, list[torch.Tensor]] = {"ours": [], "stock": []}
    encoder._encoder.register_forward_hook(lambda _, __, output: outputs["ours"].append(output))
    stock.get_submodule(path).register_forward_hook(
        lambda _, __, output: outputs["stock"].append(output)
    )
    with torch.no_grad():
        ours(**batch), stock(**stock_batch)
    assert outputs["ours"]
    for found, expected in zip(outputs["ours"], outputs["stock"], strict=True):
        torch.testing.assert_close(found, expected)


@models("crf_tagger", "qanet", without={"bcn"})
def test_a_stock_config_after_changing_the_two_types(name, bilm_files):
    """Expected: the loss of the same config with AllenNLP's own indexer and embedder, from the same
    files and with the same weights of the task. For `bcn` see `test_bcn.py`."""
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
