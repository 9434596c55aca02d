"""An `Elmo` in several threads, one of which changes it or forks."""

import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.elmo.frozen import SharedLock
from elmo_plugin.modules import ScalarMix
from tests.compare import assert_close
from tests.conftest import python, threads

SENTENCE = "He threw the stick to the dog .".split()


@pytest.mark.parametrize("change", ["float", "to", "load_state_dict", "clear_caches"])
def test_a_change_while_other_threads_read(bilm_files, change):
    """The expected vectors are those of one thread, because no change makes other numbers."""
    elmo = Elmo.from_files(*bilm_files)
    expected = elmo.embed(SENTENCE)
    weights = {key: x.clone() for key, x in elmo.state_dict().items()}
    changes = {
        "float": elmo.float,
        "to": lambda: elmo.to("cpu"),
        "load_state_dict": lambda: elmo.load_state_dict(weights),
        "clear_caches": elmo.clear_caches,
    }
    done = threading.Event()

    def read(_):
        found = []
        while not done.is_set():
            found.append(elmo.embed(SENTENCE))
        return found

    with ThreadPoolExecutor(3) as threads:
        readers = [threads.submit(read, k) for k in range(3)]
        try:
            for _ in range(200):
                changes[change]()
        finally:
            done.set()
    for reader in readers:
        assert_close(
            np.array([*reader.result(), expected]),
            expected[None].repeat(len(reader.result()) + 1, axis=0),
            atol=1e-6,
            what=change,
        )


def test_other_weights_while_another_thread_mixes(bilm_files, monkeypatch):
    """Weights are loaded in a thread that starts when the layers are there and their mix is not.
    The vectors are those of the old weights, and not of old layers with a new mix; the next are
    those of the new weights."""
    elmo = Elmo.from_files(*bilm_files)
    old = {key: x.clone() for key, x in elmo.state_dict().items()}
    new = {key: x + 0.5 if "scalar_mix" in key else x for key, x in old.items()}
    expected = []
    for weights in (new, old):
        elmo.load_state_dict(weights)
        expected.append(elmo.embed(SENTENCE))
    assert np.abs(expected[0] - expected[1]).max() > 1e-2
    forward, writers = ScalarMix.forward, []

    def interrupted(mix, *arguments, **options):
        if not writers:
            writers.append(threading.Thread(target=elmo.load_state_dict, args=[new]))
            writers[0].start()
            writers[0].join(0.5)  # it ends only if nobody reads
        return forward(mix, *arguments, **options)

    monkeypatch.setattr(ScalarMix, "forward", interrupted)
    for vectors in expected[::-1]:
        assert_close(elmo.embed(SENTENCE), vectors, atol=1e-6, what="vectors")
        writers[0].join(60)


def vectors(elmo, sentences):
    return np.concatenate(elmo.embed(sentences, max_tokens=1))


def log_probabilities(model, sentences):
    return np.concatenate([x.forward for x in model.score(sentences, max_tokens=1)])


@pytest.mark.parametrize("kind, read", [(Elmo, vectors), (LanguageModel, log_probabilities)])
def test_other_weights_between_two_batches(bilm_archive, monkeypatch, kind, read):
    """A call reads all its sentences with the same weights, although a thread waits to load others
    since its first batch. The next call reads the new ones."""
    elmo = kind.from_archive(bilm_archive)
    old = {key: x.clone() for key, x in elmo.state_dict().items()}
    new = {key: x * 1.5 if x.is_floating_point() else x for key, x in old.items()}
    sentences = [SENTENCE, SENTENCE[:3]]
    expected = []
    for weights in (new, old):
        elmo.load_state_dict(weights)
        expected.append(read(elmo, sentences))
    assert np.abs(expected[0] - expected[1]).max() > 1e-2
    characters, writers = kind._characters, []

    def interrupted(elmo, batch):
        if not writers and batch in ([x] for x in sentences):  # the first batch
            writers.append(threading.Thread(target=elmo.load_state_dict, args=[new]))
            writers[0].start()
            writers[0].join(0.5)  # it ends only if nobody reads
        return characters(elmo, batch)

    monkeypatch.setattr(kind, "_characters", interrupted)
    for right in expected[::-1]:
        assert_close(read(elmo, sentences), right, atol=1e-6, what="numbers")
        writers[0].join(60)


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


CHILD = """
import os, signal, sys, torch
import elmo_plugin.adapters.spacy_component
from elmo_plugin import Elmo

torch.set_num_threads(2)
has_model = sys.argv[1] == "model"
elmo = Elmo.from_pretrained("tiny") if has_model else None
sentences = ["the dog barks ".split() * 100] * 8
vectors = elmo.embed(sentences) if has_model else None
child = os.fork()
if not child:
    signal.alarm(60)  # ends a child that waits
    equal = not has_model or (abs(elmo.embed(sentences)[7] - vectors[7]) < 1e-5).all()
    os._exit(torch.get_num_threads() if equal else 9)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), torch.get_num_threads())
"""


@pytest.mark.parametrize("what, n_threads", [("model", 1), ("no model", 2)])
def test_the_threads_of_a_forked_process(what, n_threads):
    """By hand: the child of a process that has computed vectors in two threads has none of them,
    and computes the same vectors in one; a process without a model leaves its children as they are,
    also if it has imported an adapter. The parent keeps its two threads."""
    assert python("-c", CHILD, what).stdout.split() == [str(n_threads), "2"]


def test_vectors_in_a_forked_worker_of_pytorch(bilm_files):
    """As the documentation says, a `collate_fn` may call ELMo without gradients after the main
    process has computed in several threads. The expected vectors are those of the main process."""
    elmo = Elmo.from_files(*bilm_files)

    def collate(sentences):
        with torch.no_grad():
            return elmo(elmo.characters(sentences))["elmo_representations"][0]

    sentences = [SENTENCE * 50] * 8
    elmo.eval()
    with threads(2):
        expected = collate(sentences)
        elmo.clear_caches()
        loader = DataLoader(
            sentences,
            8,
            collate_fn=collate,
            num_workers=1,
            multiprocessing_context="fork",
            timeout=60,
        )
        (found,) = loader
    assert_close(found, expected, atol=1e-6, what="vectors")


def test_no_dropout_in_any_thread(bilm_files):
    """Two `Elmo`s of one biLM, which is in training mode, in three threads each."""
    one = Elmo.from_files(*bilm_files)
    expected = one.embed(SENTENCE)
    other = Elmo(one.bilm)
    one.bilm.bilstm.dropout.p = 0.5
    one.bilm.train()
    with ThreadPoolExecutor(6) as threads:
        for found in threads.map(lambda k: (one, other)[k % 2].embed(SENTENCE), range(100)):
            assert_close(found, expected, atol=1e-6, what="vectors")


def test_alone_and_shared():
    """By definition: users are in it together, nobody is in it with one that is alone, and a thread
    may enter it again."""
    lock = SharedLock()
    inside, alone = set(), []

    def use(number):
        for _ in range(50):
            with lock.shared(), lock.shared():
                inside.add(number)
                assert not alone
                inside.discard(number)

    def change(number):
        for _ in range(50):
            with lock.alone(), lock.alone(), lock.shared():
                alone.append(number)
                assert not inside and alone == [number]
                alone.remove(number)

    with ThreadPoolExecutor(6) as threads:
        for done in [threads.submit(f, k) for k, f in enumerate([use, change] * 3)]:
            done.result(timeout=60)


def test_users_are_in_it_together():
    lock, both = SharedLock(), threading.Barrier(2, timeout=60)

    def use(_):
        with lock.shared():
            both.wait()

    with ThreadPoolExecutor(2) as threads:
        list(threads.map(use, range(2)))
