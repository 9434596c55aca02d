"""These tests compare bilm-tf's format with the original's own numbers, with AllenNLP's reader and
with the NumPy oracle."""

import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import DiskFullError
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.bilm_tf.texts import options_from_dict, read_options
from elmo_plugin.formats.bilm_tf.weights import read_weights
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.formats.format import FoundBiLM
from elmo_plugin.modules import BiLM, SampledSoftmax
from tests.conftest import file_size_limit, write_file
from tests.formats.same import BLOCKS, assert_same_model, options_with
from tests.random_bilm import read_sentences

SENTENCES = [["The", "dog", "ran", "."], ["naïve", "🙂"], ["x" * 100]]


@pytest.fixture
def files(tmp_path):
    """Return the two files of a small random biLM, and the biLM."""
    torch.manual_seed(1)
    bilm = BiLM(options_with())
    write_model_files(tmp_path, bilm)
    return tmp_path / "options.json", tmp_path / "weights.hdf5", bilm


@pytest.fixture
def golden(shared_data):
    """Return the folder with the original's model and the original's results."""
    return shared_data / "elmo"


def golden_batches(folder: Path) -> list[list[list[str]]]:
    rows = json.loads((folder / "sentences.json").read_text())
    return [[row[k].split() for row in rows] for k in range(len(rows[0]))]


def test_activations_are_those_of_the_original(golden):
    """The expected values of the last layer are bilm-tf's results in TensorFlow, and those of all
    layers are from AllenNLP's `_ElmoBiLm` on the same files, with a state carried over ten
    batches."""
    files = str(golden / "options.json"), str(golden / "lm_weights.hdf5")
    stock = StockElmo(*files, 1)._elmo_lstm.eval()
    bilm = find_bilm(*files).bilm
    state = bilm.bilstm.zero_state(3)
    for k, batch in enumerate(golden_batches(golden)):
        ids = batch_to_ids(batch)
        with torch.no_grad():
            read = read_sentences(bilm, ids, state)
            of_stock = stock(ids)["activations"]
        state = state.put(read.state)
        for found, layer in zip(read.layers, of_stock):
            torch.testing.assert_close(found, layer, atol=1e-5, rtol=0)
        for row, tokens in enumerate(batch):
            with h5py.File(golden / f"lm_embeddings_{row}.hdf5") as file:
                expected = np.concatenate(list(file[str(k)][()]), axis=-1)  # both directions
            found = read.layers[-1][row, 1 : len(tokens) + 1].numpy()
            np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


def test_token_vectors_are_those_of_the_original(golden):
    """The expected values are bilm-tf's own dump of the token vectors of its vocabulary."""
    bilm = find_bilm(golden / "options.json", golden / "lm_weights.hdf5").bilm
    words = (golden / "vocab_test.txt").read_text().split()
    with h5py.File(golden / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][()]
    with torch.no_grad():
        found = bilm.token_encoder(batch_to_ids([words])[0]).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)


def test_gradients_are_those_of_allennlp(golden):
    """The expected values are AllenNLP's gradients of every parameter with `requires_grad`. They
    are loaded as its weights are, of which only the bias of a forget gate is changed by a number.
    The tolerance is relative to the largest number of each gradient, because gradients are sums
    over a batch."""
    files = str(golden / "options.json"), str(golden / "lm_weights.hdf5")
    stock = StockElmo(*files, 1, requires_grad=True)
    bilm = find_bilm(*files).bilm
    ids = batch_to_ids(golden_batches(golden)[0])
    read = read_sentences(bilm, ids, bilm.bilstm.zero_state(3))
    for layers in (stock._elmo_lstm(ids)["activations"], read.layers):
        sum(
            (layer * torch.sin(torch.arange(layer.numel())).view_as(layer)).sum()
            for layer in layers
        ).backward()
    gradients = {k: x.grad for k, x in stock.named_parameters() if x.grad is not None}
    loaded = Elmo.from_options(bilm.options)
    loaded.load_state_dict(gradients, strict=False)
    for layer in loaded.bilm.bilstm.layers:
        layer.bias.data.unflatten(1, (4, -1))[:, 2] += 1
    for name, parameter in bilm.named_parameters():
        expected = loaded.bilm.get_parameter(name)
        largest = expected.abs().max()
        assert largest > 0, name
        difference = (parameter.grad - expected).abs().max() / largest
        assert difference <= 1e-4, name


def test_allennlp_reads_what_we_write(files):
    """The expected values are the vectors of every layer from AllenNLP's stock `Elmo`, which reads
    our files."""
    options_file, weight_file, bilm = files
    stock = StockElmo(str(options_file), str(weight_file), 1)._elmo_lstm.eval()
    ids = batch_to_ids(SENTENCES)
    with torch.no_grad():
        expected = stock(ids)["activations"]
        found = read_sentences(bilm, ids, bilm.bilstm.zero_state(3)).layers
    for ours, theirs in zip(found, expected):
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"n_layers": 1},
        {"n_layers": 3, "use_skip_connections": False},
        {"activation": "tanh", "n_highway": 0},
        {"n_highway": 2, "cell_clip": None, "proj_clip": None},
        {"projection_dim": 6},  # P = D: no projection in the LSTM
        {"projection_dim": 5},  # F = P: none in the CNN
    ],
    ids=str,
)
def test_export_then_import_changes_no_bit(tmp_path, changes):
    """The weights, the options and the warm state of each architecture are the same after they were
    written and read; also without the level of the names that bilm-tf's files of one-layer models
    lack. The softmax is read if it is asked for."""
    torch.manual_seed(0)
    options = options_with(**changes)
    bilm = BiLM(options)
    bilm.warm_state.memory.normal_()
    bilm.warm_state.output.normal_()
    dim = options.lstm.projection_dim
    softmax = SampledSoftmax(n_words=7, dim=dim, n_negative_samples=None)
    words = ["<S>", "</S>", "<UNK>", *"abcd"]
    write_model_files(tmp_path, bilm, softmax=softmax, words=words)
    expected = FoundBiLM(bilm, softmax, words)
    assert_same_model(find_bilm(tmp_path, with_softmax=True), expected)
    assert find_bilm(tmp_path).softmax is None
    if options.lstm.n_layers == 1:
        with h5py.File(tmp_path / "weights.hdf5", "a") as file:
            for d in (0, 1):
                file.move(f"RNN_{d}/RNN/MultiRNNCell/Cell0/LSTMCell", f"RNN_{d}/RNN/LSTMCell")
                del file[f"RNN_{d}/RNN/MultiRNNCell"]
        assert_same_model(find_bilm(tmp_path, with_softmax=True), expected)


@pytest.mark.parametrize(
    "block, key, value, message",
    [
        ("lstm", "cell_clip", 8.0, "for lstm.cell_clip 8.0, .* for lstm.cell_clip 3.0"),
        ("lstm", "use_skip_connections", False, "use_skip_connections False, .* True"),
        ("char_cnn", "activation", "tanh", "char_cnn.activation tanh, .* relu"),
        ("char_cnn", "max_characters_per_token", 60, "max_characters_per_token 60, .* 50"),
    ],
)
def test_weights_belong_to_their_options(files, block, key, value, message):
    """The arrays have the same shapes, but the results would be those of another model. The error
    names both values. Files of other programs do not contain their options and are read."""
    options_file, path, _ = files
    options = json.loads(options_file.read_text())
    options[block][key] = value
    options_file.write_text(json.dumps(options))
    with pytest.raises(InputError, match=rf"weights\.hdf5: expected weights .*{message}"):
        find_bilm(options_file, path)
    with h5py.File(path, "a") as file:
        del file.attrs["options.json"]
    find_bilm(options_file, path)


def test_words_without_a_softmax(files):
    """By definition: they are refused if they were named, and otherwise not needed."""
    options_file, path, _ = files
    vocabulary = path.parent / "vocabulary.txt"
    vocabulary.write_text("\n".join(["<S>", "</S>", "<UNK>", "a", "b"]))
    assert find_bilm(path.parent, with_softmax=True).softmax is None
    with pytest.raises(InputError, match=f"^{path}: expected a softmax, .*{vocabulary}"):
        find_bilm(options_file, path, vocabulary, with_softmax=True)


def test_training_options_are_read_as_those_for_inference(tmp_path):
    """The options file has keys that bilm-tf writes for training, with 261 characters."""
    training = {"bidirectional": True, "dropout": 0.1, "n_epochs": 10, "n_tokens_vocab": 793471}
    training |= {**BLOCKS, "char_cnn": {**BLOCKS["char_cnn"], "n_characters": 261}}
    path = write_file(tmp_path / "options.json", json.dumps(training))
    assert read_options(path) == options_with()
    assert read_options(path).to_dict()["char_cnn"]["n_characters"] == 262


@pytest.mark.parametrize(
    "text, found",
    [
        ("{", "Expecting"),
        ("[1]", r"\[1\]"),
        ("[" * 100_000, "recursion"),
        ('{"lstm": {"dim": 1' + "0" * 5000 + "}}", "limit"),
        ('{"lstm": {"cell_clip": Infinity}}', "Infinity"),
        ('{"lstm": {"dim": 7, "cell_clip": 3, "dim": 8}}', "'dim' twice"),
        (json.dumps(BLOCKS).replace('"cell_clip": 3.0', '"cell_clip": 1e400'), "inf"),
        (b"\xff{}", "decode"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
    ],
    ids=lambda value: str(value)[:9],
)
def test_options_that_are_not_json(tmp_path, text, found):
    """The message names the file and the fault: 1e400 is infinity for Python. `test_options.py` has
    the messages for wrong values."""
    path = write_file(tmp_path / "options.json", text)
    with pytest.raises(InputError, match=f"^{path}: .*expected .* found .*{found}"):
        read_options(path)


@pytest.mark.parametrize("value", [False, None, 1])
def test_a_model_of_one_direction(value):
    """bilm-tf's `bidirectional: false` means a model without backward weights, which is refused."""
    with pytest.raises(InputError, match="test: bidirectional: expected true, found"):
        options_from_dict({**BLOCKS, "bidirectional": value}, source="test")


def test_a_row_for_padding(files):
    """By hand: the message explains the shape that readers of the file give the array."""
    _, path, bilm = files
    with h5py.File(path, "a") as file:
        del file["char_embed"]
        file["char_embed"] = np.zeros((262, 4))
    with pytest.raises(InputError, match=r"char_embed: .*\(261, 4\).*\(262, 4\).*row for padding"):
        read_weights(bilm.options, path, with_softmax=False)


def test_a_full_disk(files, capfd):
    """A file size limit simulates the full disk, at the first byte of the options, inside the
    weights and at their last byte. The error is one sentence with the file's name, the old file
    stays as it was, and no other file is left."""
    _, path, bilm = files
    before, names = path.read_bytes(), sorted(path.parent.iterdir())

    limits = {0: "options.json", len(before) // 2: path.name, len(before) - 1: path.name}
    for limit, name in limits.items():
        message = rf"{name}: could not .* may be full \(File"
        with file_size_limit(limit), pytest.raises(DiskFullError, match=message):
            write_model_files(path.parent, bilm)
    assert capfd.readouterr().err == ""
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == names


@pytest.mark.parametrize(
    ("part", "key", "value"),
    [
        (lambda bilm: bilm.bilstm.layers[1], "cell_clip", 9.0),
        (lambda bilm: bilm.bilstm.layers[0], "proj_clip", None),
        (lambda bilm: bilm.bilstm, "use_skip_connections", False),
        (lambda bilm: bilm.token_encoder, "activation", "tanh"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_settings_that_were_changed_are_not_written_as_others(tmp_path, part, key, value):
    """The file says which options it is for, and they are those that the biLM was built from."""
    bilm = BiLM(options_with())
    setattr(part(bilm), key, value)
    with pytest.raises(InputError, match=rf"{key}: expected .*, as the biLM was built, found .*"):
        write_model_files(tmp_path, bilm)
    assert not list(tmp_path.iterdir())
