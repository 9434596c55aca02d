"""Tensors that threads share which compute in CUDA streams of their own; see `in_stream`."""

import pytest
import torch
from torch import nn

from elmo_plugin import Elmo
from elmo_plugin.elmo import frozen
from elmo_plugin.elmo.frozen import WordVectorCache
from elmo_plugin.modules import sampled_softmax
from elmo_plugin.modules.sampled_softmax import expected_count
from elmo_plugin.ops import backend
from elmo_plugin.ops.streams import shared
from tests.as_on_a_gpu import as_on_a_gpu
from tests.conftest import Stream


def test_a_cpu_has_no_streams(monkeypatch):
    """Expected: nothing is asked of CUDA, which a CPU's build of PyTorch does not have."""
    monkeypatch.setattr(torch.cuda, "current_stream", None)
    assert shared([torch.ones(2)], None) is None


def test_another_stream_waits(in_stream):
    """By definition: where a tensor is made, its stream has an order already; another one waits for
    the event after it, and keeps the memory."""
    x = torch.ones(2)
    made = []
    kept = "keeps", x.data_ptr()
    done = in_stream("a", lambda: made.append(shared([(x, 0.5, None)])))
    assert done == [("a", "records", ""), ("a", *kept)]
    assert not in_stream("a", made[0].wait)
    assert in_stream("b", made[0].wait) == [("b", "waits for", "event of a"), ("b", *kept)]


@pytest.mark.parametrize("capacity", [2, 8])
def test_cached_word_vectors(in_stream, monkeypatch, capacity):
    """By hand: each look-up waits for the one before it if that was in another stream, before it
    reads or writes a vector, and records its own event after that, the first one also when it makes
    the memory. A full cache writes to rows that the look-up before it reads."""
    monkeypatch.setattr(frozen, "CAPACITY", capacity)
    cache = WordVectorCache(nn.Embedding(10, 3).requires_grad_(False))
    look_up = cache._look_up
    cache._look_up = lambda words: Stream.done.append(("", "looks up", "")) or look_up(words)
    cache.encoder.forward = lambda words: words.float()
    for stream, before, *words in ("a", "a", 1, 2), ("b", "a", 2, 3), ("b", "b", 3), ("a", "b", 4):
        done = in_stream(stream, cache, torch.tensor(words)[:, None])
        memory = cache._vectors.data_ptr()
        waits = [(stream, "waits for", f"event of {before}"), (stream, "keeps", memory)]
        assert done == [
            *(waits if stream != before else []),
            ("", "looks up", ""),
            *([(stream, "records", ""), (stream, "keeps", memory)] * (2 if words == [1, 2] else 1)),
        ]


def test_packed_weights_and_first_states(in_stream, monkeypatch):
    """Expected: a snapshot's weights, packed once, and its two first states are read after the
    event of the stream that made them, and the memory of all is kept."""
    as_on_a_gpu(monkeypatch)
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    elmo = Elmo.from_pretrained("tiny")
    with elmo.snapshot() as now:
        assert in_stream("a", lambda: now._frozen.packed)[0] == ("a", "records", "")
        assert not in_stream("a", lambda: now._frozen.packed)
        again = in_stream("b", lambda: now._frozen.packed)
        bilm, states = now._frozen.packed, now._frozen._starts.values()
    kept = {of for _, what, of in again if what == "keeps"}
    packed = [x for layer in bilm.bilstm.layers for x in layer._packed[:4] if x is not None]
    expected = (*packed, *bilm.parameters(), *(x for state in states for x in state))
    assert again[0] == ("b", "waits for", "event of a")
    assert kept >= {x.data_ptr() for x in expected}


def test_logarithms_of_the_sampler(in_stream):
    """Expected: the first step of a vocabulary computes them, and a step in another stream waits
    for that."""
    sampled_softmax._logs_of_not_drawing.cache_clear()
    words = torch.arange(3)
    assert in_stream("a", expected_count, words, 5, 9)[0] == ("a", "records", "")
    assert not in_stream("a", expected_count, words, 5, 9)
    assert in_stream("b", expected_count, words, 5, 9)[0] == ("b", "waits for", "event of a")
    sampled_softmax._logs_of_not_drawing.cache_clear()
