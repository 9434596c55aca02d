"""These tests compare products in bf16 with those in fp32."""

from unittest.mock import Mock

import pytest
import torch
from torch.nn.functional import cosine_similarity

from elmo_plugin.modules import BiLM
from elmo_plugin.modules.sampled_softmax import SampledSoftmax
from elmo_plugin.ops import private_torch
from tests.random_bilm import random_bilm, read_sentences

pytestmark = pytest.mark.usefixtures("lstm_path", "native_bf16")


def layers_of(bilm: BiLM) -> torch.Tensor:
    """The vectors of every layer of a few sentences."""
    torch.manual_seed(0)
    tokens = torch.randint(1, 200, (3, 6, 10))
    tokens[1, 4:] = 0
    layers, _ = read_sentences(bilm, tokens, bilm.bilstm.zero_state(3))
    return torch.cat([h[row, :n] for h in layers for row, n in enumerate((8, 6, 8))])


def vectors_and_gradient(bilm: BiLM, precision: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the vectors, and the gradient of all parameters, flat."""
    bilm.set_precision(precision)
    bilm.zero_grad()
    vectors = layers_of(bilm)
    vectors.square().sum().backward()
    gradients = [p.grad.flatten() for p in bilm.parameters() if p.grad is not None]
    return vectors.detach(), torch.cat(gradients)


def test_bf16_is_near_fp32():
    """The mean cosine with fp32 is at least 0.999, and all results are fp32."""
    bilm = random_bilm().bilm
    expected, expected_gradient = vectors_and_gradient(bilm, "fp32")
    found, gradient = vectors_and_gradient(bilm, "bf16")
    assert found.dtype == gradient.dtype == torch.float32
    assert not torch.equal(found, expected)
    assert cosine_similarity(found, expected, dim=-1).mean() > 0.999
    assert cosine_similarity(gradient, expected_gradient, dim=0) > 0.99


def test_a_cpu_without_bfloat16_uses_fp32(monkeypatch):
    """Property: vectors and gradients are those of fp32, bit by bit."""
    monkeypatch.setattr(private_torch, "CPU_HAS_BFLOAT16", False)
    bilm = random_bilm().bilm
    expected, expected_gradient = vectors_and_gradient(bilm, "fp32")
    found, gradient = vectors_and_gradient(bilm, "bf16")
    assert bilm.precision == "fp32"
    assert torch.equal(found, expected) and torch.equal(gradient, expected_gradient)
    softmax, losses = SampledSoftmax(n_words=50, dim=8, n_negative_samples=10), []
    for softmax.precision in (None, torch.bfloat16):
        torch.manual_seed(0)
        losses.append(softmax(torch.randn(5, 8), torch.arange(5)))
    assert torch.equal(*losses)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_under_autocast(dtype, precision):
    """Vectors, with a gradient and without, and gradients are near those of fp32, and in fp32. A
    task may fine-tune a biLM under AllenNLP's `use_amp`."""
    bilm = random_bilm().bilm
    expected, expected_gradient = vectors_and_gradient(bilm, "fp32")
    with torch.autocast("cpu", dtype):
        found, gradient = vectors_and_gradient(bilm, precision)
        frozen = layers_of(bilm.requires_grad_(False))
    for x in (found, frozen):
        assert x.dtype == gradient.dtype == torch.float32
        assert cosine_similarity(x, expected, dim=-1).mean() > 0.999
    assert cosine_similarity(gradient, expected_gradient, dim=0) > 0.99


def test_which_processors_have_bfloat16(monkeypatch):
    """PyTorch's names of what a CPU can do, and NVIDIA's compute capabilities: the T4 has 7.5 and
    no bfloat16; the A100 has 8.0 and bfloat16."""
    for name, expected in (("avx512_bf16", True), ("bf16", True), ("avx2", False)):
        names = {name: True, "amx_bf16": False}
        monkeypatch.setattr(private_torch, "_capabilities", lambda names=names: names)
        assert private_torch._cpu_has_bfloat16() == expected
    for capability, expected in (((7, 5), False), ((8, 0), True)):
        monkeypatch.setattr(torch.cuda, "get_device_capability", Mock(return_value=capability))
        assert private_torch.has_native_bfloat16(torch.device("cuda", 0)) == expected
