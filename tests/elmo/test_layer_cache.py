import copy
import logging
import multiprocessing
import os
import shutil
import signal

import numpy
import pytest
import torch

from elmo_plugin import Elmo, layer_cache
from elmo_plugin.elmo.layer_cache import LayerCache

SENTENCES = [
    "He threw the stick to the dog .".split(),
    ["The", "dog"],
    [],
    ["naïve", "🙂", "incomprehensibilities"],
    ["The", "dog"],
]


@pytest.fixture
def read(bilm_files, tmp_path):
    """All layers of a batch by a new `Elmo`, with a cache or, `cache_dir=None`, without."""

    def read(sentences, elmo=None, **kwargs):
        if elmo is None:
            elmo = Elmo.from_files(*bilm_files, **{"cache_dir": tmp_path / "cache", **kwargs})
        layers, mask = elmo.layers(elmo.characters(sentences))
        assert mask.sum(dim=1).tolist() == [len(sentence) + 2 for sentence in sentences]
        return torch.stack(layers)

    return read


def no_lstm(*_):
    raise AssertionError("the biLM was run")


@pytest.mark.parametrize("initial_state", ["zero", "warm"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_the_same_batch_to_the_bit(bilm_files, read, tmp_path, initial_state, precision):
    """Expected: the numbers without a cache, when a batch is computed, when it is found again, and
    when another model of the same weights finds it; and from then on the biLM is not run."""
    how = {"initial_state": initial_state, "precision": precision}
    expected = read(SENTENCES, **how, cache_dir=None)
    elmo = Elmo.from_files(*bilm_files, **how, cache_dir=tmp_path / "cache")
    assert torch.equal(read(SENTENCES, elmo), expected)
    elmo.bilm.sentences = no_lstm
    assert torch.equal(read(SENTENCES, elmo), expected)
    another = Elmo.from_files(*bilm_files, **how, cache_dir=tmp_path / "cache")
    another.bilm.sentences = no_lstm
    assert torch.equal(read(SENTENCES, another), expected)


def test_only_what_is_new_is_read(bilm_files, read, tmp_path):
    """By hand: of a batch of five, two sentences are new, the longer of two tokens. In other
    company a sentence is the same up to rounding."""
    read([SENTENCES[3], SENTENCES[0], SENTENCES[2]])
    elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path / "cache")
    batch = [SENTENCES[0], ["A"], SENTENCES[3], SENTENCES[1], SENTENCES[2]]
    asked = []
    elmo.bilm.sentences = lambda tokens, *rest: (
        asked.append(tokens.shape) or type(elmo.bilm).sentences(elmo.bilm, tokens, *rest)
    )
    expected = read(batch, cache_dir=None)
    torch.testing.assert_close(read(batch, elmo), expected, atol=1e-5, rtol=0)
    assert asked == [(2, 2, 50)]
    # And in another order and padding: no one is new.
    torch.testing.assert_close(
        read([*batch[3:], ["A"]], elmo),
        read([*batch[3:], ["A"]], cache_dir=None),
        atol=1e-5,
        rtol=0,
    )
    assert len(asked) == 1


def test_half_precision(read):
    """Expected: the numbers without a cache as NumPy rounds them; the first time as the second."""
    exact = read(SENTENCES, cache_dir=None).numpy()
    rounded = torch.from_numpy(exact.astype("float16").astype("float32"))
    for _ in range(2):
        assert torch.equal(read(SENTENCES, cache_dtype="float16"), rounded)
    assert torch.equal(read(SENTENCES), torch.from_numpy(exact))


def test_other_numbers_are_other_entries(bilm_files, read, tmp_path):
    """Expected: what there is without a cache, of whatever changes the numbers, one after another
    in one folder: weights loaded or changed in place, where a sentence starts, the precision."""

    def other_weights(elmo):
        random = torch.Generator().manual_seed(1)
        weights = elmo.bilm.state_dict()
        elmo.load_state_dict(
            {f"bilm.{k}": torch.randn(w.shape, generator=random) for k, w in weights.items()},
            strict=False,
        )

    def another_start(elmo):
        elmo.bilm.warm_state.memory += 0.5

    def another_weight(elmo):
        with torch.no_grad():
            elmo.bilm.bilstm.layers[0].recurrent_weight[0, 0, 0] += 1.0

    def another_precision(elmo):
        elmo.bilm.set_precision("fp32" if elmo.bilm.bilstm.layers[0].precision else "bf16")

    def other_words(elmo):
        with torch.no_grad():
            elmo.bilm.token_encoder.char_embedding.weight[1:] += 1.0

    seen = []
    for kwargs in ({}, {"initial_state": "zero"}, {"precision": "bf16"}):
        with_cache = Elmo.from_files(*bilm_files, **kwargs, cache_dir=tmp_path / "cache")
        without = Elmo.from_files(*bilm_files, **kwargs)
        for change in (
            lambda _: None,
            other_weights,
            another_start,
            another_weight,
            other_words,
            another_precision,
        ):
            change(with_cache)
            change(without)
            without.forget()
            expected = read(SENTENCES, without)
            assert torch.equal(read(SENTENCES, with_cache), expected)
            if change is another_precision:  # that of another turn of the outer loop
                continue
            if (kwargs, change) != ({"initial_state": "zero"}, another_start):
                assert not any(torch.equal(expected, before) for before in seen)
            seen.append(expected)


def test_word_numbers(tmp_path):
    """Property: sentences of numbers in place of characters are told apart, too."""
    cache = LayerCache(tmp_path)
    tokens = torch.tensor([[7, 65_544, 0], [7, 8, 0]])
    lengths = torch.tensor([2, 2])
    for _ in range(2):
        [layer] = cache(b"model", tokens, lengths, (1, 1), lambda t: [_first_number(t)])
        assert layer[:, 2, 0].tolist() == [65_544, 8]


def _first_number(tokens):
    """A layer that says each token's number, `(B, T + 2, 1)`, zeros at both ends and at padding."""
    return torch.nn.functional.pad(tokens.float(), (1, 1))[:, :, None]


def test_bounded(read, bilm_files, tmp_path, caplog):
    """The folder stays below its bound; what finds no room is right all the same, with one line in
    the log."""
    sentences = [[f"w{number}"] * 20 for number in range(40)]
    bound = 100_000
    elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path / "cache", cache_size_gb=bound / 2**30)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            for start in range(0, 40, 4):
                batch = sentences[start : start + 4]
                assert torch.equal(read(batch, elmo), read(batch, cache_dir=None))
    assert bound / 2 < (tmp_path / "cache" / "data.mdb").stat().st_size <= bound
    assert [record.getMessage().split(": ")[1] for record in caplog.records] == [
        "the cache of layers is full; sentences that are not in it are read each time"
    ]


def _fill(folder, seed):
    cache = LayerCache(folder)
    random = numpy.random.default_rng(seed)
    for _ in range(30):
        tokens = torch.from_numpy(random.integers(1, 20, (4, 3)))
        [layer] = cache(b"model", tokens, torch.full((4,), 3), (1, 1), lambda t: [_first_number(t)])
        assert torch.equal(layer, _first_number(tokens))


def _fill_forked(folder, seed):
    assert not layer_cache._environments  # LMDB forbids the use of an inherited one
    _fill(folder, seed)


def test_many_processes_at_once(tmp_path):
    """Property: each finds the right numbers, whoever wrote them, though all are forked from one
    that has the cache open."""
    _fill(tmp_path, seed=0)
    fork = multiprocessing.get_context("fork")
    processes = [fork.Process(target=_fill_forked, args=(tmp_path, seed)) for seed in range(1, 5)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 4
    _fill(tmp_path, seed=0)


def _killed_while_writing(folder):
    with layer_cache._environment(folder).begin(write=True) as transaction:
        transaction.put(b"key", b"value")
        os.kill(os.getpid(), signal.SIGKILL)


def test_a_writer_that_is_killed(tmp_path):
    """What it was writing is not there, and the others go on."""
    _fill(tmp_path, seed=0)
    process = multiprocessing.get_context("fork").Process(
        target=_killed_while_writing, args=(tmp_path,)
    )
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    with layer_cache._environment(tmp_path).begin() as transaction:
        assert transaction.get(b"key") is None
    _fill(tmp_path, seed=1)


def test_a_folder_that_was_removed(read, bilm_files, tmp_path):
    """A cache may be removed at any time; a copy of the model shares it."""
    elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path / "cache")
    expected = read(SENTENCES, elmo)
    shutil.rmtree(tmp_path / "cache")
    for found in (read(SENTENCES, elmo), read(SENTENCES, copy.deepcopy(elmo)), read(SENTENCES)):
        assert torch.equal(found, expected)
    assert (tmp_path / "cache" / "data.mdb").stat().st_size > expected.numel()


def test_a_folder_of_two_names(read, tmp_path):
    """LMDB allows one environment a file and process, whatever the file is called."""
    (tmp_path / "link").symlink_to(tmp_path / "cache", target_is_directory=True)
    expected = read(SENTENCES)
    for name in ("link", "cache/../cache"):
        assert torch.equal(read(SENTENCES, cache_dir=tmp_path / name), expected)


def test_a_biLM_in_half_precision(bilm_files, read, tmp_path):
    """Expected: its numbers without a cache; NumPy has no bfloat16."""
    expected = read(SENTENCES, Elmo.from_files(*bilm_files).bfloat16()).float()
    for _ in range(2):
        elmo = Elmo.from_files(*bilm_files, cache_dir=tmp_path / "cache").bfloat16()
        assert torch.equal(read(SENTENCES, elmo), expected)


def test_a_folder_that_cannot_be_used(read, tmp_path):
    """A file in its place; no LMDB file; one that was cut short."""
    (tmp_path / "file").write_text("mine")
    with pytest.raises(ValueError, match=r"cache_dir .*file.*can be written to"):
        read(SENTENCES, cache_dir=tmp_path / "file" / "cache")
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "data.mdb").write_text("text" * 10_000)
    with pytest.raises(ValueError, match=r"cache_dir .*text.*not an LMDB file"):
        read(SENTENCES, cache_dir=tmp_path / "text")
    read(SENTENCES, cache_dir=tmp_path / "whole")
    (tmp_path / "half").mkdir()
    whole = (tmp_path / "whole" / "data.mdb").read_bytes()
    (tmp_path / "half" / "data.mdb").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"data\.mdb: expected \d+ bytes, found \d+; it was cut"):
        read(SENTENCES, cache_dir=tmp_path / "half")


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"requires_grad": True}, "cache_dir: expected a frozen biLM"),
        ({"initial_state": "carry"}, "cache_dir: expected initial_state zero or warm, found carry"),
        ({"cache_dtype": "int8"}, "cache_dtype: expected float32 or float16, found 'int8'"),
        ({"cache_size_gb": 0}, "cache_size_gb: expected a size above 0, found 0"),
    ],
)
def test_what_is_refused(read, tmp_path, kwargs, message):
    """Each with a reason, and before anything is written."""
    with pytest.raises(ValueError, match=message):
        read(SENTENCES, **kwargs)
    assert not (tmp_path / "cache").exists()
