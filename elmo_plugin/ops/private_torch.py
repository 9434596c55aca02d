"""
PyTorch's private operators and hooks. In this folder, only this file uses private parts of PyTorch.
Each is looked up once at import, and without any of them the results are the same up to rounding.
"""

from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad

Backward = Callable[..., tuple[Tensor | None, ...]]

_linear_pointwise: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)
_reorder_linear_weight = getattr(torch.ops.mkldnn, "_reorder_linear_weight", None)
_is_bf16_supported = getattr(torch.ops.mkldnn, "_is_mkldnn_bf16_supported", None)
_global_hooks = [
    getattr(torch.nn.modules.module, f"_global_{name}_hooks")
    for name in ("forward", "forward_pre", "backward", "backward_pre")
]
_capabilities: Any = getattr(torch.cpu, "get_capabilities", None)
_keeps_graph = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", lambda: True)


def _onednn_dtypes() -> set[torch.dtype]:
    if _linear_pointwise is None:
        return set()
    if _is_bf16_supported is None or not _is_bf16_supported():
        return {torch.float32}
    return {torch.float32, torch.bfloat16}


ONEDNN_DTYPES = _onednn_dtypes()
"""
Types for which oneDNN is used on this CPU: bfloat16 only on CPUs that support it, and none in
builds of PyTorch without oneDNN. All other types use PyTorch's own product.
"""


def _cpu_has(*names: str) -> bool:
    """Whether this CPU has one of these, of which AVX512_BF16 is assumed without the operator."""
    known = {"avx512_bf16": True} if _capabilities is None else _capabilities()
    return any(known.get(name) for name in names)


def _cpu_has_bfloat16() -> bool:
    """Whether this CPU multiplies in bfloat16."""
    return _cpu_has("avx512_bf16", "amx_bf16", "bf16")  # the last on ARM


def _int8_is_faster() -> bool:
    """
    Whether products in int8 are faster than those in bfloat16, if this CPU has the former. They are
    not with AVX512_BF16 alone (docs/speed.md, 'int8').
    """
    return not _cpu_has_bfloat16() or _cpu_has("amx_int8")


CPU_HAS_BFLOAT16 = _cpu_has_bfloat16()
INT8_IS_FASTER = _int8_is_faster()


def has_native_bfloat16(device: torch.device) -> bool:
    """Whether a device multiplies in bfloat16, which NVIDIA's GPUs do from Ampere (8.0) on."""
    if device.type == "cpu":
        return CPU_HAS_BFLOAT16
    if device.type == "cuda" and not torch.version.hip:
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return True


def is_onednn_weight(weight: Tensor) -> bool:
    """Whether `onednn_linear` supports this weight. Exported programs use PyTorch's own product."""
    is_supported = weight.device.type == "cpu" and weight.dtype in ONEDNN_DTYPES
    return is_supported and not torch.compiler.is_exporting()


def onednn_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x W^T by oneDNN. `x`: shape `(n, k)`, not empty; `weight`: `(m, k)`, packed or not."""
    return _linear_pointwise(x, weight, None, "none", [], "")


def onednn_weight(weight: Tensor) -> Tensor:
    """`weight`, shape `(m, k)`, in oneDNN's memory layout; unchanged without the operator."""
    weight = weight.contiguous()
    return weight if _reorder_linear_weight is None else _reorder_linear_weight(weight)


def is_graph_kept() -> bool:
    """
    Whether the running backward pass was called with `retain_graph`, in which case its saved
    tensors must not be modified.
    """
    return _keeps_graph()


def no_double_backward(backward: Backward) -> Backward:
    """
    Decorator that raises an error if a hand-written gradient is differentiated again. (PyTorch's
    `once_differentiable` does not detect this if the incoming gradient is a constant.)
    """

    def checked(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "the biLM's gradients are hand-written and cannot be differentiated again: "
                "expected backward without create_graph, found it with create_graph"
            )
        return backward(ctx, *grads)

    return checked


def no_forward_mode(*tensors: Any) -> None:
    """
    Raise an error if a forward-mode derivative with respect to a tensor is being computed, which
    hand-written gradients would silently drop.
    """
    duals = (forward_ad.unpack_dual(x) for x in tensors if isinstance(x, Tensor))
    if any(dual.tangent is not None for dual in duals):
        raise NotImplementedError(
            "the biLM's gradients are hand-written: expected backward or torch.autograd.grad, "
            "found a forward-mode derivative"
        )


def are_plain(modules: Iterable[nn.Module]) -> bool:
    """
    Whether a call of each module does only what its class defines, and the class is from this
    package or PyTorch: there are no hooks, not even global ones, no parametrizations, and no
    `forward` set on the instance.
    """
    return not any(_global_hooks) and all(
        type(module).__module__.partition(".")[0] in ("elmo_plugin", "torch")
        and not module._forward_hooks
        and not module._forward_pre_hooks
        and not module._backward_hooks
        and not module._backward_pre_hooks
        and "parametrizations" not in module._modules
        and "forward" not in module.__dict__
        for module in modules
    )


def not_compiled(function: Callable) -> Callable:
    """
    Decorator of functions that `torch.compile` leaves as they are. PyTorch's own decorators import
    the compiler, which takes more than a second, also where nothing is compiled.
    """
    left = getattr(torch, "_disable_dynamo", lambda f: f)(function)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        return (left if torch.compiler.is_compiling() else function)(*args, **kwargs)

    return called
