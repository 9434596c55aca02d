from collections.abc import Sequence

import torch
from torch import Tensor


def reference_lstm(
    inputs: Tensor,
    memory: Tensor,
    output: Tensor,
    input_weight: Tensor,
    recurrent_weight: Tensor,
    bias: Tensor,
    projection_weight: Tensor | None,
    cell_clip: float | None,
    proj_clip: float | None,
    batch_sizes: Sequence[int] | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """The equation of `ProjectedLSTM`: the definition of `lstm_scan` and of the kernel."""

    def clip(x: Tensor, bound: float | None) -> Tensor:
        return x if bound is None else x.clamp(-bound, bound)

    n_steps, n_rows = inputs.shape[1:3]
    c, h, outputs = memory, output, []
    for t, n in enumerate(batch_sizes or [n_rows] * n_steps):
        gates = inputs[:, t, :n] @ input_weight + h[:, :n] @ recurrent_weight + bias[:, None]
        i, j, f, o = gates.chunk(4, dim=-1)
        c_t = torch.sigmoid(f) * c[:, :n] + torch.sigmoid(i) * torch.tanh(j)
        c_t = clip(c_t, cell_clip)
        h_t = torch.sigmoid(o) * torch.tanh(c_t)
        if projection_weight is not None:
            h_t = clip(h_t @ projection_weight, proj_clip)
        outputs.append(torch.nn.functional.pad(h_t, (0, 0, 0, n_rows - n)))
        c = torch.cat([c_t, c[:, n:]], dim=1)
        h = torch.cat([h_t, h[:, n:]], dim=1)
    return torch.stack(outputs, dim=1), c, h
