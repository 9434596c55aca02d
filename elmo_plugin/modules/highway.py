import torch
from torch import Tensor, nn

from elmo_plugin.ops.linear import Linear


class Highway(nn.Module):
    """
    A highway layer (Srivastava et al. 2015), in bilm-tf's convention: `carry` is the gate of the
    transformed part,

        y = s * relu(x W_t + b_t) + (1 - s) * x,     s = sigmoid(x W_c + b_c).

    # Parameters

    dim : `int`
        F, the size of input and output.
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.transform = Linear(dim, dim)
        self.carry = Linear(dim, dim)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """bilm-tf's initial values; with a bias of -2 most of the input passes at first."""
        std = self.transform.in_features**-0.5
        for linear, bias in ((self.transform, 0.0), (self.carry, -2.0)):
            nn.init.normal_(linear.weight, std=std)
            nn.init.constant_(linear.bias, bias)

    def forward(self, x: Tensor) -> Tensor:
        """`x`: shape `(U, F)`. Returns shape `(U, F)`."""
        s = torch.sigmoid(self.carry(x))
        return torch.lerp(x, torch.relu(self.transform(x)), s)
