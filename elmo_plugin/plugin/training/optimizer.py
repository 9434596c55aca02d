import re
from collections.abc import Mapping
from functools import partial
from typing import Any, Callable, Dict, List, Optional, Tuple

import torch
import torch.distributed as dist
from allennlp.common.util import is_distributed
from allennlp.training.optimizers import AdagradOptimizer, AdamOptimizer, Optimizer
from torch import Tensor

from elmo_plugin.checks import check_choice, check_flag, check_number, fail
from elmo_plugin.plugin.training.row_exchange import mean_over_processes

check_not_negative = partial(check_number, least=0)
ADAGRAD_OPTIONS = dict.fromkeys(("lr", "lr_decay", "weight_decay", "eps"), check_not_negative)
"""Options that PyTorch's Adagrad reads from a group; it silently ignores all others."""


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
        name = 'optimizer of type "clipped_adagrad": '
        check_not_negative(f"{name}lr", lr)
        check_not_negative(f"{name}initial_accumulator_value", initial_accumulator_value)
        check_number(f"{name}grad_norm", grad_norm, above=0)
        _check_groups(f"{name}parameter_groups", parameter_groups, ADAGRAD_OPTIONS)
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

    @torch.no_grad()
    def step(self) -> None:  # type: ignore[override]
        """
        Clip the gradients and make a step. Unlike in PyTorch's optimizers, there is no closure.
        """
        gradients = []
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                if not parameter.grad.is_sparse:
                    gradients.append(parameter.grad)
                    continue
                if group["weight_decay"]:
                    fail(
                        'optimizer of type "clipped_adagrad": parameter_groups: weight_decay',
                        "0 for parameters with sparse gradients",
                        group["weight_decay"],
                    )
                summed = parameter.grad.coalesce()
                parameter.grad = mean_over_processes(summed) if is_distributed() else summed
                gradients.append(parameter.grad.values())
        _clip(gradients, self._grad_norm)
        # The explicit value prevents PyTorch's warning about unchecked invariants.
        with torch.sparse.check_sparse_tensor_invariants(enable=False):
            super().step()


@Optimizer.register("fused_adam")
class FusedAdamOptimizer(AdamOptimizer):
    """
    AllenNLP's `adam` with PyTorch's fused operator. Parameters are the same, and results are the
    same up to rounding. A step reads and writes each tensor once, and takes a third of the time on
    a CPU.

    Registered as an `Optimizer` with name "fused_adam".

    # Parameters

    parameter_groups : `List[Tuple[List[str], Dict[str, Any]]]`, optional
        Regular expressions for parameter names, and `lr`, `betas`, `eps`, `weight_decay`, `amsgrad`
        or `"requires_grad": false` for these parameters.
    lr : `float`, optional (default = `0.001`)
        Learning rate.
    betas : `Tuple[float, float]`, optional (default = `(0.9, 0.999)`)
        Decay rates of the averages of gradients and of squared gradients, at least 0 and below 1.
    eps : `float`, optional (default = `1e-08`)
        Number added to the root of the average of squares.
    weight_decay : `float`, optional (default = `0.0`)
        Strength of the L2 penalty.
    amsgrad : `bool`, optional (default = `False`)
        Whether to divide by the largest average of squares so far instead of the current one.
    """

    def __init__(
        self,
        model_parameters: List[Tuple[str, torch.nn.Parameter]],
        parameter_groups: Optional[List[Tuple[List[str], Dict[str, Any]]]] = None,
        lr: float = 0.001,
        betas: Any = (0.9, 0.999),  # for a tuple, AllenNLP silently drops a third number
        eps: float = 1e-08,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        name = 'optimizer of type "fused_adam": '
        options: Dict[str, Any] = {"lr": lr, "betas": betas, "eps": eps}
        options |= {"weight_decay": weight_decay, "amsgrad": amsgrad}
        for option, value in options.items():
            ADAM_OPTIONS[option](f"{name}{option}", value)
        _check_groups(f"{name}parameter_groups", parameter_groups, ADAM_OPTIONS)
        options["betas"] = tuple(betas)
        super().__init__(model_parameters, parameter_groups, **options)  # type: ignore[arg-type]

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        super().add_param_group({**param_group, "fused": True})


def _check_betas(name: str, betas: Any) -> None:
    if not isinstance(betas, list | tuple) or len(betas) != 2:
        fail(name, "two numbers", betas)
    for beta in betas:
        check_number(name, beta, least=0, below=1)


ADAM_OPTIONS: Dict[str, Callable[[str, Any], None]] = {
    **dict.fromkeys(("lr", "eps", "weight_decay"), check_not_negative),
    "betas": _check_betas,
    "amsgrad": check_flag,
}


def _check_groups(name: str, groups: Any, checks: Mapping[str, Callable[[str, Any], None]]) -> None:
    """Check `parameter_groups`. `checks`: the allowed options, and a check for each."""
    checks = {**checks, "requires_grad": check_flag}
    for group in [] if groups is None else groups if isinstance(groups, list) else [groups]:
        match group:
            case [list(regexes), Mapping() as options]:  # AllenNLP's `Params` is a mapping
                pass
            case _:
                fail(name, "a list of pairs [[regex, ..], {option: value, ..}]", groups)
        for regex in regexes:
            try:
                re.compile(regex)
            except (re.error, TypeError):
                fail(name, "regular expressions", regex)
        for option, value in options.items():
            check_choice(f"{name}: option", option, checks)
            checks[option](f"{name}: {option}", value)


def _clip(gradients: List[Tensor], max_norm: float) -> None:
    """PyTorch's `clip_grad_norm_` for gradients without a parameter."""
    if not gradients:
        return
    norm = torch.nn.utils.get_total_norm(gradients)
    # The factor may be 1. Checking whether to clip would have to wait for the GPU.
    factor = torch.clamp(max_norm / (norm + 1e-6), max=1.0)
    torch._foreach_mul_(gradients, factor)
