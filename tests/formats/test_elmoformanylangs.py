"""
Folders of ELMoForManyLangs. The oracle is its equations in NumPy and float64, one word and one
time step at a time, which share no code with the package; and, where the data are, the vectors that
the program itself computed.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.text.characters import words_to_characters
from tests.conftest import write_file
from tests.oracle import sigmoid, stream, zero_state

MARKS = ["<oov>", "<pad>", "<bow>", "<eow>", "<bos>", "<eos>"]
CONFIG: dict[str, Any] = {
    "encoder": {
        "name": "elmo",
        "dim": 9,
        "projection_dim": 6,
        "n_layers": 3,
        "cell_clip": 0.4,
        "proj_clip": 0.3,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 3], [2, 2], [4, 4]],
        "n_highway": 2,
        "word_dim": 5,
        "char_dim": 4,
        "max_characters_per_token": 8,
    },
}
SENTENCES = [
    ["the", "dog", "."],
    ["日本", "🙂", "dogdog", "dogdogs", "unknown"],
    ["<bos>", "<S>", "<eos>", "naïve"],
    ["the"],
]
CHARACTERS = [*MARKS, *"thedog.日本🙂n", "\u3000"]
WORDS = ["<oov>", "<pad>", "<bos>", "<eos>", "the", "dogdog", "日本", "dog", "\u3000"]


def write_model(folder: Path, seed: int = 0, **changes: Any) -> Path:
    """Write a model with random weights; `changes` are of the block `token_embedder`."""
    folder.mkdir()
    config = {**CONFIG, "token_embedder": {**CONFIG["token_embedder"], **changes}}
    (folder / "sizes.json").write_text(json.dumps(config))
    (folder / "config.json").write_text(json.dumps({"config_path": "/trained/there/sizes.json"}))
    for name, entries in (("char.dic", CHARACTERS), ("word.dic", WORDS)):
        numbered = list(enumerate(entries))
        Random(seed).shuffle(numbered)
        text = "".join(f"{entry}\t{number}\n" for number, entry in numbered)
        (folder / name).write_text(text, ("utf-8", "utf-8-sig")[seed % 2], newline="\n")
    cnn, lstm = config["token_embedder"], config["encoder"]
    n_filters, p, d = sum(n for _, n in cnn["filters"]), lstm["projection_dim"], lstm["dim"]
    shapes: dict[str, tuple[int, ...]] = {
        "char_emb_layer.embedding.weight": (len(CHARACTERS), cnn["char_dim"]),
        "projection.weight": (p, n_filters + cnn["word_dim"]),
        "projection.bias": (p,),
    }
    if cnn["word_dim"]:
        shapes["word_emb_layer.embedding.weight"] = (len(WORDS), cnn["word_dim"])
    for k, (width, n) in enumerate(cnn["filters"]):
        shapes[f"convolutions.{k}.weight"] = (n, cnn["char_dim"], width)
        shapes[f"convolutions.{k}.bias"] = (n,)
    for k in range(cnn["n_highway"]):
        shapes[f"highways._layers.{k}.weight"] = (2 * n_filters, n_filters)
        shapes[f"highways._layers.{k}.bias"] = (2 * n_filters,)
    of_lstm: dict[str, tuple[int, ...]] = {}
    for name in (f"{x}_layer_{k}" for x in ("forward", "backward") for k in range(3)):
        of_lstm[f"{name}.input_linearity.weight"] = (4 * d, p)
        of_lstm[f"{name}.state_linearity.weight"] = (4 * d, p)
        of_lstm[f"{name}.state_linearity.bias"] = (4 * d,)
        of_lstm[f"{name}.state_projection.weight"] = (p, d)
    torch.manual_seed(seed)
    for file, of_file in (("token_embedder.pkl", shapes), ("encoder.pkl", of_lstm)):
        # Published files were written by a PyTorch before 1.6, which did not write zip files.
        weights = {name: 0.6 * torch.randn(shape) for name, shape in of_file.items()}
        torch.save(weights, folder / file, _use_new_zipfile_serialization=bool(seed % 2))
    return folder


def oracle(folder: Path, tokens: Sequence[str]) -> np.ndarray:
    """The vectors of a sentence from a state of zeros, shape `(L + 1, n, 2P)`. The LSTMs are those
    of the tests' other oracle, with the gates in TensorFlow's order."""
    config = json.loads((folder / "sizes.json").read_text())
    weights = {
        name: tensor.double().numpy()
        for file in ("token_embedder.pkl", "encoder.pkl")
        for name, tensor in torch.load(folder / file, weights_only=True).items()
    }
    options = {"lstm": {**config["encoder"], "use_skip_connections": True}}
    arrays, state = {}, zero_state(options)
    for k, d in state:
        name = f"{('forward', 'backward')[d]}_layer_{k}"
        w_x, w_h = (weights[f"{name}.{part}_linearity.weight"] for part in ("input", "state"))
        b = weights[f"{name}.state_linearity.bias"]
        i, f, g, o = np.split(np.column_stack([w_x, w_h, b]), 4)
        f[:, -1] -= 1  # which TensorFlow adds
        *kernel, bias = np.concatenate([i, g, f, o]).T
        cell = f"RNN_{d}/RNN/MultiRNNCell/Cell{k}/LSTMCell"
        arrays |= {f"{cell}/W_0": np.array(kernel), f"{cell}/B": bias}
        arrays[f"{cell}/W_P_0"] = weights[f"{name}.state_projection.weight"].T
    words = ("<bos>", *tokens, "<eos>")
    x = np.array([_word_vector(weights, config["token_embedder"], word) for word in words])
    forward, _ = stream(arrays, options, 0, x, state)
    backward, _ = stream(arrays, options, 1, x[::-1], state)
    layers = [(x, x), *((f, b[::-1]) for f, b in zip(forward, backward))]
    return np.array([np.concatenate(layer, axis=1) for layer in layers])[:, 1:-1]


def _word_vector(weights: dict[str, np.ndarray], cnn: dict[str, Any], token: str) -> np.ndarray:
    number = {entry: k for k, entry in enumerate(CHARACTERS)}
    token = token[: cnn["max_characters_per_token"] - 2]
    inside = [number.get(character, number["<oov>"]) for character in token]
    if token in ("<bos>", "<eos>"):
        inside = [number[token]]
    ids = [number["<eow>"], *inside, number["<bow>"]]
    ids += [number["<pad>"]] * (cnn["max_characters_per_token"] - len(ids))
    embedded = weights["char_emb_layer.embedding.weight"][ids]
    found = []
    for k, (width, _) in enumerate(cnn["filters"]):
        kernel, bias = weights[f"convolutions.{k}.weight"], weights[f"convolutions.{k}.bias"]
        windows = [embedded[t : t + width] for t in range(len(ids) - width + 1)]
        maxima = np.max([np.einsum("wc,ncw->n", window, kernel) + bias for window in windows], 0)
        found.append(np.tanh(maxima) if cnn["activation"] == "tanh" else np.maximum(maxima, 0))
    h = np.concatenate(found)
    for k in range(cnn["n_highway"]):
        z = weights[f"highways._layers.{k}.weight"] @ h + weights[f"highways._layers.{k}.bias"]
        gate = sigmoid(z[len(h) :])
        h = gate * h + (1 - gate) * np.maximum(z[: len(h)], 0)
    if cnn["word_dim"]:
        word = WORDS.index(token) if token in WORDS else WORDS.index("<oov>")
        h = np.concatenate([weights["word_emb_layer.embedding.weight"][word], h])
    return weights["projection.weight"] @ h + weights["projection.bias"]


@pytest.mark.parametrize(
    "changes",
    [{}, {"word_dim": 0}, {"activation": "tanh", "n_highway": 0}, {"max_characters_per_token": 7}],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_vectors(tmp_path, seed, changes):
    """The expected values are the oracle's, alone and in a batch."""
    folder = write_model(tmp_path / "model", seed, **changes)
    elmo = Elmo.from_archive(folder, initial_state="zero")
    for tokens, found in zip(SENTENCES, elmo.embed(SENTENCES, layer="all")):
        expected = oracle(folder, tokens)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(elmo.embed(tokens, layer="all"), expected, atol=1e-5)


def test_vectors_of_the_program(shared_data):
    """The expected values were computed by ELMoForManyLangs."""
    folder = shared_data / "formats" / "elmoformanylangs"
    reference = np.load(folder / "chars_only.npz")
    elmo = Elmo.from_archive(folder / "chars_only", initial_state="zero")
    for k, tokens in enumerate(json.loads((folder / "sentences.json").read_text())):
        found = elmo.embed(tokens, layer="all")
        np.testing.assert_allclose(found, reference[f"reset_{k}"], atol=1e-5)


PUBLISHED = '{"config_path": "/x/configs/cnn_50_100_512_4096_sample.json"}'
SHORT = {**CONFIG["token_embedder"], "max_characters_per_token": 6}  # two marks and, say, <bos>
NO_SIZES = {**CONFIG, "encoder": {"name": "elmo", "n_layers": 3}}


@pytest.mark.parametrize(
    "file, content, message",
    [
        ("config.json", "{}", "config_path: expected a path, found null"),
        ("config.json", '{"config_path": "x"}', "config_path: .* at x"),
        ("config.json", "[", "config.json: expected a config in JSON"),
        ("config.json", PUBLISHED, r"float32 of shape \(16384, 512\)"),  # the sizes of those models
        ("sizes.json", '{"encoder": {"name": "lstm"}}', "name: expected \"elmo\", found 'lstm'"),
        ("sizes.json", json.dumps(NO_SIZES), r"lstm\.dim: expected .*, found null"),
        ("sizes.json", json.dumps({**CONFIG, "token_embedder": SHORT}), "from 7 to .*, found 6"),
        ("char.dic", "a\n", "line 1: .* a number below 18"),
        ("char.dic", "a\t1\nb\t18\n", r"line 2: .* found 'b\\t18'"),
        ("char.dic", "a\t00000000000018\n", "line 1"),
        ("char.dic", "a\t1\n", "expected an entry <eow>"),
        ("char.dic", "a\t1\nb\t1\n", "number of its own for each entry"),
        ("char.dic", None, "char.dic: expected a lexicon, found no such file"),
        ("word.dic", b"\xff", "word.dic: expected UTF-8"),
        ("word.dic", "a\t1\n", "expected an entry <oov>"),
        ("encoder.pkl", None, "encoder.pkl: expected a file of weights"),
        ("encoder.pkl", b"x", "encoder.pkl: expected a whole file of torch.save"),
    ],
)
def test_wrong_files(tmp_path, file, content, message):
    """By hand: the message names the file and what is wrong with it."""
    path = write_model(tmp_path / "model") / file
    if content is None:
        path.unlink()
    else:
        write_file(path, content)
    with pytest.raises(InputError, match=message):
        find_bilm(tmp_path / "model")


def test_words_and_characters_that_are_none_of_the_lexicon(tmp_path):
    """By definition: U+0000 is an unknown character, as a letter that is not in the lexicon. A word
    without bytes, as that of a lone surrogate, is unknown; no word has the row whose word their
    program strips from its line. A token that `tokens_to_add` of an indexer adds is an error."""
    folder = write_model(tmp_path / "model", word_dim=0)
    elmo = Elmo.from_archive(folder)
    for token, other in (("d\0", "dX"), ("\a", "X")):
        np.testing.assert_array_equal(elmo.embed([token]), elmo.embed([other]))
    with pytest.raises(InputError, match="found the single character 7; remove tokens_to_add"):
        elmo(elmo.characters([["the", "\a"]]))
    folder = write_model(tmp_path / "words")
    lines = (folder / "word.dic").read_text("utf-8").splitlines(keepends=True)
    dropped = next(line for line in lines if not line.startswith("<"))
    (folder / "word.dic").write_text("".join(x for x in lines if x != dropped), "utf-8")
    table = find_bilm(folder).bilm.token_encoder.table
    numbers = table.words(torch.from_numpy(words_to_characters(["\ud800", "", "zz"])).long())
    assert set(numbers.tolist()) == {table.words.words().index("<oov>")}


@pytest.mark.parametrize("seed", [0, 1])
def test_weights_that_share_numbers(tmp_path, seed):
    """A small file of many large weights could fill the memory."""
    folder = write_model(tmp_path / "model", seed)
    weights = torch.load(folder / "encoder.pkl", weights_only=True)
    name = "layer_0.input_linearity.weight"
    weights[f"backward_{name}"] = weights[f"forward_{name}"]
    torch.save(weights, folder / "encoder.pkl", _use_new_zipfile_serialization=bool(seed))
    with pytest.raises(InputError, match=r"expected weights of .* each stored by itself"):
        find_bilm(folder)
