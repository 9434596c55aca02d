"""
Several processes sum their gradients in buckets, and the place of a gradient in its bucket decides
in which order the numbers of three or more processes are added. PyTorch's distributed data parallel
begins with one bucket, and after the first step makes others, in the order in which gradients
became ready. A recovered run began with one bucket again, so that its first step added in another
order than the same step of an uninterrupted run, and the weights differed in their last bits.

Importing this makes AllenNLP use a subclass whose order can be saved and restored, which the
checkpointer `bilm` does. Remove it when PyTorch can be given its buckets.
"""

from typing import Any
from unittest.mock import patch

import torch
from allennlp.models import Model
from allennlp.nn.parallel import DdpWrappedModel, TorchDdpAccelerator
from torch.nn.parallel import DistributedDataParallel

GRADIENT_ORDER = "gradient_order"
"""Key of the order in the model's state on recovery. A `load_state_dict` pre-hook removes it."""

_wrap_model = TorchDdpAccelerator.wrap_model


class ResumableDistributedDataParallel(DistributedDataParallel):
    """PyTorch's class with a way to save and restore the order of the gradients."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._gradient_order: list[int] | None = None
        self.register_load_state_dict_pre_hook(_take_gradient_order)

    def gradient_order(self) -> list[int] | None:
        """
        The numbers of the parameters in the order of their gradients, the same in all processes, or
        `None` if PyTorch keeps its first buckets. Every process must call this after the same step.
        """
        if self._gradient_order is None and not self.find_unused_parameters:
            # After the first step, as PyTorch otherwise does before the second.
            self.reducer._rebuild_buckets()
            number_of = {p: i for i, p in enumerate(self._build_params_for_reducer()[0])}
            buckets = self.reducer._get_zeros_like_grad_buckets()
            self._gradient_order = [number_of[p] for b in buckets for p in b.parameters()]
        return self._gradient_order

    def set_gradient_order(self, order: list[int]) -> None:
        """Make the buckets of a run with this order. Every process must call this."""
        parameters, are_sparse = self._build_params_for_reducer()
        parameters = [parameters[i] for i in order]
        names = self._build_debug_param_to_name_mapping(parameters)
        self._ddp_init_helper(parameters, [are_sparse[i] for i in order], names, self.static_graph)
        # As if all gradients had become ready in the order of this list.
        self.reducer._push_all_rebuilt_params()
        self.reducer._rebuild_buckets()
        self._gradient_order = order


def _take_gradient_order(
    module: ResumableDistributedDataParallel, state_dict: dict[str, Any], *_: Any
) -> None:
    if GRADIENT_ORDER in state_dict:
        module.set_gradient_order(state_dict.pop(GRADIENT_ORDER))


def wrap_model(self: TorchDdpAccelerator, model: Model) -> tuple[Model, DdpWrappedModel]:
    """AllenNLP's method of this name, with the class of this module."""
    parallel = torch.nn.parallel
    with patch.object(parallel, "DistributedDataParallel", ResumableDistributedDataParallel):
        return _wrap_model(self, model)


TorchDdpAccelerator.wrap_model = wrap_model  # type: ignore[method-assign]
