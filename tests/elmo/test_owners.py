"""Several modules of one biLM, which share its settings, and the state that `carry` carries."""

import copy
import gc
import io
import pickle
import threading
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils.hooks import RemovableHandle

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.elmo.frozen import FrozenBiLM
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.modules.language_model import BiLMWithSoftmax
from tests.compare import assert_close
from tests.random_bilm import random_bilm

SENTENCE = "He threw the stick to the dog .".split()
WORDS = ["<S>", "</S>", "<UNK>", "the", "dog"]


def scorer(bilm: BiLM, **settings: Any) -> LanguageModel:
    softmax = SampledSoftmax(n_words=len(WORDS), dim=5, n_negative_samples=None)
    return LanguageModel(bilm, softmax, WORDS, **settings)


def settings_of(bilm: BiLM) -> tuple[bool, str]:
    return all(x.requires_grad for x in bilm.parameters()), bilm.permitted_precision


@pytest.mark.parametrize("other", [Elmo, scorer])
def test_another_owner_leaves_fine_tuning_on(other: Callable[..., Any]) -> None:
    """The gradient of the biLM is the one that it has without the other module, which reads the
    same vectors."""
    gradients = []
    for is_shared in (False, True):
        elmo = Elmo(random_bilm().bilm, requires_grad=True)
        reader = other(elmo.bilm if is_shared else random_bilm().bilm)
        (reader.embed if isinstance(reader, Elmo) else reader.score)([SENTENCE])
        elmo(elmo.characters([SENTENCE]))["elmo_representations"][0].sum().backward()
        gradients.append([x.grad for x in elmo.bilm.parameters()])
    for found, expected in zip(*gradients):
        assert found is not None and torch.equal(found, expected)


@pytest.mark.parametrize("other", [Elmo, scorer])
@pytest.mark.parametrize("precision", ["fp32", "bf16", "int8"])
def test_a_precision_stays_until_another_is_asked_for(precision, other):
    """By definition, with the first owner and when it no longer exists."""
    first = Elmo(random_bilm().bilm, precision=precision)
    bilm = first.bilm
    second = other(bilm)
    assert settings_of(bilm) == (False, precision)
    del first, second
    third = other(bilm)
    assert settings_of(bilm) == (False, precision)
    del third
    assert Elmo(bilm, precision="fp32").bilm.permitted_precision == "fp32"


@pytest.mark.parametrize(
    "own, asked",
    [
        ({}, {"requires_grad": True}),
        ({"requires_grad": True}, {"requires_grad": False}),
        ({"precision": "bf16"}, {"precision": "fp32"}),
        ({"precision": "int8"}, {"requires_grad": True}),
        ({"requires_grad": True, "precision": "bf16"}, {"precision": "int8"}),
    ],
)
def test_other_settings_are_refused_while_an_owner_exists(own: dict, asked: dict) -> None:
    """The error names both settings, the biLM stays as it was, and the refused module is no owner:
    when the first one no longer exists, the same settings are accepted, and are the biLM's."""
    first = Elmo(random_bilm().bilm, **own)
    bilm = first.bilm
    trained, precision = before = settings_of(bilm)
    with pytest.raises(InputError, match=r"expected .*, as the Elmo .*, found ") as error:
        Elmo(bilm, **asked)
    message = str(error.value)
    for value in (precision, trained, *asked.values()):
        assert str(value).lower() in message
    assert settings_of(bilm) == before
    assert Elmo(bilm, **own).bilm is bilm  # equal settings are shared
    del first, error  # whose frames have the first one, too
    bilm.set_precision("fp32")
    Elmo(bilm, **asked)
    wanted = {"requires_grad": False, "precision": "fp32", **asked}
    assert settings_of(bilm) == tuple(wanted.values())


def test_an_owner_is_gone_when_nothing_refers_to_it() -> None:
    """Without the garbage collector, as by `del` in a notebook, after it was used in each way."""
    gc.disable()
    try:
        elmo = Elmo(random_bilm().bilm)
        bilm = elmo.bilm
        elmo.embed([SENTENCE])
        elmo.load_state_dict(elmo.state_dict())
        elmo.float().eval()
        elmo.fingerprint()
        del elmo
        elmo = Elmo(bilm, requires_grad=True)
        elmo(elmo.characters([SENTENCE]))["elmo_representations"][0].sum().backward()
        del elmo
        assert settings_of(Elmo(bilm, precision="bf16").bilm) == (False, "bf16")
    finally:
        gc.enable()


def test_a_part_that_was_frozen_by_hand_stays_frozen() -> None:
    """By definition: fine-tuning of only a part is fine-tuning, and is shared as it is."""
    elmo = Elmo(random_bilm().bilm, requires_grad=True)
    elmo.bilm.token_encoder.requires_grad_(False)
    other = Elmo(elmo.bilm, requires_grad=True)
    trained = {name for name, x in other.bilm.named_parameters() if x.requires_grad}
    assert trained == {name for name, _ in elmo.bilm.named_parameters() if "bilstm" in name}


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_a_copy_owns_its_biLM(copied: Callable[[Elmo], Elmo]) -> None:
    """A copy has a biLM of its own, whose settings are those of the original until it no longer
    exists. The original's are never touched."""
    elmo = Elmo(random_bilm().bilm, precision="bf16")
    twin = copied(elmo)
    bilm = twin.bilm
    assert bilm is not elmo.bilm and settings_of(bilm) == (False, "bf16")
    with pytest.raises(InputError, match="as the Elmo that has the same biLM"):
        Elmo(bilm, requires_grad=True)
    del twin
    assert settings_of(Elmo(bilm, requires_grad=True, precision="fp32").bilm) == (True, "fp32")
    assert settings_of(elmo.bilm) == (False, "bf16")


def test_a_language_model_in_training_is_an_owner() -> None:
    """The vectors of a language model while it is trained do not end its training."""
    model = BiLMWithSoftmax(random_bilm().bilm.options, n_words=9, precision="bf16")
    elmo = Elmo(model.bilm)
    assert elmo.embed([SENTENCE])[0].shape == (8, 10)
    assert settings_of(model.bilm) == (True, "bf16")
    with pytest.raises(InputError, match="as the BiLMWithSoftmax that has the same biLM"):
        Elmo(model.bilm, requires_grad=False)
    with pytest.raises(InputError, match="cache_dir: expected a frozen biLM"):
        Elmo(model.bilm, cache_dir="unused")


@pytest.mark.parametrize("trained", [False, True])
def test_a_carried_state_has_the_type_of_the_biLM(trained: bool) -> None:
    """The biLM is float16 for one batch, and then float32 again. The state differs after several
    batches from that of an `Elmo` in float32 only by what its memory has left of the first."""
    states = []
    for first in (torch.float32, torch.float16):
        elmo = Elmo(random_bilm().bilm, initial_state="carry", requires_grad=trained)
        for dtype, n_rows in ((first, 2), (torch.float32, 1), (torch.float32, 2)):
            elmo.bilm.to(dtype)
            found = elmo.embed([SENTENCE] * n_rows, "top", as_tensors=True)
        assert all(x.dtype == torch.float32 for x in found)
        states.append(elmo.carried.state)
    for right, state in zip(*states):
        assert state.dtype == torch.float32
        assert_close(state.numpy(), right.numpy(), what="state", atol=0.02)


READS: dict[str, tuple[Any, Callable[[Any], Any]]] = {
    "embed": (Elmo, lambda elmo: elmo.embed(SENTENCE)),
    "forward": (Elmo, lambda elmo: elmo(elmo.characters([SENTENCE]))),
    "score": (scorer, lambda model: model.score(SENTENCE)),
    "substitutes": (scorer, lambda x: (x.score(SENTENCE), x.substitutes(SENTENCE))),
}


@pytest.mark.parametrize("kind", READS)
def test_no_update_of_a_carried_state_is_lost(kind: str, monkeypatch: Any) -> None:
    """A second thread starts when the first is in the LSTMs, which goes on when the second is there
    too or has had the time to get there. The state is the one after both, read one after the other
    in one thread."""
    make, read = READS[kind]
    expected, found = (make(random_bilm().bilm, initial_state="carry") for _ in range(2))
    read(expected)
    read(expected)
    sentences, arrived = FrozenBiLM.sentences, threading.Event()
    second = threading.Thread(target=read, args=[found])

    def interrupted(*arguments: Any) -> Any:
        if threading.current_thread() is second:
            arrived.set()
        elif second.ident is None:
            second.start()
            arrived.wait(0.5)
        return sentences(*arguments)

    monkeypatch.setattr(FrozenBiLM, "sentences", interrupted)
    read(found)
    second.join(60)
    assert not second.is_alive()
    for x, y in zip(found.carried.state, expected.carried.state):
        assert_close(x.numpy(), y.numpy(), what="state", atol=1e-6)


class ByValue(pickle.Pickler):
    """Tensors by their values, as `datasets` hashes the objects of a function that it maps."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            return torch.tensor, (value.detach().cpu().numpy(),)
        return NotImplemented


def pickled(elmo: Elmo) -> bytes:
    file = io.BytesIO()
    ByValue(file).dump(elmo)
    return file.getvalue()


def test_equal_models_are_pickled_equally() -> None:
    """By definition: what `datasets` has cached with one is found with the other, also after its
    use. PyTorch's own form of a tensor has its address in memory."""
    first, second = Elmo.from_pretrained("tiny"), Elmo.from_pretrained("tiny")
    first.embed(SENTENCE)
    other = Elmo.from_pretrained("tiny", precision="bf16")
    assert pickled(first) == pickled(second) != pickled(other)


def test_a_hook_that_is_added_to_an_unpickled_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: it replaces none, although PyTorch numbers the hooks of each process from 0.
    The model's own hook takes the carried states out of the weights."""
    monkeypatch.setattr(RemovableHandle, "next_id", 0)
    elmo, other = (Elmo.from_pretrained("tiny", initial_state="carry") for _ in range(2))
    elmo.embed(SENTENCE)
    copied = pickle.loads(pickle.dumps(other))
    monkeypatch.setattr(RemovableHandle, "next_id", 0)
    for _ in range(20):
        copied.register_load_state_dict_pre_hook(lambda *_: None)
    copied.load_state_dict(elmo.state_dict() | {"resume_state": elmo.resume_state()})
    assert (copied.embed(["dog"], "top") == elmo.embed(["dog"], "top")).all()
