"""Apple's GPUs have no float64. No such GPU is needed: the tensors of the model stand for those of
its device, and those of which `cpu` makes copies for the CPU's; PyTorch's fake tensors, which have
no numbers, may be on any device."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from elmo_plugin import LanguageModel
from elmo_plugin.modules.sampled_softmax import expected_count

SENTENCES = [["He", "threw", "it", "."], ["A", "dog", "ran"]]


class NoFloat64(TorchDispatchMode):
    """Refuses float64 of operators that read a tensor which is not on the CPU. A tensor is on the
    CPU if `Tensor.cpu` has returned it, or if it comes from such tensors or from none."""

    def __init__(self) -> None:
        super().__init__()
        self.on_cpu = WeakIdKeyDictionary()

    def cpu(self, x: Tensor) -> Tensor:
        """Instead of the method, which gives a CPU's tensor itself."""
        copied = x.clone()
        self.on_cpu[copied] = True
        return copied

    def __torch_dispatch__(self, function: Any, _: Any, arguments: Any = (), options: Any = None):
        result = function(*arguments, **(options or {}))
        read = [x for x in tree_leaves((arguments, options)) if isinstance(x, Tensor)]
        is_on_cpu = all(x in self.on_cpu for x in read)
        for x in tree_leaves(result):
            if isinstance(x, Tensor) and is_on_cpu:
                self.on_cpu[x] = True
            elif isinstance(x, Tensor) and x.dtype == torch.float64:
                raise AssertionError(f"{function} gives float64 on the device")
        return result


CALLS: dict[str, Callable[[LanguageModel], Any]] = {
    "score": lambda model: model.score(SENTENCES, entropy=True),
    "perplexity": lambda model: model.perplexity(SENTENCES),
    "substitutes": lambda model: model.substitutes(SENTENCES),
    "warm_up": lambda model: model.warm_up(SENTENCES),
}


@pytest.mark.sampled(8)
@pytest.mark.usefixtures("lstm_path")
@pytest.mark.parametrize("frozen", [True, False])
@pytest.mark.parametrize("call", CALLS)
def test_the_device_needs_no_float64(monkeypatch: Any, frozen: bool, call: str) -> None:
    """Property of each call, with and without a snapshot of the biLM."""
    model = LanguageModel.from_pretrained("tiny")
    model.bilm.requires_grad_(not frozen)
    with NoFloat64() as mode:
        monkeypatch.setattr(Tensor, "cpu", lambda x: mode.cpu(x))
        CALLS[call](model)


class NoFloat64OnMPS(TorchFunctionMode):
    """Refuses float64 on Apple's GPUs."""

    def __torch_function__(self, function: Any, _: Any, arguments: Any = (), options: Any = None):
        result = function(*arguments, **(options or {}))
        for x in tree_leaves(result):
            if isinstance(x, Tensor) and x.device.type == "mps" and x.dtype == torch.float64:
                raise AssertionError(f"{function} gives float64 on an Apple GPU")
        return result


def test_a_sampled_loss_needs_no_float64() -> None:
    """Property of the expected counts of the targets and the samples, which are on the device."""
    with FakeTensorMode(), NoFloat64OnMPS():
        words = torch.zeros(6, dtype=torch.long, device="mps")
        counts = expected_count(words, n_tries=25, n_words=300)
    assert counts.device.type == "mps" and counts.dtype == torch.float32
