from collections.abc import Collection, Iterable
from typing import Any, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
from allennlp.common.util import is_distributed
from allennlp.training import GradientDescentTrainer
from allennlp.training.optimizers import AdagradOptimizer, AdamOptimizer, Optimizer
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_

from allennlp_today.training import with_dense_gradient
from elmo_plugin.checks import InputError, check_choice, check_number

CLIPPED_ADAGRAD = 'optimizer of type "clipped_adagrad": '
ADAGRAD_OPTIONS = ("lr", "lr_decay", "weight_decay", "eps")
ADAM_OPTIONS = ("lr", "betas", "eps", "weight_decay", "amsgrad")
"""Options that PyTorch reads from a parameter group; it silently ignores all others."""


def check_group(name: str, group: Dict[str, Any], options: Collection[str]) -> None:
    """Check the options of one of an optimizer's `parameter_groups`."""
    for option in group.keys() - {"params"}:
        check_choice(f"{name}parameter_groups: option", option, options)
        if option not in ("betas", "amsgrad"):
            check_number(f"{name}parameter_groups: {option}", group[option], least=0)


@Optimizer.register("clipped_adagrad")
class ClippedAdagradOptimizer(AdagradOptimizer):
    """
    Adagrad after clipping by the global norm, for models with row-sparse gradients: the `bilm` with
    `sparse_gradients`, or an embedding with `sparse`. It is equivalent to the optimizer `adagrad`
    with the trainer's `grad_norm`, which supports only dense gradients. Leave the trainer's
    `grad_norm` at its default, `false`, because this optimizer clips.

    A step reads and writes only the rows in a table's sparse gradient. That is exact, because
    Adagrad does not change rows without a gradient.

    With several processes, this optimizer exchanges the rows. The model excludes such tables from
    PyTorch's distributed data parallel.

    Registered as an `Optimizer` with name "clipped_adagrad".

    # Parameters

    parameter_groups : `List[Tuple[List[str], Dict[str, Any]]]`, optional
        Regular expressions for parameter names, and `lr`, `lr_decay`, `weight_decay` (not for
        tables with sparse gradients), `eps` or `"requires_grad": false` for these parameters, as in
        AllenNLP's other optimizers.
    lr : `float`, optional (default = `0.2`)
        Learning rate. This and the next two defaults are bilm-tf's.
    initial_accumulator_value : `float`, optional (default = `1.0`)
        Initial value of Adagrad's sums of squares.
    grad_norm : `float`, optional (default = `10.0`)
        Maximum global norm; larger gradients are scaled down to it.
    """

    def __init__(
        self,
        model_parameters: List[Tuple[str, torch.nn.Parameter]],
        parameter_groups: Optional[List[Tuple[List[str], Dict[str, Any]]]] = None,
        lr: float = 0.2,
        initial_accumulator_value: float = 1.0,
        grad_norm: float = 10.0,
    ) -> None:
        check_number(f"{CLIPPED_ADAGRAD}grad_norm", grad_norm, above=0)
        super().__init__(
            model_parameters,
            parameter_groups,  # type: ignore[arg-type]
            lr=lr,
            initial_accumulator_value=initial_accumulator_value,
        )
        self._grad_norm = grad_norm
        for parameter in (p for group in self.param_groups for p in group["params"]):
            # `check_optimizer` looks for this attribute.
            parameter.takes_sparse_gradients = True  # type: ignore[attr-defined]
            if is_distributed():
                # Distributed data parallel does this for all tables that are not excluded.
                dist.broadcast(parameter.data, 0)

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        check_group(CLIPPED_ADAGRAD, param_group, ADAGRAD_OPTIONS)
        super().add_param_group(param_group)

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """
        Clip the gradients and make a step. Unlike in PyTorch's optimizers, there is no closure.
        """
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        for parameter in parameters:
            if is_distributed() and parameter.grad is not None and parameter.grad.is_sparse:
                parameter.grad = mean_over_processes(parameter.grad.coalesce())
        clip_grad_norm_([with_dense_gradient(p) for p in parameters], self._grad_norm)
        gradients = [parameter.grad for parameter in parameters]
        # In turns, because PyTorch joins a group's parameters in one operator if all are dense.
        for layout in (torch.strided, torch.sparse_coo):
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = gradient if getattr(gradient, "layout", None) == layout else None
            # The explicit value prevents PyTorch's warning about unchecked invariants.
            with torch.sparse.check_sparse_tensor_invariants(enable=False):
                super().step()
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient


def check_optimizer(tables: Iterable[nn.Parameter]) -> None:
    """
    Raise an `InputError` if no optimizer has declared that it supports row-sparse gradients of
    `tables`. Most of PyTorch's optimizers do not, nor does its clipping, and the weights of several
    processes would silently diverge.
    """
    learning = (table for table in tables if table.requires_grad)
    if not all(getattr(table, "takes_sparse_gradients", False) for table in learning):
        raise InputError(
            'sparse_gradients: expected the optimizer of type "clipped_adagrad", found another; '
            "write optimizer: { type: 'clipped_adagrad' } and grad_norm: false into the trainer, "
            "because that optimizer has its own grad_norm"
        )


def mean_over_processes(gradient: Tensor) -> Tensor:
    """
    Return the mean of the processes' gradients of one table, as distributed data parallel does for
    dense ones. Every process must call this, and all results are bit-identical. `gradient` and the
    result are coalesced and sparse in the first dimension. NCCL cannot sum sparse tensors as Gloo
    can, so the rows are exchanged as dense tensors of the same shape in all processes, which both
    can gather.
    """
    n_rows = torch.tensor([gradient.indices().size(1)], device=gradient.device)
    counts = torch.cat(_gather(n_rows)).tolist()
    rows = _gather_first(gradient.indices()[0], counts)
    values = _gather_first(gradient.values(), counts) / len(counts)
    table = torch.sparse_coo_tensor(rows[None], values, gradient.shape, check_invariants=False)
    return table.coalesce()


def _gather_first(own: Tensor, counts: list[int]) -> Tensor:
    """Concatenate the first elements of all processes; `counts` is their number in each process."""
    padding = [0, 0] * (own.dim() - 1) + [0, max(counts) - len(own)]
    return torch.cat([x[:n] for x, n in zip(_gather(F.pad(own, padding)), counts)])


def _gather(own: Tensor) -> list[Tensor]:
    everyones = [torch.empty_like(own) for _ in range(dist.get_world_size())]
    dist.all_gather(everyones, own.contiguous())
    return everyones


_rescale_gradients = GradientDescentTrainer.rescale_gradients


def _rescale_unless_exchanged_later(self: GradientDescentTrainer) -> Optional[float]:
    """
    AllenNLP's method, which comes before `ClippedAdagradOptimizer.step`. Each process would clip
    by the norm of its own rows, and their weights would diverge.
    """
    if self._grad_norm and is_distributed():
        for parameter in self.model.parameters():
            is_exchanged = getattr(parameter, "takes_sparse_gradients", False)
            if is_exchanged and parameter.grad is not None and parameter.grad.is_sparse:
                raise InputError(
                    "trainer: grad_norm: expected false in several processes with "
                    'sparse_gradients, found a number; the optimizer of type "clipped_adagrad" has '
                    "its own grad_norm"
                )
    return _rescale_gradients(self)


GradientDescentTrainer.rescale_gradients = _rescale_unless_exchanged_later  # type: ignore[method-assign]


@Optimizer.register("fused_adam")
class FusedAdamOptimizer(AdamOptimizer):
    """
    AllenNLP's `adam` with PyTorch's fused operator. Parameters are the same, and results are the
    same up to rounding. A step reads and writes each tensor once, and takes a third of the time on
    a CPU.

    Registered as an `Optimizer` with name "fused_adam".
    """

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        check_group('optimizer of type "fused_adam": ', param_group, ADAM_OPTIONS)
        super().add_param_group({**param_group, "fused": True})
