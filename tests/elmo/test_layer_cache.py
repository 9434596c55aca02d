"""Layers in a file, compared with those that are computed."""

import copy
import shutil

import numpy
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.elmo.frozen import FrozenBiLM
from elmo_plugin.elmo.layer_cache import FILE, LayerCache
from elmo_plugin.modules.lstm import BiLSTM
from tests.compare import assert_close

pytestmark = pytest.mark.usefixtures("native_bf16")

SENTENCES = [
    "He threw the stick to the dog .".split(),
    ["The", "dog"],
    [],
    ["naïve", "🙂", "incomprehensibilities"],
    ["The", "dog"],
]


@pytest.fixture
def read(bilm_files, tmp_path):
    """Return all layers of a batch from a new `Elmo`, without a cache for `cache_dir=None`."""

    def read(sentences, elmo=None, boundaries=True, **kwargs):
        if elmo is None:
            elmo = Elmo.from_files(*bilm_files, **{"cache_dir": tmp_path / "cache", **kwargs})
        layers, mask = elmo.layers(elmo.characters(sentences), boundaries)
        more = 2 if boundaries else 0
        assert mask.sum(dim=1).tolist() == [len(sentence) + more for sentence in sentences]
        return torch.stack(layers)

    return read


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory):
    return tmp_path_factory.mktemp("shared") / "cache"


@pytest.mark.parametrize("initial_state", ["zero", "warm"])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_the_same_batch_to_the_bit(
    bilm_files, read, shared_folder, initial_state, precision, monkeypatch
):
    """The expected numbers are those without a cache: when a batch is computed, when it is found
    again, and when another model of the same weights finds it. After the first time the biLM is not
    run. All ways, with boundaries and without, share a folder."""
    how = {"initial_state": initial_state, "precision": precision}
    expected = [read(SENTENCES, None, k, **how, cache_dir=None) for k in (True, False)]
    elmo, another = (Elmo.from_files(*bilm_files, **how, cache_dir=shared_folder) for _ in "ab")
    for model in (elmo, elmo, another):
        for boundaries, numbers in zip((True, False), expected):
            assert torch.equal(read(SENTENCES, model, boundaries), numbers)
        monkeypatch.setattr(BiLSTM, "forward", None)


def test_empty_sentences_next_to_known_ones(bilm_files, tmp_path):
    """An empty sentence has no vectors, also where all others of its batch are in the cache."""
    elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path / "cache")
    (expected,) = elmo.embed(SENTENCES[:1], layer="all")
    known, empty = elmo.embed([SENTENCES[0], []], layer="all")
    assert numpy.array_equal(known, expected)
    assert empty.shape == (3, 0, expected.shape[2])


def test_only_what_is_new_is_read(bilm_files, read, tmp_path, monkeypatch):
    """Two sentences of a batch of five are new, and the longer one has two tokens. In another
    batch, order and padding, a sentence has the same layers up to rounding."""
    read([SENTENCES[3], SENTENCES[0], SENTENCES[2]])
    elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path / "cache")
    batch = [SENTENCES[0], ["A"], SENTENCES[3], SENTENCES[1], SENTENCES[2]]
    expected = [read(x, cache_dir=None) for x in (batch, [*batch[3:], ["A"]])]
    asked, compute = [], FrozenBiLM.layers
    monkeypatch.setattr(FrozenBiLM, "layers", lambda *x: asked.append(x[1].shape) or compute(*x))
    assert_close(read(batch, elmo), expected[0], atol=1e-5, what="layers")
    assert_close(read([*batch[3:], ["A"]], elmo), expected[1], atol=1e-5, what="layers")
    assert asked == [(2, 2, 50)]


def test_half_precision(read):
    """The expected numbers are those without a cache, rounded by NumPy, the first time and the
    second."""
    exact = read(SENTENCES, cache_dir=None).numpy()
    rounded = torch.from_numpy(exact.astype("float16").astype("float32"))
    for _ in range(2):
        assert torch.equal(read(SENTENCES, cache_dtype="float16"), rounded)
    assert torch.equal(read(SENTENCES), torch.from_numpy(exact))


@pytest.mark.parametrize(
    "dtype, number, is_kept",
    [
        ("float16", 65504.0, True),
        ("float16", 65520.0, False),
        ("float16", -1e30, False),
        ("float32", 1e30, True),
        ("float32", float("nan"), False),
        ("float16", float("inf"), False),
    ],
)
def test_numbers_that_the_type_cannot_hold(tmp_path, dtype, number, is_kept):
    """A sentence with a number above the limit of IEEE 754 is not stored, and none of its numbers
    are rounded. The other sentence is stored, and both are rounded by NumPy."""
    layers = [numpy.array([0.1, x, 0.1], "float32") for x in (0.1, number)]
    with numpy.errstate(over="ignore"):
        expected = [x.astype(dtype).astype("float32") for x in layers]
    keys, found = [b"a" * 16, b"b" * 16], [numpy.zeros(3, "float32") for _ in "ab"]
    LayerCache(tmp_path, dtype).put(keys, layers)
    assert LayerCache(tmp_path, dtype).get(keys, found) == ([] if is_kept else [1])
    n_stored = 2 if is_kept else 1
    numpy.testing.assert_array_equal(found[:n_stored], expected[:n_stored])
    numpy.testing.assert_array_equal(layers[:n_stored], expected[:n_stored])
    assert is_kept or layers[1][0] == numpy.float32(0.1)


def test_a_full_cache(read, bilm_files, tmp_path):
    """The expected numbers are those without a cache. `tests/files/test_sqlite_cache.py` has what
    else may be wrong with the file."""
    batches = [[[f"w{4 * b + row}"] * 20 for row in range(4)] for b in range(10)]
    without = Elmo.from_files(*bilm_files)
    elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path, cache_size_gb=150_000 / 2**30)
    for batch in batches * 2:
        assert torch.equal(read(batch, elmo), read(batch, without))
    assert 75_000 < (tmp_path / FILE).stat().st_size <= 150_000


def test_a_folder_that_was_removed(read, bilm_files, tmp_path):
    """A cache may be removed at any time, and a copy of the model shares it."""
    elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path / "cache")
    expected = read(SENTENCES, elmo)
    shutil.rmtree(tmp_path / "cache")
    for found in (read(SENTENCES, elmo), read(SENTENCES, copy.deepcopy(elmo)), read(SENTENCES)):
        assert torch.equal(found, expected)
    assert (tmp_path / "cache" / FILE).stat().st_size > expected.numel()


def test_a_biLM_in_half_precision(bilm_files, read, tmp_path):
    """The expected numbers are those without a cache, of the same type. NumPy has no bfloat16."""
    expected = read(SENTENCES, Elmo.from_files(*bilm_files).bfloat16())
    for _ in range(2):
        elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path / "cache").bfloat16()
        found = read(SENTENCES, elmo)
        assert torch.equal(found, expected) and found.dtype == torch.bfloat16


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"requires_grad": True}, "cache_dir: expected a frozen biLM"),
        ({"initial_state": "carry"}, "cache_dir: expected initial_state zero or warm, found carry"),
        ({"cache_dtype": "int8"}, "cache_dtype: expected one of 'float32', 'float16', found"),
        ({"cache_size_gb": 0}, "cache_size_gb: expected a finite number above 0, found"),
        ({"cache_dir": ""}, "cache_dir: expected a path, found"),
        ({"cache_dir": __file__}, r"cache_dir: \S*\.py: expected a folder, or a path"),
        ({"cache_dir": f"{__file__}/cache"}, r"cache_dir: \S*: expected a folder, or a path"),
    ],
)
def test_what_is_refused(read, tmp_path, kwargs, message):
    """Each is refused with a reason when the model is made, before anything is written."""
    with pytest.raises(ValueError, match=message):
        read(SENTENCES, **kwargs)
    assert not (tmp_path / "cache").exists()
    if kwargs.keys() & {"cache_dtype", "cache_size_gb"}:
        with pytest.raises(ValueError, match=message):
            read(SENTENCES, cache_dir=None, **kwargs)
