"""
TensorFlow checkpoints of bilm-tf: those that TensorFlow wrote, if the data is there, and those of
the tests' own writer.
"""

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from allennlp.models import Model

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.formats.bilm_tf.weights import write_weights
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.formats.tf_checkpoint import CheckpointArrays
from elmo_plugin.formats.tf_checkpoint.index_file import crc32c
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import vocabulary_words
from tests.conftest import WORDS, allennlp
from tests.formats.same import assert_same, options_with
from tests.formats.tf_checkpoint import writer
from tests.formats.tf_checkpoint.writer import their_name, variables_of, write_checkpoint
from tests.random_bilm import randomize, read_sentences

MODELS = ["chars_2", "words_2", "words_2_shared"]


def random_variables(options: BiLMOptions, folder: Path, seed: int = 0) -> dict[str, np.ndarray]:
    """The variables of a checkpoint of a random biLM, whose arrays are in `folder` in HDF5 too."""
    torch.manual_seed(seed)
    bilm = BiLM(options)
    dim = options.lstm.projection_dim
    softmax = SampledSoftmax(n_words=len(WORDS), dim=dim, n_negative_samples=None)
    randomize(bilm)
    randomize(softmax)
    write_weights(bilm, folder / "weights.hdf5", softmax)
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["warm_state"]  # it is computed, as for a checkpoint
    return variables_of(folder / "weights.hdf5", options.lstm.n_layers)


def make(folder: Path, step: int = 1250, seed: int = 0, **writing: Any) -> Path:
    """A checkpoint in a folder. The weights in HDF5 and the options are next to the folder."""
    options = writing.pop("options", options_with())
    folder.mkdir(exist_ok=True)
    variables = random_variables(options, folder.parent, seed)
    variables.update(writing.pop("variables", {}))
    write_checkpoint(folder / f"model.ckpt-{step}", variables, **writing)
    text = json.dumps({"bidirectional": True, "n_epochs": 1, **options.to_dict()})
    for place in (folder, folder.parent):
        (place / "options.json").write_text(text)
        (place / "vocab.txt").write_text("\n".join(WORDS))
    return folder


def state(*named: Any) -> dict[str, torch.Tensor]:
    found = find_bilm(*named, with_softmax=True)
    assert found.softmax is not None and found.words == WORDS
    return torch.nn.ModuleDict({"bilm": found.bilm, "softmax": found.softmax}).state_dict()


def expected_state(folder: Path) -> dict[str, torch.Tensor]:
    """Read from the HDF5 file by the reader that other tests compare with AllenNLP's."""
    files = (folder.parent / name for name in ("options.json", "weights.hdf5", "vocab.txt"))
    return state(*files)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make(tmp_path / "checkpoint")


@pytest.mark.parametrize(
    ("data", "expected"),
    [(b"123456789", 0xE3069283), (bytes(32), 0x8A9136AA), (bytes(range(32)), 0x46DD794E), (b"", 0)],
)
def test_checksums_of_the_standard(data: bytes, expected: int) -> None:
    """The expected values are those of RFC 3720, and the check value of the CRC catalogue."""
    assert crc32c(data) == expected == writer.crc32c(data)
    assert crc32c(np.frombuffer(data, np.uint8)[5:], crc32c(data[:5])) == expected


def test_without_the_package_for_checksums(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "google_crc32c", None)
    with pytest.raises(InputError, match=r"google-crc32c, found none; pip install google-crc32c"):
        find_bilm(folder)


@pytest.mark.parametrize(
    "writing",
    [
        {},
        {"per_block": 3},
        {"n_shards": 3},
        {"options": options_with(n_layers=1)},
        {"options": options_with(projection_dim=6)},
        {"options": options_with(n_layers=3)},
    ],
    ids=str,
)
def test_every_weight(tmp_path: Path, writing: dict[str, Any]) -> None:
    """The expected weights are those of the HDF5 file with the same arrays."""
    folder = make(tmp_path / "checkpoint", **writing)
    assert_same(state(folder), expected_state(folder))
    assert find_bilm(folder).softmax is None


@pytest.mark.parametrize("dtype", ["float16", "float64"])
def test_other_floating_point_types(tmp_path: Path, dtype: str) -> None:
    """The expected numbers are NumPy's rounding."""
    weight = np.random.default_rng(0).normal(size=4)
    folder = make(tmp_path / "checkpoint", variables={"lm/CNN_proj/b_proj": weight.astype(dtype)})
    found = state(folder)["bilm.token_encoder.projection.bias"]
    assert np.array_equal(found.numpy(), weight.astype(dtype).astype("f4"))


def test_arrays_in_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A large array is read in blocks; here they have a row or a few, and end within a part."""
    folder = make(tmp_path / "checkpoint")
    expected = expected_state(folder)
    for size in (1, 100, 300):
        for module in ("files.hdf5", "formats.tf_checkpoint"):
            monkeypatch.setattr(f"elmo_plugin.{module}.BLOCK_BYTES", size)
        assert_same(state(folder), expected)
        assert_same(expected_state(folder), expected)


def test_the_checkpoint_that_is_read(tmp_path: Path) -> None:
    """The one of the file `checkpoint`, of the last step without it, or the one that is named."""
    states = {}
    for step, seed in ((900, 1), (1250, 2), (2500, 3)):
        folder = make(tmp_path / "checkpoint", step, seed)
        states[step] = expected_state(folder)
    assert_same(state(folder), states[2500])
    (folder / "checkpoint").write_text(
        'model_checkpoint_path: "/home/someone/run/model.ckpt-1250"\n'
        'all_model_checkpoint_paths: "/home/someone/run/model.ckpt-2500"\n'
    )
    assert_same(state(folder), states[1250])
    assert_same(state(folder / "model.ckpt-900"), states[900])
    assert_same(state(folder / "model.ckpt-900.index"), states[900])
    (folder / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-3000"\n')
    message = r"/checkpoint: expected the name of .* found model\.ckpt-3000; .*: model\.ckpt-1250, "
    with pytest.raises(InputError, match=f"^{folder}{message}"):
        state(folder)


def test_words_in_another_file(folder: Path, tmp_path: Path) -> None:
    """The published checkpoint has its words elsewhere. Without words there is no softmax."""
    words = (folder / "vocab.txt").rename(tmp_path / "words")
    assert find_bilm(folder, with_softmax=True).softmax is None
    assert_same(state(folder, None, words), expected_state(folder))
    with pytest.raises(InputError, match=f"^{folder}: expected a softmax with its vocabulary"):
        allennlp("bilm-import", "--checkpoint", folder, tmp_path / "model.tar.gz")
    for name in ("vocab-a.txt", "vocab-b.txt"):
        shutil.copy(words, folder / name)
    message = r"expected one file vocab\*\.txt in it, found vocab-a\.txt, vocab-b\.txt"
    with pytest.raises(InputError, match=f"^{folder}: {message}"):
        find_bilm(folder, with_softmax=True)


NAME = "lm/CNN_proj/b_proj"


@pytest.mark.parametrize(
    ("writing", "message"),
    [
        ({"edit": {NAME: [(7, b"")]}}, "b_proj: expected an array in one piece"),
        ({"edit": {NAME: [(5, 12)]}}, "b_proj: expected 16 bytes, .* found 12"),
        ({"edit": {NAME: [(6, 1)]}}, "b_proj: expected the numbers as they were written"),
        ({"edit": {NAME: [(2, b"\x12\x02\x0c")]}}, "b_proj: expected a shape"),
        ({"edit": {NAME: [(5, 2**40)]}}, f"expected at least 1,099,.* for {NAME}"),
        ({"edit": {NAME: [(4, 2**64 - 8)]}}, "expected at least 18,446,"),
        ({"edit": {NAME: [(3, 1)]}}, r"a file model\.ckpt-1250\.data-00001-of-00001"),
        ({"big_endian": True}, "little-endian"),
        ({"compression": 1}, "a compressed block"),
        ({"variables": {"x" * 300: np.zeros(5, "f4")}}, "a name of 300 bytes"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_another_content(tmp_path: Path, writing: dict[str, Any], message: str) -> None:
    """All checksums are right, but not the rest. The message names the file."""
    folder = make(tmp_path / "checkpoint", **writing)
    with pytest.raises(InputError, match=rf"^{folder}/model\.ckpt-1250\.\S+: .*{message}"):
        find_bilm(folder)


def test_missing_parts(folder: Path) -> None:
    """Each message names what is missing."""
    prefix = folder / "model.ckpt-1250"
    data, index = (Path(f"{prefix}.{x}") for x in ("data-00000-of-00001", "index"))
    for file, message in (
        (data, rf"index: expected a file {data.name} next to it"),
        (folder / "options.json", rf"^{folder}/options\.json: .* found no such file"),
        (index, f"^{folder}: expected an installed model"),
    ):
        file.unlink()
        with pytest.raises(InputError, match=message):
            find_bilm(folder)
    with pytest.raises(FileNotFoundError, match=f"^{prefix}: expected .* a TensorFlow checkpoint"):
        find_bilm(prefix)


def test_an_index_that_names_a_block_many_times(tmp_path: Path) -> None:
    """A small file would take much time and memory."""
    content = writer.block([(b"a", b"")])
    places = writer.block([(bytes([k]), writer.varint(0) + b"\x0c") for k in range(3)])
    nothing = writer.block([])
    at = len(content), len(content) + len(nothing)
    footer = b"".join(map(writer.varint, (at[0], len(nothing) - 5, at[1], len(places) - 5)))
    magic = writer.table([], 1)[-8:]
    file = tmp_path / "model.ckpt-1.index"
    file.write_bytes(content + nothing + places + footer.ljust(40, b"\0") + magic)
    with pytest.raises(InputError, match=f"^{file}: .* found blocks that overlap"):
        CheckpointArrays(file)


@pytest.mark.parametrize("with_words", [True, False])
def test_an_import(folder: Path, tmp_path: Path, with_words: bool) -> None:
    """The archive has the weights of the HDF5 file with the same arrays, and the words."""
    named, archive = folder, tmp_path / "model.tar.gz"
    words = [(folder / "vocab.txt").rename(tmp_path / "words")] if with_words else []
    allennlp("bilm-import", "--checkpoint", named, *words, archive)
    assert_same(state(archive), expected_state(folder))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--checkpoint gone OUT", "gone: expected .* TensorFlow checkpoint .* no such"),
        ("--checkpoint= OUT", "checkpoint: expected a value"),
        ("--checkpoint x", r"VOCABULARY\] ARCHIVE, found 0 files"),
        ("--checkpoint x y z OUT", r"VOCABULARY\] ARCHIVE, found 3 files"),
        ("", "expected OPTIONS WEIGHTS VOCABULARY ARCHIVE, .*, found 0 files"),
        ("x y OUT", "expected OPTIONS WEIGHTS VOCABULARY ARCHIVE, .*, found 3 files"),
    ],
)
def test_wrong_arguments(tmp_path: Path, arguments: str, message: str) -> None:
    """The message says what is expected."""
    given = arguments.replace("OUT", str(tmp_path / "model.tar.gz")).split()
    with pytest.raises((InputError, FileNotFoundError), match=message):
        allennlp("bilm-import", *given)


@pytest.fixture
def theirs(shared_data: Path) -> Path:
    """The folder with the checkpoints that TensorFlow wrote."""
    return shared_data / "formats" / "tf_checkpoint"


@pytest.mark.parametrize("model", MODELS)
def test_arrays_that_tensorflow_wrote(theirs: Path, model: str) -> None:
    """The expected arrays are those that TensorFlow read, and all that are not the optimizer's."""
    arrays = CheckpointArrays(theirs / model / "model.ckpt-2500.index")
    with np.load(theirs / model / "weights.npz") as expected:
        names = set(expected.files)
        for name in arrays.names():
            found = np.concatenate(list(arrays.blocks(name)))
            their = their_name(name, n_layers=2)
            assert np.array_equal(found, expected[their]), name
            names.remove(their)
        assert not names


@pytest.mark.parametrize("model", MODELS)
def test_vectors_of_bilm_tf(theirs: Path, model: str) -> None:
    """The expected vectors are bilm-tf's, of one batch from a state of zeros, and of the same batch
    after it."""
    bilm = find_bilm(theirs / model).bilm.eval()
    sentences = json.loads((theirs / "vector_sentences.json").read_text("utf-8"))
    tokens, state = Elmo(bilm).characters(sentences), bilm.bilstm.zero_state(len(sentences))
    with np.load(theirs / model / "vectors_by_bilm_tf.npz") as expected:
        for turn in ("first", "again"):
            with torch.no_grad():
                read = read_sentences(bilm, tokens, state)
            state = read.state
            for k, sentence in enumerate(sentences):
                found = np.stack([x[k, 1 : len(sentence) + 1].numpy() for x in read.layers])
                assert np.abs(found - expected[f"{turn}_{k}"]).max() < 1e-5


@pytest.mark.parametrize("name", MODELS)
def test_perplexity_of_bilm_tf(theirs: Path, tmp_path: Path, name: str) -> None:
    """The expected perplexity is bilm-tf's own, of a text that is read as one row from zeros."""
    allennlp("bilm-import", "--checkpoint", theirs / name, tmp_path / "model.tar.gz")
    model = Model.from_archive(tmp_path / "model.tar.gz")
    words = (theirs / name / "vocab.txt").read_text("utf-8").split()
    assert vocabulary_words(model.vocab) == words
    reader = BiLMDatasetReader(max_characters_per_token=20)
    text, cache = str(theirs / "text.txt"), str(tmp_path / "cache")
    loader = BiLMDataLoader(reader, text, batch_size=1, shuffle=None, cache_dir=cache)
    loader.index_with(model.vocab)
    model.eval()
    model.initial_state = "zero"
    with torch.inference_mode():
        for batch in loader:
            model(**batch)
    expected = json.loads((theirs / "reference.json").read_text())[name]
    found = model.get_metrics()["perplexity"]
    assert found == pytest.approx(expected["perplexity_by_bilm_tf"], rel=1e-6)
