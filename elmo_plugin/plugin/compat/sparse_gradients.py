"""
The trainer's `grad_norm` calls PyTorch's `clip_grad_norm_`, which in PyTorch 2 does not support the
gradient of an embedding with `sparse: true`:
`Could not run 'aten::linalg_vector_norm' with arguments from the 'SparseCPU' backend`.

This module makes AllenNLP call a version that passes the rows of such a gradient to PyTorch's
function. It refuses rows that `clipped_adagrad` exchanges between processes in its step, which is
later: each process would clip by another norm, and their weights would diverge. Remove it when
PyTorch supports such gradients again.
"""

from collections.abc import Iterable
from typing import Any

import torch
from allennlp.common.util import is_distributed
from allennlp.nn.parallel import ddp_accelerator
from allennlp.training import gradient_descent_trainer, util
from torch.nn.utils import clip_grad_norm_ as clip_dense_grad_norm_

from elmo_plugin.checks import InputError


def clip_grad_norm_(parameters: Iterable[torch.Tensor], *args: Any, **kwargs: Any) -> torch.Tensor:
    """PyTorch's function of this name, for dense and sparse gradients."""
    parameters = list(parameters)
    for parameter in parameters:
        is_exchanged = getattr(parameter, "takes_sparse_gradients", False) and is_distributed()
        if is_exchanged and parameter.grad is not None and parameter.grad.is_sparse:
            raise InputError(
                "trainer: grad_norm: expected false in several processes with sparse_gradients, "
                'found a number; the optimizer of type "clipped_adagrad" has its own grad_norm'
            )
    return clip_dense_grad_norm_([with_dense_gradient(p) for p in parameters], *args, **kwargs)


def with_dense_gradient(parameter: torch.Tensor) -> torch.Tensor:
    """
    `parameter`, or a tensor whose gradient shares memory with the rows of its sparse gradient.
    """
    if parameter.grad is None or not parameter.grad.is_sparse:
        return parameter
    # A row can occur several times in the gradient; the occurrences are added.
    parameter.grad = parameter.grad.coalesce()
    rows = parameter.grad.values()
    stand_in = torch.empty_like(rows)
    stand_in.grad = rows
    return stand_in


for module in (gradient_descent_trainer, ddp_accelerator, util):
    module.clip_grad_norm_ = clip_grad_norm_  # type: ignore[attr-defined]
