"""A CPU that computes as a GPU. It imports no AllenNLP, which takes longer than a short test."""

import pytest

from elmo_plugin.modules import sampled_softmax
from elmo_plugin.ops import backend, char_conv, linear, lstm, softmax


def as_on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lets a CPU compute everything as another device does, without what is made for CPUs."""
    modules = backend, char_conv, linear, lstm, lstm.torch_ops, softmax.torch_ops, sampled_softmax
    for module in modules:
        monkeypatch.setattr(module, "is_on_cpu", lambda _: False)
    monkeypatch.setattr(linear, "is_onednn_weight", lambda _: False)
