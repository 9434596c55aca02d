from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.checks import check_choice
from elmo_plugin.ops.char_conv import convolve
from elmo_plugin.ops.linear import Linear, on_device
from elmo_plugin.options import ACTIVATIONS
from elmo_plugin.text.characters import DEFAULT_MAX_CHARACTERS, WordLimit, boundary_characters


class CharCNN(nn.Module):
    """
    Computes a word's vector from its characters (Kim et al. 2016; Jozefowicz et al. 2016; Peters et
    al. 2018, section 3.4): embedded characters, convolutions of several widths, each followed by a
    maximum over the word, highway layers, and a projection.

    # Parameters

    n_characters : `int`
        Number of character ids, including id 0 ("no word here", a row of zeros).
    embedding_dim : `int`
        c, the size of a character's vector.
    filters : `Sequence[Sequence[int]]`
        A `(width, number)` pair for each convolution; F is the sum of the numbers.
    n_highway : `int`
        Number of highway layers, 0 or more.
    projection_dim : `int`
        P, the size of a word's vector. If F = P there is no projection.
    activation : `str`, optional (default = `"relu"`)
        `"relu"` or `"tanh"`.
    max_characters : `int`, optional (default = `50`)
        C, the number of character ids of a word with its two marks, to which longer words are cut.

    # Raises

    `InputError`
        If the activation is neither.
    """

    has_lexicon = False  # see `LexiconEncoder`

    def __init__(
        self,
        *,
        n_characters: int,
        embedding_dim: int,
        filters: Sequence[Sequence[int]],
        n_highway: int,
        projection_dim: int,
        activation: str = "relu",
        max_characters: int = DEFAULT_MAX_CHARACTERS,
    ) -> None:
        super().__init__()
        check_choice("activation", activation, ACTIVATIONS)
        n_filters = sum(number for _, number in filters)
        self.activation = activation
        self.max_characters = max_characters
        self.char_embedding = nn.Embedding(n_characters, embedding_dim, padding_idx=0)
        self.convolutions: Iterable[Any] = nn.ModuleList(
            nn.Conv1d(embedding_dim, number, width) for width, number in filters
        )
        self.highways = nn.ModuleList(Highway(dim=n_filters) for _ in range(n_highway))
        self.projection = Linear(n_filters, projection_dim) if n_filters != projection_dim else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set bilm-tf's initial values."""
        nn.init.uniform_(self.char_embedding.weight, -1.0, 1.0)
        with torch.no_grad():
            self.char_embedding.weight[0].zero_()
        for conv in self.convolutions:
            if self.activation == "relu":
                nn.init.uniform_(conv.weight, -0.05, 0.05)
            else:
                nn.init.normal_(conv.weight, std=(conv.kernel_size[0] * conv.in_channels) ** -0.5)
            nn.init.zeros_(conv.bias)
        if self.projection is not None:
            set_initial_values(self.projection)

    def forward(self, characters: Tensor) -> Tensor:
        """
        Compute word vectors, shape `(U, P)`. `characters`: padded character ids of each word, shape
        `(U, C)`, any integer type.
        """
        characters = on_device(characters, self.char_embedding.weight.device).long()
        x = getattr(torch, self.activation)(self.convolve(characters))  # (U, F)
        for highway in self.highways:
            x = highway(x)
        if self.projection is not None:
            x = self.projection(x)
        return x

    @property
    def word_limit(self) -> WordLimit:
        """The bytes of a word between its two marks, beyond which it is cut."""
        return WordLimit(self.max_characters - 2)

    @property
    def boundaries(self) -> Tensor:
        """The character ids of `<S>` and `</S>`, shape `(2, C)`, int64."""
        return boundary_characters(self.max_characters)

    def check_spelled(self, tokens: Tensor) -> None:
        """Accept all tokens, because the weights of any character may be trained."""

    def convolve(self, characters: Tensor) -> Tensor:
        """
        The maxima of all convolutions over each word. The activations are monotonic, so the maximum
        may come before them. `characters`: shape `(U, C)`, int64. Returns shape `(U, F)`.
        """
        return convolve(characters, self.char_embedding, self.convolutions)


class Highway(nn.Module):
    """
    A highway layer (Srivastava et al. 2015) in bilm-tf's convention, where `carry` is the gate of
    the transformed part:

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
        """Set bilm-tf's initial values; with a bias of -2 most of the input passes at first."""
        set_initial_values(self.transform)
        set_initial_values(self.carry, bias=-2.0)

    def forward(self, x: Tensor) -> Tensor:
        """Apply the layer. `x` and the result: shape `(U, F)`."""
        s = torch.sigmoid(self.carry(x))
        return torch.lerp(x, torch.relu(self.transform(x)), s)


def set_initial_values(linear: Linear, bias: float = 0.0) -> None:
    """Set bilm-tf's initial values of a linear layer."""
    nn.init.normal_(linear.weight, std=linear.in_features**-0.5)
    nn.init.constant_(linear.bias, bias)
