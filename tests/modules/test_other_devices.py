"""No GPU is needed for these tests: the device `meta` computes shapes alone and has no numbers that
could be read back, which a GPU could only do after the last kernel has ended."""

from typing import Any
from unittest.mock import Mock

import pytest
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from elmo_plugin import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.modules.sampled_softmax import log_uniform_sample
from elmo_plugin.ops.linear import on_device
from elmo_plugin.options import BiLMOptions
from tests.conftest import BLOCKS


class NoCopies(TorchFunctionMode):
    """Refuses to make a tensor of Python's numbers or to read or write one on the CPU, which copies
    to or from the device, other than single numbers."""

    def __torch_function__(self, function: Any, _: Any, arguments: Any = (), options: Any = None):
        result = function(*arguments, **(options or {}))
        of_cpu = function in (torch.tensor, torch.as_tensor, torch.from_numpy)
        for x in tree_leaves((arguments, options, result)):
            if isinstance(x, Tensor) and x.dim() and (of_cpu or x.device.type == "cpu"):
                raise AssertionError(f"{function} copies to or from the device")
        return result


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_training_waits_for_no_number_and_copies_nothing(precision):
    """Property: a forward and a backward pass of the biLM, with the state carried on, need no
    number of the device and no tensor of the CPU."""
    with torch.device("meta"):
        bilm = BiLM(BiLMOptions.from_dict(BLOCKS, source="test"), dropout=0.1)
        bilm.set_precision(precision)
        words = torch.zeros(7, bilm.max_characters_per_token, dtype=torch.int16)
        places = torch.zeros(3, 5, dtype=torch.long)
    with NoCopies():
        state = bilm.bilstm.zero_state(3)
        for _ in range(2):
            layers, state = bilm(words, places, places, state)
        layers[-1].sum().backward()
    assert all(x.grad is not None and x.grad.is_meta for x in bilm.parameters())
    assert layers[-1].shape == (2, 5, 3, bilm.bilstm.projection_dim)


@pytest.mark.parametrize("requires_grad", [False, True])
def test_sentences_wait_for_no_number(requires_grad):
    """Property: a biLM reads sentences that are on the CPU without any number of its device, with
    and without cached words, for a batch with padding."""
    with torch.device("meta"):
        bilm = BiLM(BiLMOptions.from_dict(BLOCKS, source="test"))
    elmo = Elmo(bilm, requires_grad=requires_grad)
    tokens = Elmo(BiLM(bilm.options)).characters([["He", "threw", "it"], ["Yes"]])
    for _ in range(2):
        layers, mask = elmo.layers(tokens)
        assert layers[-1].is_meta and layers[-1].shape == (2, 5, elmo.output_dim)
        assert mask.is_meta and mask.shape == (2, 5)


def test_copies_to_a_gpu_do_not_wait():
    """By definition of PyTorch: a copy waits unless it is from pinned memory and non-blocking. The
    tensor is a stand-in, because memory is pinned with a GPU only."""
    gpu, x = torch.device("cuda"), Mock(device=torch.device("cpu"))
    assert on_device(x, gpu) is x.pin_memory().to.return_value
    x.pin_memory().to.assert_called_once_with(gpu, non_blocking=True)
    there = Mock(device=gpu)
    on_device(there, gpu)
    there.pin_memory.assert_not_called()


@pytest.mark.usefixtures("lstm_path")
def test_the_default_device_may_be_another(bilm_files):
    """Property: a model on the CPU has the same vectors while tensors are made on another device by
    default, and its loss draws the same samples. A model that is made then is there as a whole."""
    elmo = Elmo.from_files(*bilm_files)
    expected = elmo.embed("He threw the stick .")
    elmo.clear_caches()
    torch.manual_seed(0)
    samples = log_uniform_sample(5, 100)
    with torch.device("meta"):
        assert (elmo.embed("He threw the stick .") == expected).all()
        torch.manual_seed(0)
        found = log_uniform_sample(5, 100)
        bilm = BiLM(BiLMOptions.from_dict(BLOCKS, source="test"))
    assert torch.equal(found[0], samples[0]) and found[1] == samples[1]
    assert all(x.is_meta for x in (*bilm.parameters(), *bilm.buffers()))
