"""
Folders of ELMoForManyLangs. The oracle is its equations in NumPy and float64, one character and one
time step at a time, which share no code with the package; and, where the data are, the vectors that
the program itself computed.
"""

import json
import shutil
import tarfile
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
from tests import conftest
from tests.conftest import Fuzz
from tests.damage import damage
from tests.formats.tasks import load, model_of, train
from tests.oracle import clip, sigmoid

FORMATS = conftest.SHARED_DATA / "formats.tar.xz"
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
        (folder / name).write_text(text, "utf-8", newline="\n")
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
    for direction in ("forward", "backward"):
        for k in range(lstm["n_layers"]):
            name = f"{direction}_layer_{k}"
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
    """The vectors of a sentence from a state of zeros, shape `(L + 1, n, 2P)`."""
    config = json.loads((folder / "sizes.json").read_text())
    weights = {
        name: tensor.double().numpy()
        for file in ("token_embedder.pkl", "encoder.pkl")
        for name, tensor in torch.load(folder / file, weights_only=True).items()
    }
    cnn, lstm = config["token_embedder"], config["encoder"]
    x = np.array([_word_vector(weights, cnn, token) for token in ("<bos>", *tokens, "<eos>")])
    layers = [np.concatenate([x, x], axis=1)]
    inputs = {"forward": x, "backward": x[::-1]}
    for k in range(lstm["n_layers"]):
        for direction in inputs:
            y = _lstm(weights, lstm, f"{direction}_layer_{k}", inputs[direction])
            inputs[direction] = y + (inputs[direction] if k > 0 else 0)
        layers.append(np.concatenate([inputs["forward"], inputs["backward"][::-1]], axis=1))
    return np.array(layers)[:, 1:-1]


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


def _lstm(
    weights: dict[str, np.ndarray], lstm: dict[str, Any], name: str, inputs: np.ndarray
) -> np.ndarray:
    w_x, w_h, b, w_p = (
        weights[f"{name}.{part}"]
        for part in (
            "input_linearity.weight",
            "state_linearity.weight",
            "state_linearity.bias",
            "state_projection.weight",
        )
    )
    c, h, outputs = np.zeros(lstm["dim"]), np.zeros(lstm["projection_dim"]), []
    for x in inputs:
        i, f, g, o = np.split(w_x @ x + w_h @ h + b, 4)
        c = clip(sigmoid(i) * np.tanh(g) + sigmoid(f) * c, lstm["cell_clip"])
        h = clip(w_p @ (sigmoid(o) * np.tanh(c)), lstm["proj_clip"])
        outputs.append(h)
    return np.array(outputs)


def test_a_row_without_a_word(tmp_path: Path) -> None:
    """By definition: a word without bytes, as that of a lone surrogate, is unknown. No word has the
    row whose word their program strips from its line."""
    folder = write_model(tmp_path / "model", 0)
    lines = (folder / "word.dic").read_text("utf-8").splitlines(keepends=True)
    dropped = next(line for line in lines if not line.startswith("<"))
    (folder / "word.dic").write_text("".join(x for x in lines if x != dropped), "utf-8")
    table = find_bilm(folder).bilm.token_encoder.table
    numbers = table.words(torch.from_numpy(words_to_characters(["\ud800", "", "zz"])).long())
    assert set(numbers.tolist()) == {table.words.words().index("<oov>")}


@pytest.mark.parametrize("changes", [{}, {"word_dim": 0}, {"activation": "tanh", "n_highway": 0}])
@pytest.mark.parametrize("seed", [0, 1])
def test_vectors(tmp_path, seed, changes):
    """The expected values are the oracle's, alone and in a batch."""
    folder = write_model(tmp_path / "model", seed, **changes)
    elmo = Elmo.from_archive(folder, initial_state="zero")
    for tokens, found in zip(SENTENCES, elmo.embed(SENTENCES, layer="all")):
        expected = oracle(folder, tokens)
        np.testing.assert_allclose(found, expected, atol=1e-5)
        np.testing.assert_allclose(elmo.embed(tokens, layer="all"), expected, atol=1e-5)


def test_vectors_of_the_program(tmp_path):
    """The expected values were computed by ELMoForManyLangs."""
    if not FORMATS.exists():
        pytest.skip(f"needs {FORMATS.name}, models and vectors of other programs")
    with tarfile.open(FORMATS) as archive:
        archive.extractall(tmp_path, filter="data")
    folder = tmp_path / "formats" / "elmoformanylangs"
    reference = np.load(folder / "chars_only.npz")
    elmo = Elmo.from_archive(folder / "chars_only", initial_state="zero")
    for k, tokens in enumerate(json.loads((folder / "sentences.json").read_text())):
        found = elmo.embed(tokens, layer="all")
        np.testing.assert_allclose(found, reference[f"reset_{k}"], atol=1e-5)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_a_task_model_and_its_archive_elsewhere(tmp_path, requires_grad):
    """The expected mix is the mean of the oracle's layers. The archive of the task needs no other
    file: characters and words are in its weights."""
    folder = write_model(tmp_path / "model")
    embedder = {"archive_file": str(folder), "initial_state": "zero"}
    config = model_of(elmo={**embedder, "requires_grad": requires_grad})
    expected = [oracle(folder, tokens).mean(axis=0) for tokens in SENTENCES]
    models = [train(config, tmp_path / "run")]
    shutil.rmtree(folder)
    shutil.move(tmp_path / "run", tmp_path / "moved")
    models.append(load(config, tmp_path / "moved"))
    characters = Elmo.from_archive("tiny").characters(SENTENCES)
    for model in models:
        with torch.no_grad():
            found = model.embedder(characters)
        for row, vectors in zip(found.numpy(), expected):
            np.testing.assert_allclose(row[: len(vectors)], vectors, atol=1e-5)


def test_a_word_that_the_indexer_cut(tmp_path):
    """By hand: eight code points take up to 24 bytes. The indexer's 10 characters are 8 bytes."""
    elmo = Elmo.from_archive(write_model(tmp_path / "model"))
    tokens = elmo.characters([["日本", "🙂"]])
    elmo(tokens[..., :10])
    with pytest.raises(
        ValueError, match=r"cut to 6; set max_characters_per_token .* to 27 or more"
    ):
        elmo(tokens[..., :8].masked_fill(torch.arange(8) == 7, 260))


@pytest.mark.parametrize(
    "file, content, message",
    [
        ("config.json", "{}", "config.json: config_path: expected a path, found null"),
        ("config.json", '{"config_path": "x"}', "config_path: expected a file of sizes .* at x"),
        ("config.json", "[", "config.json: expected a config in JSON"),
        ("sizes.json", '{"encoder": {"name": "lstm"}}', "name: expected \"elmo\", found 'lstm'"),
        ("char.dic", "a\n", "char.dic, line 1: expected an entry, a tab and a number below 18"),
        ("char.dic", "a\t1\nb\t18\n", r"char.dic, line 2: .* found 'b\\t18'"),
        ("char.dic", "a\t1\n", "char.dic: expected an entry <eow>, found none"),
        ("char.dic", "a\t00000000000018\n", "char.dic, line 1: expected an entry"),
        ("char.dic", "a\t1\nb\t1\n", "char.dic: expected a number of its own for each entry"),
        ("word.dic", b"\xff", "word.dic: expected UTF-8"),
        ("word.dic", "a\t1\n", "word.dic: expected an entry <oov>, found none"),
        ("encoder.pkl", None, "encoder.pkl: expected a file of weights, found none"),
        ("char.dic", None, "char.dic: expected a lexicon, found no such file"),
        ("encoder.pkl", b"x", "encoder.pkl: expected a whole file of torch.save"),
    ],
)
def test_wrong_files(tmp_path, file, content, message):
    """By hand: the message names the file."""
    path = write_model(tmp_path / "model") / file
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message):
        find_bilm(tmp_path / "model")


def test_a_character_that_is_none_of_the_lexicon(tmp_path):
    """A property: U+0000 is an unknown character, as a letter that is not in the lexicon."""
    elmo = Elmo.from_archive(write_model(tmp_path / "model", word_dim=0))
    np.testing.assert_array_equal(*(elmo.embed([token])[0] for token in ("d\0", "dX")))
    np.testing.assert_array_equal(*(elmo.embed([token])[0] for token in ("\a", "X")))


def test_a_token_of_the_indexer_alone(tmp_path):
    """A model that looks up code points has none for what `tokens_to_add` of an indexer adds."""
    elmo = Elmo.from_archive(write_model(tmp_path / "model"))
    with pytest.raises(InputError, match="found the single character 7; remove tokens_to_add"):
        elmo(elmo.characters([["the", "\a"]]))


def test_weights_of_more_layers(tmp_path):
    """By hand: the config has one layer less, so the vectors would be those of another model."""
    folder = write_model(tmp_path / "model")
    config = json.loads((folder / "sizes.json").read_text())
    config["encoder"]["n_layers"] = 2
    (folder / "sizes.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"backward_layer_2\..*: expected no tensor, as the sizes"):
        find_bilm(folder)


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


def test_a_table_without_rows(tmp_path):
    """By hand: one number is no table."""
    folder = write_model(tmp_path / "model")
    weights = torch.load(folder / "token_embedder.pkl", weights_only=True)
    weights["char_emb_layer.embedding.weight"] = torch.tensor(1.0)
    torch.save(weights, folder / "token_embedder.pkl")
    with pytest.raises(InputError, match="n_code_points: expected a whole number from 1"):
        find_bilm(folder)


@pytest.mark.parametrize("change", ["shape", "float64", "NaN", "missing"])
def test_wrong_weights(tmp_path, change):
    """By hand: the message names the array."""
    path = write_model(tmp_path / "model") / "encoder.pkl"
    weights = torch.load(path, weights_only=True)
    name = "backward_layer_2.state_linearity.bias"
    if change == "shape":
        weights[name] = weights[name][:-1]
    elif change == "float64":  # 1e300 would become infinity
        weights[name] = weights[name].double().fill_(1e300)
    elif change == "NaN":
        weights[name][0] = torch.nan
    else:
        del weights[name]
    torch.save(weights, path)
    with pytest.raises(InputError, match=rf"{name}: expected (float32 of shape \(36,\)|finite)"):
        find_bilm(tmp_path / "model")


def test_a_published_config_need_not_be_there(tmp_path):
    """By hand: published models name a file of the package, which is not in their folder. Its sizes
    are those of the published models, which the message shows."""
    folder = write_model(tmp_path / "model")
    named = {"config_path": "/x/configs/cnn_50_100_512_4096_sample.json"}
    (folder / "config.json").write_text(json.dumps(named))
    with pytest.raises(InputError, match=r"expected float32 of shape \(16384, 512\), as"):
        find_bilm(folder)


def test_a_config_without_sizes(tmp_path):
    """By hand: without both sizes of the LSTM, the error names the first."""
    folder = write_model(tmp_path / "model")
    config = json.loads((folder / "sizes.json").read_text())
    del config["encoder"]["dim"], config["encoder"]["projection_dim"]
    (folder / "sizes.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"sizes\.json: lstm\.dim: expected .*, found null"):
        find_bilm(folder)


def test_damaged_files(tmp_path, fuzz: Fuzz):
    """A property: a damaged file is an error, or the vectors are those of what it then says: text
    has no checksum. Weights are those of the whole file, whose padding has none. Nothing else is
    raised."""
    folder = write_model(tmp_path / "model", seed=1)
    expected = find_bilm(folder).bilm.state_dict()
    for random in fuzz.cases(30):
        name = random.choice(["config.json", "sizes.json", "char.dic", "word.dic", "encoder.pkl"])
        whole = (folder / name).read_bytes()
        description, damaged = damage(whole, random)
        (folder / name).write_bytes(damaged)
        try:
            found = find_bilm(folder).bilm.state_dict()
            if name == "encoder.pkl":
                assert all(torch.equal(found[key], x) for key, x in expected.items()), description
        except InputError:
            pass
        finally:
            (folder / name).write_bytes(whole)


def test_words_shorter_than_a_boundary(tmp_path):
    """By hand: `<bos>` and `<eos>` have five code points, and each word has two marks. With fewer,
    the boundaries would be read as other words."""
    folder = write_model(tmp_path / "model", max_characters_per_token=6)
    with pytest.raises(InputError, match=r"max_characters_per_token .* from 7 to .*, found 6"):
        find_bilm(folder)
    folder = write_model(tmp_path / "seven", max_characters_per_token=7)
    elmo = Elmo.from_archive(folder, initial_state="zero")
    for tokens in SENTENCES:
        found = elmo.embed(tokens, layer="all")
        np.testing.assert_allclose(found, oracle(folder, tokens), atol=1e-5)
