"""
AllenNLP asks PyTorch for the device of a GPU's number before it checks whether there is such a GPU,
and PyTorch 2 then raises an error about accelerators. For a `trainer`, it does so only after the
text was read. Importing this makes it an error that names the number, before anything is read.
Remove it when AllenNLP's own check comes first.
"""

from functools import wraps
from typing import Any

import torch
from allennlp.commands import train
from allennlp.common import Params, util
from allennlp.models import Model

from elmo_plugin.elmo.arguments import device_named

_train_model = train.train_model


def _device(device: int | torch.device) -> torch.device:
    if isinstance(device, torch.device):
        return device
    is_cpu = isinstance(device, int) and device < 0
    return torch.device(device_named("cuda_device", -1 if is_cpu else device))


@wraps(_train_model)
def _train_model_on_a_device(params: Params, *args: Any, **kwargs: Any) -> Model | None:
    trainer = params.params.get("trainer")
    if isinstance(trainer, dict) and (device := trainer.get("cuda_device")) is not None:
        _device(device)
    return _train_model(params, *args, **kwargs)


util.int_to_device = _device
train.train_model = _train_model_on_a_device
