"""
AllenNLP finds two faults of a config late. Importing this makes them errors before anything is
read.

- AllenNLP asks PyTorch for the device of a GPU's number before it checks whether there is such a
  GPU, and PyTorch 2 then raises an error about accelerators; for a `trainer`, only after the text
  was read. The error now names the number, in all commands.
- After a distributed training, AllenNLP evaluates on the test data (`evaluate_on_test`) in one
  process alone. Metrics are exchanged with the other processes, which have ended, so that the run
  fails without a `model.tar.gz`.

Remove each when AllenNLP's own check comes first, or when it evaluates in all processes.
"""

from functools import wraps
from typing import Any

import torch
from allennlp.commands import train
from allennlp.common import Params, util
from allennlp.models import Model

from elmo_plugin.checks import device_named, fail

_train_model = train.train_model


def _device(device: int | torch.device) -> torch.device:
    if isinstance(device, torch.device):
        return device
    is_cpu = isinstance(device, int) and device < 0
    return torch.device(device_named("cuda_device", -1 if is_cpu else device))


@wraps(_train_model)
def _train_model_after_checks(params: Params, *args: Any, **kwargs: Any) -> Model | None:
    if params.params.get("distributed") and params.params.get("evaluate_on_test"):
        expected = "false with distributed (allennlp evaluate does it afterwards)"
        fail("evaluate_on_test", expected, True)
    trainer = params.params.get("trainer")
    if isinstance(trainer, dict) and (device := trainer.get("cuda_device")) is not None:
        _device(device)
    return _train_model(params, *args, **kwargs)


util.int_to_device = _device
train.train_model = _train_model_after_checks
