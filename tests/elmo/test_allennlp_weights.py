"""Models that were trained with AllenNLP's own ELMo load. The oracle is AllenNLP's module."""

from pathlib import Path
from typing import Any

import pytest
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from allennlp.models.archival import load_archive
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids
from allennlp.modules.token_embedders import ElmoTokenEmbedder as StockEmbedder

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.token_embedders.elmo_token_embedder import ElmoEmbedder
from tests.compare import assert_close
from tests.conftest import BLOCKS, BiLMFiles, allennlp
from tests.plugin.tagger import config

SENTENCES = [
    "He threw the stick to the dog .".split(),
    ["incomprehensibilities", "naïve", "🙂"],
    ["A"],
]


OPTIONS = BiLMOptions.from_dict(BLOCKS, source="test")


def stock_elmo(files: BiLMFiles, **kwargs: Any) -> Any:
    """AllenNLP's module with every weight changed, as after training."""
    torch.manual_seed(1)
    stock = StockElmo(*files, dropout=0.0, requires_grad=True, **kwargs).eval()
    with torch.no_grad():
        for name, parameter in stock.named_parameters():
            parameter.add_(torch.randn_like(parameter), alpha=0.1)
            if name.endswith("_char_embedding_weights"):
                parameter[0] = 0  # padding, which has no gradient
    return stock


@pytest.mark.parametrize("do_layer_norm", [False, True])
@pytest.mark.parametrize("make", ["from_files", "from_options"])
def test_a_state_dict(bilm_files: BiLMFiles, do_layer_norm: bool, make: str) -> None:
    """All layers, in several mixes, are those of AllenNLP's module, and the dictionary is not
    changed."""
    kwargs = {"num_output_representations": 3, "do_layer_norm": do_layer_norm}
    stock = stock_elmo(bilm_files, **kwargs)
    source = bilm_files if make == "from_files" else [OPTIONS]
    ours = getattr(Elmo, make)(*source, **kwargs, initial_state="carry")
    characters, state = batch_to_ids(SENTENCES), stock.state_dict()
    names = list(state)
    ours.load_state_dict(state)
    assert list(state) == names
    for _ in range(2):  # the second batch continues from the first
        mixes = (x(characters)["elmo_representations"] for x in (ours, stock))
        for k, (found, expected) in enumerate(zip(*mixes, strict=True)):
            assert_close(found, expected, what=f"mix {k}", atol=1e-5)


def test_the_warm_state(bilm_files: BiLMFiles, tmp_path: Path) -> None:
    """AllenNLP has none. The expected state is the one that is computed for files of the same
    weights, which `save` writes, without a warm state."""
    ours = Elmo.from_files(*bilm_files)
    before = ours.bilm.warm_state.output.clone()
    ours.load_state_dict(stock_elmo(bilm_files, num_output_representations=1).state_dict())
    found = ours.bilm.warm_state.output.clone()
    assert not torch.equal(before, found)
    ours.bilm.warm_up()
    assert torch.equal(ours.bilm.warm_state.output, found)
    state = ours.state_dict()
    state["bilm.warm_state.output"] = before
    ours.load_state_dict(state)  # of our own names: this state is kept
    assert torch.equal(ours.bilm.warm_state.output, before)


def test_missing_and_unknown_names(bilm_files: BiLMFiles) -> None:
    """The errors name AllenNLP's parameter, and nothing is said to be loaded."""
    state = stock_elmo(bilm_files, num_output_representations=1).state_dict()
    name = "_elmo_lstm._elmo_lstm.backward_layer_1.state_linearity.bias"
    with pytest.raises(RuntimeError, match=r"Unexpected key.*_elmo_lstm\._elmo_lstm\.more"):
        more = {**state, "_elmo_lstm._elmo_lstm.more": state[name]}
        Elmo.from_options(OPTIONS).load_state_dict(more)
    ours = Elmo.from_options(OPTIONS)
    del state[name]
    with pytest.raises(InputError, match=f"^{name}: expected float32 .*, found no tensor"):
        ours.load_state_dict(state)
    with pytest.raises(RuntimeError, match="weights were never loaded"):
        ours.embed(["dog"])


def test_cached_words(bilm_files: BiLMFiles) -> None:
    """AllenNLP's table of words follows from the characters, unless it was trained apart."""
    words = ["@@PADDING@@", "the", "dog"]
    stock = StockEmbedder(*bilm_files, dropout=0.0, vocab_to_cache=words).eval()
    ours = ElmoEmbedder(*bilm_files, dropout=0.0, vocab_to_cache=words, initial_state="carry")
    ours.eval().load_state_dict(stock.state_dict())
    characters, numbers = batch_to_ids([["the", "dog"]]), torch.tensor([[1, 2]])
    expected = stock(characters, numbers)
    assert_close(ours(characters, numbers), expected, what="vectors", atol=1e-5)
    trained = ElmoEmbedder(*bilm_files, requires_grad=True)
    with pytest.raises(InputError, match=r"^_elmo\._elmo_lstm\._word_embedding\.weight: expected"):
        trained.load_state_dict(stock.state_dict())


@pytest.mark.parametrize("projection_dim", [None, 6])
def test_a_trained_tagger(bilm_files: BiLMFiles, tmp_path: Path, projection_dim: int) -> None:
    """A tagger is trained with AllenNLP's `elmo_token_embedder`. Its archive is loaded after only
    the types are changed, with the state that AllenNLP carries from batch to batch. The expected
    predictions are those of AllenNLP's modules."""
    params = config("").as_dict()
    params["dataset_reader"]["token_indexers"]["elmo"]["type"] = "elmo_characters"
    stock = {**bilm_files._asdict(), "type": "elmo_token_embedder", "requires_grad": True}
    stock |= {"projection_dim": projection_dim, "dropout": 0.0}
    params["model"]["text_field_embedder"]["token_embedders"]["elmo"] = stock
    params["model"]["encoder"]["input_dim"] = projection_dim or 16
    params["trainer"]["optimizer"]["lr"] = 0.01
    text = params["train_data_path"]
    train_model(Params(params), str(tmp_path / "run"))
    archive = tmp_path / "run" / "model.tar.gz"
    embedder = "model.text_field_embedder.token_embedders.elmo"
    types = {
        "dataset_reader.token_indexers.elmo.type": "elmo",
        f"{embedder}.type": "elmo",
        f"{embedder}.initial_state": "carry",
    }
    predictions = []
    for overrides in ({}, types):
        loaded = load_archive(archive, overrides=overrides)
        instances = list(loaded.validation_dataset_reader.read(text))
        predictions.append(loaded.model.forward_on_instances(instances))
    assert type(loaded.model.text_field_embedder.token_embedder_elmo) is ElmoEmbedder
    assert len(predictions[0]) == 12
    for expected, found in zip(*predictions, strict=True):
        assert found["tags"] == expected["tags"]
        probabilities = (x["class_probabilities"] for x in (found, expected))
        assert_close(*probabilities, what="probabilities", atol=1e-5)
    with pytest.raises(InputError, match='AllenNLP loads it with the type "elmo" for that'):
        Elmo.from_archive(archive)
    # The biLM that AllenNLP tuned can now leave.
    loaded.model.text_field_embedder.token_embedder_elmo._elmo.save(tmp_path / "bilm")
    allennlp("bilm-export", tmp_path / "bilm", tmp_path / "bilm-tf")
