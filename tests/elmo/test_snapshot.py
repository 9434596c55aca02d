"""An `Elmo` in several threads, one of which changes it or forks."""

import os
import signal
import threading
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.corpora import dump
from elmo_plugin.elmo.frozen import FrozenBiLM, WordVectorCache
from elmo_plugin.modules import ScalarMix
from tests.compare import assert_close
from tests.conftest import python

SENTENCE = "He threw the stick to the dog .".split()


CHANGES = {
    "float": lambda elmo, weights: elmo.float(),
    "load_state_dict": lambda elmo, weights: elmo.load_state_dict(weights),
    "clear_caches": lambda elmo, weights: elmo.clear_caches(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_while_other_threads_read(bilm_files, change):
    """The expected vectors are those of one thread, because no change makes other numbers."""
    elmo = Elmo.from_files(*bilm_files)
    expected = elmo.embed(SENTENCE)
    weights = {key: x.clone() for key, x in elmo.state_dict().items()}
    done = threading.Event()

    def read(_):
        while not done.is_set():
            assert_close(elmo.embed(SENTENCE), expected, atol=1e-6, what=change)

    with ThreadPoolExecutor(3) as threads:
        readers = threads.map(read, range(3))
        try:
            for _ in range(200):
                CHANGES[change](elmo, weights)
        finally:
            done.set()
        list(readers)


def in_another_thread(work, *arguments):
    """Does work that ends although this thread is in the middle of a call."""
    thread = threading.Thread(target=work, args=arguments)
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


LINES = [*dump.line_rows((k, " ".join(SENTENCE[k:])) for k in range(3))]


def vectors(elmo, _):
    return np.concatenate(elmo.embed([SENTENCE, SENTENCE[:3]], max_tokens=1))


def log_probabilities(model, _):
    sentences = [SENTENCE, SENTENCE[:3]]
    return np.concatenate([x.forward for x in model.score(sentences, max_tokens=1)])


def a_file(elmo, folder):
    path = folder / str(len(list(folder.iterdir())))
    dump.dump(elmo, LINES, path, dump.DumpSettings(layer="top"))
    return np.frombuffer(path.read_bytes(), np.uint8)


@pytest.mark.parametrize(
    "kind, read, place",
    [
        (Elmo, vectors, (ScalarMix, "forward")),  # the layers are there, and their mix is not
        (Elmo, vectors, (Elmo, "_characters")),
        (LanguageModel, log_probabilities, (LanguageModel, "_characters")),
        (Elmo, a_file, (Elmo, "_characters")),
    ],
)
def test_other_weights_in_the_middle_of_a_call(
    bilm_archive, tmp_path, monkeypatch, kind, read, place
):
    """A call reads all its sentences with the weights at its start, and writes all parts of a file,
    although another thread loads others when its first batch is read. The next call reads the new
    ones."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 1)
    model = kind.from_archive(bilm_archive)
    old = {key: x.clone() for key, x in model.state_dict().items()}
    new = {key: x * 1.5 if x.is_floating_point() else x for key, x in old.items()}
    expected = []
    for weights in (new, old):
        model.load_state_dict(weights)
        expected.append(read(model, tmp_path))
    assert not np.array_equal(*expected)
    called, writes = getattr(*place), [new]

    def interrupted(*arguments, **options):
        if writes:
            in_another_thread(model.load_state_dict, writes.pop())
        return called(*arguments, **options)

    monkeypatch.setattr(*place, interrupted)
    for right in expected[::-1]:
        assert_close(read(model, tmp_path), right, atol=1e-6, what="numbers")
    assert not writes


@pytest.mark.parametrize("trained", [False, True])
def test_gradients_reach_the_mixes(bilm_files, monkeypatch, trained):
    """The mixes of a batch are those of the weights at its start, although others are loaded before
    they are computed. The parameters get the gradients of these mixes, which are those of a model
    into which nobody loads."""
    elmo, right = (Elmo.from_files(*bilm_files, requires_grad=trained) for _ in range(2))
    new = {name: x + 0.5 for name, x in elmo.state_dict().items() if "scalar_mix" in name}
    tokens = elmo.characters([SENTENCE])
    expected = right(tokens)["elmo_representations"][0]
    forward = ScalarMix.forward

    def interrupted(mix, *arguments, **options):
        in_another_thread(elmo.load_state_dict, new, False)
        return forward(mix, *arguments, **options)

    monkeypatch.setattr(ScalarMix, "forward", interrupted)
    found = elmo(tokens)["elmo_representations"][0]
    assert torch.equal(found, expected)
    for mixed in (found, expected):
        mixed.square().sum().backward()
    for (name, x), y in zip(elmo.named_parameters(), right.parameters()):
        assert (x.grad is None) == (y.grad is None) == (not trained and name.startswith("bilm"))
        assert x.grad is None or torch.equal(x.grad, y.grad), name


def test_a_hook_of_a_mix_gets_the_mix(bilm_files):
    """By definition of PyTorch's hooks: the module is the one that has the hook."""
    elmo, seen = Elmo.from_files(*bilm_files), []
    elmo.scalar_mix_0.register_forward_hook(lambda mix, *_: seen.append(mix))
    elmo.embed(SENTENCE)
    assert len(seen) == 1 and seen[0] is elmo.scalar_mix_0


def test_a_file_while_another_one_ends(bilm_files, tmp_path, monkeypatch):
    """The words of each part are read in batches of the same size, so that their bits are the same
    in any part, also if another file of the same model is finished in the meantime."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 1)
    elmo, settings = Elmo.from_files(*bilm_files), dump.DumpSettings(layer="top")

    def interrupted():
        yield LINES[0]
        in_another_thread(dump.dump, elmo, LINES[:1], tmp_path / "other", settings)
        yield from LINES[1:]

    encode, asked = WordVectorCache._encode, []
    monkeypatch.setattr(
        WordVectorCache, "_encode", lambda x, words: asked.append(x.same_bits) or encode(x, words)
    )
    dump.dump(elmo, interrupted(), tmp_path / "out", settings)
    assert asked and all(asked)


def test_calls_do_not_wait_for_one_another(bilm_files, monkeypatch):
    """By definition: two threads are in the LSTMs at the same time."""
    elmo, both = Elmo.from_files(*bilm_files), threading.Barrier(2, timeout=60)
    layers = FrozenBiLM.layers

    def meet(*arguments):
        both.wait()
        return layers(*arguments)

    monkeypatch.setattr(FrozenBiLM, "layers", meet)
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(elmo.embed, [SENTENCE] * 2))


def test_the_memory_of_loading(bilm_files):
    """By definition: the old weights are gone when no call reads them, although two modules of the
    biLM have read them and nobody has read the new ones."""
    elmo = Elmo.from_files(*bilm_files)
    other = Elmo(elmo.bilm)
    weights = {name: x.clone() for name, x in elmo.state_dict().items()}
    for reader in (elmo, other):
        reader.embed(SENTENCE)
        reader.fingerprint()
    old = [weakref.ref(x.untyped_storage()) for x in elmo.parameters()]
    elmo.load_state_dict(weights)
    assert not any(storage() for storage in old)


@pytest.mark.parametrize("words", ["boundaries", "a sentence"])
def test_a_fork_while_another_thread_reads(bilm_files, monkeypatch, words):
    """The child has the vectors of the parent. It is forked while another thread is in the token
    encoder, for the state after the first boundary or for a sentence, and would wait for that
    thread's locks forever."""
    elmo = Elmo.from_files(*bilm_files)
    expected = elmo.embed(SENTENCE)
    elmo.clear_caches()
    encoder = type(elmo.bilm.token_encoder)
    forward = encoder.forward
    inside, forked = threading.Event(), threading.Event()

    def wait(encoder, read):
        is_main = threading.current_thread() is threading.main_thread()
        if not is_main and (words == "boundaries") == (len(read.unique(dim=0)) <= 2):
            inside.set()
            forked.wait(60)
        return forward(encoder, read)

    monkeypatch.setattr(encoder, "forward", wait)
    reader = threading.Thread(target=elmo.embed, args=[SENTENCE])
    reader.start()
    assert inside.wait(60)
    child = os.fork()
    if not child:
        signal.alarm(60)  # ends a child that waits
        os._exit(0 if np.allclose(elmo.embed(SENTENCE), expected, atol=1e-6) else 1)
    forked.set()
    reader.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


CHILDREN = """
import os, signal, torch
import elmo_plugin.adapters.spacy_component
from elmo_plugin import Elmo

def child(equal=lambda: True):
    if not (number := os.fork()):
        signal.alarm(60)  # ends a child that waits
        os._exit(torch.get_num_threads() if equal() else 9)
    print(os.waitstatus_to_exitcode(os.waitpid(number, 0)[1]), torch.get_num_threads())

torch.set_num_threads(2)
child()
elmo = Elmo.from_pretrained("tiny")
sentences = ["the dog barks ".split() * 100] * 8
vectors = elmo.embed(sentences)
child(lambda: (abs(elmo.embed(sentences)[7] - vectors[7]) < 1e-5).all())
"""


def test_the_threads_of_a_forked_process():
    """By hand: the child of a process that has computed vectors in two threads has none of them,
    and computes the same vectors in one; a process without a model leaves its children as they are,
    also if it has imported an adapter. The parent keeps its two threads."""
    assert python("-c", CHILDREN).stdout.split("\n") == ["2 2", "1 2", ""]


@pytest.mark.parametrize("trained", [False, True])
def test_no_dropout_in_any_thread(bilm_files, trained):
    """Two `Elmo`s of one biLM, which are in training mode and stay in it, in three threads each. A
    frozen biLM is in training mode itself, as that of another module."""
    one = Elmo.from_files(*bilm_files, dropout=0.5, requires_grad=trained)
    expected = one.eval().embed(SENTENCE)
    both = [one, Elmo(one.bilm, dropout=0.5, requires_grad=trained).train()]
    one.train()
    one.bilm.bilstm.dropout.p = 0.5
    one.bilm.train(not trained)
    with ThreadPoolExecutor(6) as threads:
        for found in threads.map(lambda k: both[k % 2].embed(SENTENCE), range(100)):
            assert_close(found, expected, atol=1e-6, what="vectors")
            assert all(elmo.training for elmo in both)
            assert one.bilm.bilstm.dropout.training != trained
