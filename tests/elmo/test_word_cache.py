"""These tests compare cached word vectors with the vectors without a cache."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.elmo import frozen
from elmo_plugin.elmo.frozen import WORDS_AT_ONCE, State, WordVectorCache
from tests.compare import assert_close

pytestmark = pytest.mark.usefixtures("native_bf16")

SENTENCES = [["The", "dog"], ["He", "threw", "the", "stick", "."], ["A"]]


@pytest.fixture
def elmo(bilm_files) -> Elmo:
    return Elmo.from_files(*bilm_files)


def vectors(elmo: Elmo) -> torch.Tensor:
    return torch.cat(elmo.embed(SENTENCES, as_tensors=True))


def fresh(elmo: Elmo) -> torch.Tensor:
    elmo.clear_caches()
    return vectors(elmo)


def test_a_change_that_no_cache_notices(elmo):
    """The expected vectors are those of another `Elmo`. A change through `.data` needs
    `clear_caches`."""
    before = vectors(elmo)
    for parameter in elmo.bilm.parameters():
        parameter.data.mul_(1.1)
    found = fresh(elmo)
    assert not torch.equal(found, before)
    assert torch.equal(found, vectors(Elmo(elmo.bilm)))


def test_steps_of_others_leave_the_cache(elmo, monkeypatch):
    """By definition, a step changes only parameters that have a gradient: the words of a frozen
    biLM are not read again, and the graph of another parameter may still be used."""
    vectors(elmo)
    a, b = (torch.nn.Parameter(torch.ones(())) for _ in range(2))
    optimizer = torch.optim.Adam([a, b, *elmo.bilm.parameters()], fused=True)
    later = b * b
    a.square().backward()
    optimizer.step()
    later.backward()
    monkeypatch.setattr(type(elmo.bilm.token_encoder), "forward", None)
    vectors(elmo)


@pytest.mark.parametrize("device", ["cpu", "cuda", "mps", "xpu", "TF32"])
def test_precision_settings_are_part_of_the_state(elmo, device, monkeypatch):
    """What was computed under autocast, on any kind of device, is not used without it; and cuDNN's
    setting rounds the convolutions over characters."""
    before = State.of(elmo.bilm)
    assert before is not None and State.of(elmo.bilm) == before
    if device == "TF32":
        cudnn = torch.backends.cudnn
        monkeypatch.setattr(cudnn, "allow_tf32", not cudnn.allow_tf32)
    else:
        torch.set_autocast_enabled(device, True)  # `torch.autocast` needs such a device
    try:
        assert State.of(elmo.bilm) != before
    finally:
        if device != "TF32":
            torch.set_autocast_enabled(device, False)


def test_another_version_is_another_state(elmo, monkeypatch):
    """A later version may compute other numbers, so it reads no layers that this one stored."""
    digests = []
    for version in (frozen.VERSION, frozen.VERSION, "0.0.0"):
        monkeypatch.setattr(frozen, "VERSION", version)
        elmo.clear_caches()
        digests.append(elmo.fingerprint())
    assert digests[0] == digests[1] != digests[2]


@pytest.mark.parametrize(
    "context", [torch.inference_mode, partial(torch.autocast, "cpu", torch.bfloat16)]
)
def test_a_context_leaves_nothing_behind(elmo, context):
    """On a CPU, autocast changes nothing, because the biLM has a precision of its own. Words that
    are new outside of inference mode are cached next to those from inside."""
    expected = fresh(elmo)
    elmo.clear_caches()
    with context():
        inside = elmo.embed(SENTENCES[0], as_tensors=True)
    assert_close(inside, expected[: len(inside)], atol=1e-6, what="inside")
    found = vectors(elmo)
    assert found.dtype == torch.float32
    assert torch.equal(found, expected)


def test_several_threads(elmo):
    """Each thread gets the vectors of its own words, up to the rounding of other shapes."""
    batches = [[[f"w{i % 37}", f"x{i % 11}"], [f"y{i}"]] for i in range(60)]
    expected = [torch.cat(elmo.embed(batch, as_tensors=True)) for batch in batches]
    elmo.clear_caches()
    with ThreadPoolExecutor(4) as threads:
        for found, right in zip(threads.map(elmo.embed, batches), expected, strict=True):
            assert_close(np.concatenate(found), right, atol=1e-6, what="vectors")


WORDS = ["<S>", "</S>", "the", "dog", "-", "naïve", "x" * 60, *(f"w{i}" for i in range(20))]


@pytest.mark.parametrize("initial_state", ["zero", "warm"])
def test_random_sentences_in_any_order(bilm_files, fuzz, initial_state, monkeypatch):
    """Whatever was read before, and however often the cache overflowed, a sentence has the vectors
    that a fresh biLM gives it. A word may be one of the two boundaries."""
    fresh = Elmo.from_files(*bilm_files, initial_state=initial_state)
    for random in fuzz.cases(10):
        elmo = Elmo.from_files(*bilm_files, initial_state=initial_state)
        monkeypatch.setattr(frozen, "CAPACITY", random.choice([0, 1, 3, 8, 15, 1000]))
        for _ in range(6):
            batch = [random.choices(WORDS, k=random.randrange(7)) for _ in range(3)]
            fresh.clear_caches()
            expected = fresh.embed(batch, layer="all")
            for found, right in zip(elmo.embed(batch, layer="all"), expected):
                assert_close(found, right, atol=1e-5, what=f"{batch}")
            assert len(elmo._frozen.packed.token_encoder._rows) <= frozen.CAPACITY


class _SizeOfBatch(torch.nn.Linear):
    """An encoder whose vectors depend on the number of words, as real ones may by a bit."""

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return words[:, :1] * 1000.0 + len(words)


@pytest.mark.parametrize("capacity", [1, 300, 1000])
def test_the_same_bits_in_any_company(capacity, fuzz, monkeypatch):
    """The expected vector is the one that the encoder gives a word among `WORDS_AT_ONCE`,
    regardless of which words are new, cached, given twice, or overflow the cache."""
    monkeypatch.setattr(frozen, "CAPACITY", capacity)
    for random in fuzz.cases(10):
        cache = WordVectorCache(_SizeOfBatch(1, 1), same_bits=True)
        for _ in range(4):
            words = torch.tensor(random.choices(range(2000), k=random.choice([1, 7, 256, 700])))
            found = cache(words[:, None])
            assert torch.equal(found, words[:, None] * 1000.0 + WORDS_AT_ONCE)


def test_the_same_bits_of_the_character_cnn(bilm_files, fuzz):
    """The vectors are bit-identical with those of each word by itself."""
    encoder = Elmo.from_files(*bilm_files).bilm.token_encoder.requires_grad_(False)
    words = torch.randint(1, 200, (600, 50))
    alone = torch.cat([WordVectorCache(encoder, same_bits=True)(word[None]) for word in words[:40]])
    for random in fuzz.cases(5):
        order = torch.tensor(random.sample(range(600), random.choice([2, 100, 600])))
        found = WordVectorCache(encoder, same_bits=True)(words[order])
        for vector, k in zip(found, order.tolist()):
            assert k >= 40 or torch.equal(vector, alone[k])
