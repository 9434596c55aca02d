"""
The recurrence of `ProjectedLSTM`: `reference.py` is the equation, `kernel.py` calls the compiled
kernel, and `torch_ops.py` serves all other machines and types.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from elmo_plugin.ops.kernels import takes
from elmo_plugin.ops.linear import pack_weights
from elmo_plugin.ops.lstm.kernel import KernelScan, KernelWeights, kernel_scan, pack_for_kernel
from elmo_plugin.ops.lstm.reference import LSTMWeights, reference_lstm, reference_step
from elmo_plugin.ops.lstm.torch_ops import Scan, scan
from elmo_plugin.ops.no_double_backward import no_forward_mode

__all__ = ["LSTMWeights", "lstm_scan", "pack_lstm_weights", "reference_lstm", "reference_step"]


def pack_lstm_weights(weights: LSTMWeights) -> LSTMWeights:
    """Pack the matrices of weights that do not change, for scans without a gradient."""
    if _kernel_takes(weights):
        return pack_for_kernel(weights)
    return weights.map_matrices(lambda x, _: pack_weights([x])[0])


def lstm_scan(
    inputs: Tensor,
    c_0: Tensor,
    h_0: Tensor,
    weights: LSTMWeights,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """
    See `ProjectedLSTM.forward`. Tensors for the backward pass are kept only if a gradient is
    needed.
    """
    no_forward_mode(inputs, c_0, h_0, *weights)
    if batch_sizes is None:
        batch_sizes = [inputs.size(2)] * inputs.size(1)
    c_0, h_0 = c_0.detach(), h_0.detach()
    uses_kernel = isinstance(weights.recurrent, KernelWeights) or _kernel_takes(weights)
    compute: Callable[..., tuple[Tensor, ...]] = kernel_scan if uses_kernel else scan
    tensors = (inputs, *weights.matrices(), weights.bias)
    if torch.is_grad_enabled() and any(getattr(x, "requires_grad", False) for x in tensors):
        compute = (KernelScan if uses_kernel else Scan).apply
    elif uses_kernel and isinstance(weights.recurrent, Tensor):
        weights = pack_for_kernel(weights)  # they are trained and change between evaluations
    outputs, c, h, *_ = compute(inputs, c_0, h_0, *weights, batch_sizes)
    return outputs, c, h


def _kernel_takes(weights: LSTMWeights) -> bool:
    """Whether the kernels take these weights, whose matrices must have one dtype."""
    matrices = weights.matrices()
    return all(map(takes, matrices)) and len({x.dtype for x in matrices}) == 1
