from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError, fail


class ScalarMix(nn.Module):
    """
    A task-specific weighting of the biLM's layers (Peters et al. 2018, equation 1):

        ELMo_k = gamma * sum_j s_j h_{k,j},     s = softmax(w).

    The parameters have AllenNLP's names, so that regularizers on `scalar_parameters`, such as the
    paper's L2 on w, match them.

    # Parameters

    mixture_size : `int`
        L + 1, the number of layers.
    do_layer_norm : `bool`, optional (default = `False`)
        Whether to normalize each layer first, by the mean and variance of all its numbers at the
        real tokens of the batch, as in AllenNLP, or of each sentence.
    initial_scalar_parameters : `Sequence[float]`, optional
        Initial w, before the softmax. By default zeros, which give the average.
    trainable : `bool`, optional (default = `True`)
        Whether to learn w and gamma.
    use_top_only : `bool`, optional (default = `False`)
        Whether to use only the top layer, gamma h_{k,L}, without w, as in bilm-tf.

    # Raises

    `InputError`
        If the number of initial values is not `mixture_size`.
    """

    def __init__(
        self,
        mixture_size: int,
        do_layer_norm: bool = False,
        initial_scalar_parameters: Sequence[float] | None = None,
        trainable: bool = True,
        use_top_only: bool = False,
    ) -> None:
        super().__init__()
        w = [0.0] * mixture_size if initial_scalar_parameters is None else initial_scalar_parameters
        if len(w) != mixture_size:
            expected = f"{mixture_size} numbers, one for each layer"
            fail("initial_scalar_parameters", expected, len(w))
        self.mixture_size = mixture_size
        self.do_layer_norm = do_layer_norm
        self.use_top_only = use_top_only
        self.scalar_parameters = nn.ParameterList(
            nn.Parameter(torch.tensor([float(w_j)]), requires_grad=trainable)
            for w_j in (() if use_top_only else w)
        )
        self.gamma = nn.Parameter(torch.tensor([1.0]), requires_grad=trainable)

    def forward(
        self, layers: Sequence[Tensor], mask: Tensor | None = None, by_sentence: bool = False
    ) -> Tensor:
        """
        Mix `layers`, h_0 .. h_L, each of shape `(B, T, dim)`. Returns shape `(B, T, dim)`. `mask`:
        shape `(B, T)`, true at real tokens; required if `do_layer_norm`, otherwise unused.
        `by_sentence`: whether `do_layer_norm` normalizes each of the B sentences by itself, so that
        its mix does not depend on the others. Raises an `InputError` if the number of layers is not
        `mixture_size`, or `do_layer_norm` lacks the mask.
        """
        if len(layers) != self.mixture_size:
            fail("layers", f"{self.mixture_size} tensors", len(layers))
        if self.use_top_only:
            layers = layers[-1:]
        if self.do_layer_norm:
            if mask is None:
                raise InputError("mask: expected one with do_layer_norm, found none")
            layers = [_normalize(h, mask, (1, 2) if by_sentence else (0, 1, 2)) for h in layers]
        if self.use_top_only:
            return self.gamma * layers[0]
        s = torch.softmax(torch.cat(list(self.scalar_parameters)), dim=0)
        return self.gamma * sum(s_j * h_j for s_j, h_j in zip(s, layers))


def _normalize(h: Tensor, mask: Tensor, dims: tuple[int, ...]) -> Tensor:
    """
    Normalize `h`, shape `(B, T, dim)`, to mean 0 and variance 1 over its numbers at real tokens in
    the dimensions `dims`; over all three, as in bilm-tf.
    """
    # The sums of a batch in half precision overflow.
    x = h.to(torch.promote_types(h.dtype, torch.float32))
    real = mask.unsqueeze(-1).to(x.dtype)
    # There may be no tokens.
    count = real.sum(dims, keepdim=True).clamp(min=1) * x.size(-1)
    mean = (x * real).sum(dims, keepdim=True) / count
    variance = ((x - mean) * real).square().sum(dims, keepdim=True) / count
    return ((x - mean) / torch.sqrt(variance + torch.finfo(x.dtype).tiny)).to(h.dtype)
