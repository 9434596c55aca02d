from collections.abc import Sequence

import torch
from torch import Tensor, nn


class ScalarMix(nn.Module):
    """
    A task's own mixture of the biLM's layers (Peters et al. 2018, equation 1):

        ELMo_k = gamma * sum_j s_j h_{k,j},     s = softmax(w).

    The parameters are named as AllenNLP's are, so that its regularizers on `scalar_parameters` (the
    paper's L2 on w) find them.

    # Parameters

    mixture_size : `int`
        How many layers are mixed: L + 1.
    do_layer_norm : `bool`
        Normalise each layer by the mean and variance of all its numbers at the batch's real tokens
        before mixing.
    initial_scalar_parameters : `Sequence[float] | None`
        w at first, before the softmax. By default zeros: the average.
    trainable : `bool`
        Whether w and gamma are learned.

    # Raises

    `ValueError`
        For initial values that are not one a layer.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
    ) -> None:
        super().__init__()
        w = [0.0] * mixture_size if initial_scalar_parameters is None else initial_scalar_parameters
        if len(w) != mixture_size:
            raise ValueError(
                f"initial_scalar_parameters: expected {mixture_size} numbers, one for each layer, "
                f"found {len(w)}"
            )
        self.do_layer_norm = do_layer_norm
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([float(w_j)]), requires_grad=trainable) for w_j in w
        )
        self.gamma = nn.Parameter(torch.tensor([1.0]), requires_grad=trainable)

    def forward(self, layers: Sequence[Tensor], mask: Tensor | None = None) -> Tensor:
        """
        # Parameters

        layers : `Sequence[Tensor]`
            h_0 .. h_L, each of shape `(batch_size, timesteps, dim)`.
        mask : `Tensor | None`
            Shape `(batch_size, timesteps)`, true at real tokens; only `do_layer_norm` reads it.

        # Returns

        `Tensor`
            Shape `(batch_size, timesteps, dim)`.

        # Raises

        `ValueError`
            For a number of layers other than `mixture_size`, or layer norm without a mask.
        """
        if len(layers) != len(self.scalar_parameters):
            raise ValueError(
                f"the mix expects {len(self.scalar_parameters)} layers, found {len(layers)}"
            )
        if self.do_layer_norm:
            if mask is None:
                raise ValueError("a mix with do_layer_norm expects a mask of the real tokens")
            layers = [_normalise(h, mask) for h in layers]
        s = torch.softmax(torch.cat(list(self.scalar_parameters)), dim=0)
        return self.gamma * sum(s_j * h_j for s_j, h_j in zip(s, layers))


def _normalise(h: Tensor, mask: Tensor) -> Tensor:
    """Mean 0 and variance 1 over all numbers of all real tokens together, as the original has
    it."""
    real = mask.unsqueeze(-1).to(h.dtype)
    count = real.sum() * h.size(-1)
    mean = (h * real).sum() / count
    variance = ((h - mean) * real).square().sum() / count
    return (h - mean) / torch.sqrt(variance + torch.finfo(h.dtype).tiny)
