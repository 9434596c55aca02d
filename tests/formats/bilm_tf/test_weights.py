"""These tests compare bilm-tf's format with the original's own numbers, with AllenNLP's reader and
with the NumPy oracle."""

import json
import resource
import tarfile
from multiprocessing import get_context
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin.checks import InputError
from elmo_plugin.files import hdf5
from elmo_plugin.files.atomic_write import DiskFullError
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.bilm_tf.texts import options_from_dict, read_options, write_options
from elmo_plugin.formats.bilm_tf.weights import read_weights, write_weights
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.options import BiLMOptions
from tests import conftest
from tests.damage import damage
from tests.random_bilm import read_sentences

GOLDEN = conftest.SHARED_DATA / "golden.tar.xz"
BLOCKS = {
    "lstm": {**conftest.BLOCKS["lstm"], "dim": 12, "projection_dim": 6},
    "char_cnn": {**conftest.BLOCKS["char_cnn"], "filters": [[1, 4], [2, 5]]},
}
SENTENCES = [["The", "dog", "ran", "."], ["naïve", "🙂"], ["x" * 100]]


def options_with(**changes) -> BiLMOptions:
    """Return the options above with single keys of either block changed."""
    blocks = {
        name: {key: changes.get(key, value) for key, value in block.items()}
        for name, block in BLOCKS.items()
    }
    return options_from_dict(blocks, source="test")


@pytest.fixture
def files(tmp_path):
    """Return the two files of a small random biLM, and the biLM."""
    torch.manual_seed(1)
    options = options_with()
    bilm = BiLM(options)
    write_options(options, tmp_path / "options.json")
    write_weights(bilm, tmp_path / "weights.hdf5")
    return tmp_path / "options.json", tmp_path / "weights.hdf5", bilm


@pytest.fixture(scope="session")
def golden(tmp_path_factory):
    """Return the folder with the original's model and the original's results."""
    if not GOLDEN.exists():
        pytest.skip(f"needs {GOLDEN.name}, the activations of the original, which are not here")
    folder = tmp_path_factory.mktemp("golden")
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(folder)
    return folder / "elmo"


def golden_batches(folder: Path) -> list[list[list[str]]]:
    rows = json.loads((folder / "sentences.json").read_text())
    return [[row[k].split() for row in rows] for k in range(len(rows[0]))]


def test_activations_are_those_of_the_original(golden):
    """The expected values are bilm-tf's results in TensorFlow, with a state carried over ten
    batches."""
    bilm = find_bilm(golden / "options.json", golden / "lm_weights.hdf5").bilm
    state = bilm.bilstm.zero_state(3)
    for k, batch in enumerate(golden_batches(golden)):
        ids = batch_to_ids(batch)
        with torch.no_grad():
            read = read_sentences(bilm, ids, state)
        state = state.put(read.state)
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


def test_every_layer_is_that_of_allennlp(golden):
    """The expected values are those of AllenNLP's `_ElmoBiLm` on the same files, which carries its
    state too."""
    files = str(golden / "options.json"), str(golden / "lm_weights.hdf5")
    stock = StockElmo(*files, 1)._elmo_lstm.eval()
    bilm = find_bilm(*files).bilm
    state = bilm.bilstm.zero_state(3)
    for batch in golden_batches(golden):
        ids = batch_to_ids(batch)
        with torch.no_grad():
            read = read_sentences(bilm, ids, state)
            expected = stock(ids)["activations"]
        state = state.put(read.state)
        for found, layer in zip(read.layers, expected):
            torch.testing.assert_close(found, layer, atol=1e-5, rtol=0)


def test_gradients_are_those_of_allennlp(golden):
    """The expected values are AllenNLP's gradients of every parameter with `requires_grad`. The
    tolerance is relative to the largest number of each gradient, because gradients are sums over a
    batch."""
    files = str(golden / "options.json"), str(golden / "lm_weights.hdf5")
    stock = StockElmo(*files, 1, requires_grad=True)._elmo_lstm
    bilm = find_bilm(*files).bilm
    ids = batch_to_ids(golden_batches(golden)[0])
    read = read_sentences(bilm, ids, bilm.bilstm.zero_state(3))
    for layers in (stock(ids)["activations"], read.layers):
        sum(
            (layer * torch.sin(torch.arange(layer.numel())).view_as(layer)).sum()
            for layer in layers
        ).backward()
    expected = stock_gradients(stock)
    assert expected.keys() == dict(bilm.named_parameters()).keys()
    for name, parameter in bilm.named_parameters():
        largest = expected[name].abs().max()
        assert largest > 0, name
        difference = (parameter.grad - expected[name]).abs().max() / largest
        assert difference <= 1e-4, name


def stock_gradients(stock) -> dict[str, torch.Tensor]:
    """Return the gradients of AllenNLP's `_ElmoBiLm` under our parameters' names and in our
    layouts."""
    encoder = stock._token_embedder
    gradients = {
        "char_embedding.weight": encoder._char_embedding_weights.grad,
        "projection.weight": encoder._projection.weight.grad,
        "projection.bias": encoder._projection.bias.grad,
    }
    for i, conv in enumerate(encoder._convolutions):
        gradients[f"convolutions.{i}.weight"] = conv.weight.grad
        gradients[f"convolutions.{i}.bias"] = conv.bias.grad
    for k, highway in enumerate(encoder._highways._layers):
        for part in ("weight", "bias"):
            # AllenNLP has both gates in one matrix. Its second gate keeps the part that ours
            # replaces, so that it has the opposite sign.
            transform, kept = getattr(highway, part).grad.chunk(2)
            gradients[f"highways.{k}.transform.{part}"] = transform
            gradients[f"highways.{k}.carry.{part}"] = -kept
    gradients = {f"token_encoder.{name}": gradient for name, gradient in gradients.items()}
    lstms = stock._elmo_lstm
    for k, directions in enumerate(zip(lstms.forward_layers, lstms.backward_layers)):
        for name, of in (
            ("input_weight", lambda cell: _gates_as_ours(cell.input_linearity.weight.grad).T),
            ("recurrent_weight", lambda cell: _gates_as_ours(cell.state_linearity.weight.grad).T),
            ("bias", lambda cell: _gates_as_ours(cell.state_linearity.bias.grad)),
            ("projection_weight", lambda cell: cell.state_projection.weight.grad.T),
        ):
            gradients[f"bilstm.layers.{k}.{name}"] = torch.stack([of(cell) for cell in directions])
    return gradients


def _gates_as_ours(gradient: torch.Tensor) -> torch.Tensor:
    """Reorder gates: AllenNLP's rows are i, f, j, o, and TensorFlow's and ours are i, j, f, o."""
    i, f, j, o = gradient.chunk(4)
    return torch.cat([i, j, f, o])


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
        {"projection_dim": 12},  # P = D: no projection in the LSTM
        {"projection_dim": 9},  # F = P: none in the CNN
    ],
    ids=str,
)
def test_export_then_import_changes_no_bit(tmp_path, changes):
    """The weights and the options of each architecture are the same after they were written and
    read."""
    torch.manual_seed(0)
    options = options_with(**changes)
    bilm = BiLM(options)
    dim = options.lstm.projection_dim
    softmax = SampledSoftmax(n_words=7, dim=dim, n_negative_samples=None)
    write_options(options, tmp_path / "options.json")
    write_weights(bilm, tmp_path / "weights.hdf5", softmax)
    words = ["<S>", "</S>", "<UNK>", *"abcd"]
    (tmp_path / "vocabulary.txt").write_text("\n".join(words))
    again = find_bilm(tmp_path, with_softmax=True)
    assert again.options == options
    assert again.words == words
    for before, after in ((bilm, again.bilm), (softmax, again.softmax)):
        for name, tensor in before.named_parameters():
            assert torch.equal(tensor, after.get_parameter(name)), name


def test_the_layout_is_that_of_bilm_tf(files):
    """The expected names and shapes are those of bilm-tf's own dump of a model of these sizes."""
    shapes = {}
    with h5py.File(files[1]) as file:
        file.visititems(
            lambda name, item: shapes.update({name: item.shape} if hasattr(item, "shape") else {})
        )
    cells = {
        f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell/{name}": shape
        for d in (0, 1)
        for k in (0, 1)
        for name, shape in (("W_0", (12, 48)), ("B", (48,)), ("W_P_0", (12, 6)))
    }
    assert shapes == {
        "char_embed": (261, 4),
        "CNN/W_cnn_0": (1, 1, 4, 4),
        "CNN/b_cnn_0": (4,),
        "CNN/W_cnn_1": (1, 2, 4, 5),
        "CNN/b_cnn_1": (5,),
        "CNN_high_0/W_carry": (9, 9),
        "CNN_high_0/b_carry": (9,),
        "CNN_high_0/W_transform": (9, 9),
        "CNN_high_0/b_transform": (9,),
        "CNN_proj/W_proj": (9, 6),
        "CNN_proj/b_proj": (6,),
        **cells,
        "warm_state/memory": (2, 2, 1, 12),
        "warm_state/output": (2, 2, 1, 6),
    }


def test_one_layer_dumps_lack_a_level(tmp_path):
    """bilm-tf writes the cell of a one-layer model without `MultiRNNCell/Cell0`. The weights that
    are read from such a file are the same."""
    options = options_with(n_layers=1)
    bilm = BiLM(options)
    path = tmp_path / "weights.hdf5"
    write_weights(bilm, path)
    with h5py.File(path, "a") as file:
        for d in (0, 1):
            file.move(f"RNN_{d}/RNN/MultiRNNCell/Cell0/LSTMCell", f"RNN_{d}/RNN/LSTMCell")
            del file[f"RNN_{d}/RNN/MultiRNNCell"]
    again = read_weights(options, path).bilm
    for name, tensor in bilm.named_parameters():
        assert torch.equal(tensor, again.get_parameter(name)), name


def test_an_array_is_found_once(files, monkeypatch):
    """By definition."""
    _, path, bilm = files
    found = []
    find = hdf5.find_array
    monkeypatch.setattr(hdf5, "find_array", lambda *x: (found.append(x[1]), find(*x))[1])
    read_weights(bilm.options, path)
    assert len(found) == len(set(found)) > 9


def test_the_warm_state_is_written_and_read(files):
    """The warm state that is read equals the one that was written."""
    options_file, path, bilm = files
    bilm.warm_state.memory.normal_()
    bilm.warm_state.output.normal_()
    write_weights(bilm, path)
    again = find_bilm(options_file, path).bilm
    assert torch.equal(again.warm_state.memory, bilm.warm_state.memory)
    assert torch.equal(again.warm_state.output, bilm.warm_state.output)


@pytest.mark.parametrize(
    "block, key, value, message",
    [
        ("lstm", "dim", 10**9, r"Cell0/LSTMCell/W_0: expected the shape \(12, 4000000000\)"),
        ("lstm", "n_layers", 1000, "expected the weights of 1004 layers, .* found at most"),
        ("lstm", "n_layers", 3, "Cell2/LSTMCell/W_0: expected an array, found none"),
        ("char_cnn", "n_highway", 10**9, "expected the weights of 1000000005 layers, .* found at"),
        ("char_cnn", "filters", [[1, 10**9]], r"W_cnn_0: expected the shape .* 1000000000\)"),
        ("char_cnn", "embedding", {"dim": 10**9}, r"char_embed: .* \(261, 1000000000\)"),
    ],
)
def test_sizes_are_checked_before_memory_is_taken(files, monkeypatch, block, key, value, message):
    """The error names the first array that does not fit, and modules are built only without memory,
    on PyTorch's device "meta"."""
    options_file, path, _ = files
    with h5py.File(path, "a") as file:
        del file.attrs["options.json"]  # as in others' files
    options = json.loads(options_file.read_text())
    options[block][key] = value
    options_file.write_text(json.dumps(options))
    init = torch.nn.Module.__init__

    def only_meta(*args, **kwargs):
        assert torch.empty(0).device.type == "meta"
        init(*args, **kwargs)

    monkeypatch.setattr(torch.nn.Module, "__init__", only_meta)
    with pytest.raises(InputError, match=rf"weights\.hdf5: .*{message}"):
        find_bilm(options_file, path)


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


def test_damage_is_noticed(files, fuzz):
    """Any damage to either file gives one sentence that names the file, or bit-identical
    numbers."""
    *paths, _ = files
    whole = [path.read_bytes() for path in paths]
    expected = find_bilm(*paths).bilm.state_dict()
    for random in fuzz.cases(60):
        for path, data in zip(paths, whole):
            path.write_bytes(data)
        damaged = random.randrange(2)
        way, data = damage(whole[damaged], random)
        paths[damaged].write_bytes(data)
        try:
            found = find_bilm(*paths).bilm.state_dict()
        except InputError as error:
            assert ".json: " in str(error) or ".hdf5: " in str(error), way
            continue
        for name, tensor in expected.items():
            assert torch.equal(found[name], tensor), f"{paths[damaged].name}: {way}: {name}"


def test_the_softmax_is_read_if_it_is_asked_for(files):
    """A file is written first without the softmax and then with one of five words. Words without a
    softmax are refused if they were named, and otherwise not needed."""
    options_file, path, bilm = files
    vocabulary = path.parent / "vocabulary.txt"
    vocabulary.write_text("\n".join(["<S>", "</S>", "<UNK>", "a", "b"]))
    assert find_bilm(path.parent, with_softmax=True).softmax is None
    with pytest.raises(
        InputError, match=rf"^{path}: expected a softmax, of the words in {vocabulary}"
    ):
        find_bilm(options_file, path, vocabulary, with_softmax=True)
    softmax = SampledSoftmax(n_words=5, dim=6, n_negative_samples=None)
    write_weights(bilm, path, softmax)
    assert find_bilm(path.parent).softmax is None
    found = find_bilm(path.parent, with_softmax=True)
    assert torch.equal(found.softmax.weight, softmax.weight)


def test_training_options_are_read_as_those_for_inference(tmp_path):
    """The options file has all keys that bilm-tf writes for training, with 261 characters."""
    training = {
        "bidirectional": True,
        "dropout": 0.1,
        "all_clip_norm_val": 10.0,
        "n_epochs": 10,
        "n_train_tokens": 768648884,
        "batch_size": 128,
        "n_tokens_vocab": 793471,
        "unroll_steps": 20,
        "n_negative_samples_batch": 8192,
        **BLOCKS,
        "char_cnn": {**BLOCKS["char_cnn"], "n_characters": 261},
    }
    path = tmp_path / "options.json"
    path.write_text(json.dumps(training))
    assert read_options(path) == options_with()
    assert read_options(path).to_dict()["char_cnn"]["n_characters"] == 262


@pytest.mark.parametrize(
    "text, found",
    [
        ("{", "Expecting"),
        ("[" * 100_000, "maximum recursion depth"),
        ('{"lstm": {"dim": 1' + "0" * 5000 + "}}", "Exceeds the limit"),
        ('{"lstm": {"cell_clip": Infinity}}', "Infinity, which is not a number of JSON"),
        ('{"lstm": {"dim": 7, "cell_clip": 3, "dim": 8}}', "the key 'dim' twice"),
        (b"\xff{}", "codec can't decode"),
        (b"\x89HDF\r\n\x1a\n", "an HDF5 file, such as the weights"),
        (None, "a folder"),
    ],
    ids=["cut off", "deep", "long number", "infinity", "twice", "no text", "swapped", "folder"],
)
def test_options_that_are_not_json(tmp_path, text, found):
    """The message names the file and the fault."""
    path = tmp_path / "options.json"
    if text is None:
        path.mkdir()
    else:
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(
        InputError, match=rf"options\.json: expected an options file in JSON, found .*{found}"
    ):
        read_options(path)


def test_wrong_values_name_the_file_and_the_key(tmp_path):
    """Python reads 1e400 as infinity. In tests/test_options.py are the messages for other keys."""
    path = tmp_path / "options.json"
    path.write_text(json.dumps(BLOCKS).replace('"cell_clip": 3.0', '"cell_clip": 1e400'))
    message = r"options\.json: lstm.cell_clip: expected a finite number .*found inf"
    with pytest.raises(InputError, match=message):
        read_options(path)


@pytest.mark.parametrize("value", [False, None, 1])
def test_a_model_of_one_direction(value):
    """bilm-tf's `bidirectional: false` means a model without backward weights, which is refused."""
    with pytest.raises(InputError, match="test: bidirectional: expected true, found"):
        options_from_dict({**BLOCKS, "bidirectional": value}, source="test")


@pytest.mark.parametrize(
    "name, array, message",
    [
        ("CNN_proj/W_proj", None, "expected an array, found none"),
        ("CNN/b_cnn_0", np.full(4, np.nan, "f4"), "expected finite float32 numbers, found NaN"),
        ("char_embed", np.zeros((262, 4)), r".*\(261, 4\), .* found \(262, 4\); .*row for padding"),
        ("CNN/b_cnn_0", [0.0] * 3, r"expected the shape \(4,\), as the options say, found \(3,\)"),
    ],
)
def test_wrong_weights_name_the_file_and_the_key(files, name, array, message):
    """Each message names the file and the key, what was expected and what was found."""
    _, path, bilm = files
    with h5py.File(path, "a") as file:
        del file[name]
        if array is not None:
            file[name] = array
    with pytest.raises(InputError, match=rf"weights\.hdf5: {name}: {message}"):
        read_weights(bilm.options, path)


@pytest.mark.parametrize(
    "block, key, value, name",
    [
        ("lstm", "n_layers", 1, "RNN_0/RNN/MultiRNNCell/Cell1/LSTMCell/B"),
        ("char_cnn", "n_highway", 0, "CNN_high_0/W_carry"),
    ],
)
def test_weights_of_more_layers_are_refused(files, block, key, value, name):
    """The file has one layer more than the options, so the vectors would be those of another model.
    Files of other programs contain neither their options nor a warm state."""
    options_file, path, _ = files
    options = json.loads(options_file.read_text())
    options[block][key] = value
    options_file.write_text(json.dumps(options))
    with h5py.File(path, "a") as file:
        del file.attrs["options.json"], file["warm_state"]
    with pytest.raises(InputError, match=rf"weights\.hdf5: {name}: expected only arrays that the"):
        find_bilm(options_file, path)


def test_files_appear_whole_or_not_at_all(files, monkeypatch):
    """A writer that fails half-way leaves the old file as it was, and no other file."""
    _, path, bilm = files
    before, names = path.read_bytes(), sorted(path.parent.iterdir())
    bilm.token_encoder.projection = torch.nn.Identity()  # has no weight to write
    with pytest.raises(AttributeError):
        write_model_files(path.parent, bilm)
    assert path.read_bytes() == before
    assert sorted(path.parent.iterdir()) == names


def test_a_full_disk(files, capfd):
    """A file size limit simulates the full disk, at the first byte of the options, inside the
    weights and at their last byte. The error is one sentence with the file's name, the old file
    stays as it was, and no other file is left."""
    _, path, bilm = files
    before, names = path.read_bytes(), sorted(path.parent.iterdir())

    def write_with(limit: int, name: str) -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        with pytest.raises(DiskFullError, match=rf"{name}: could not .* may be full \(File"):
            write_model_files(path.parent, bilm)

    limits = {0: "options.json", len(before) // 2: path.name, len(before) - 1: path.name}
    for full in limits.items():
        child = get_context("fork").Process(target=write_with, args=full)
        child.start()
        child.join()
        assert child.exitcode == 0
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
