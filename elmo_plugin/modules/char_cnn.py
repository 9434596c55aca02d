from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.modules.highway import Highway
from elmo_plugin.modules.token_encoder import TokenEncoder
from elmo_plugin.ops.char_conv import max_of_convolution, sort_by_length
from elmo_plugin.ops.linear import Linear

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class CharCNN(TokenEncoder):
    """
    A word's vector from its characters (Kim et al. 2016; Jozefowicz et al. 2016; Peters et al.
    2018, section 3.4): embedded characters, convolutions of several widths each followed by a
    maximum over the word, highway layers, and a projection.

    # Parameters

    n_characters : `int`
        How many character ids there are, id 0 ("no word here", a row of zeros) included.
    embedding_dim : `int`
        c, the size of a character's vector.
    filters : `Sequence[Sequence[int]]`
        A `(width, number)` pair for each convolution; F is the sum of the numbers.
    n_highway : `int`
        How many highway layers follow; 0 or more.
    projection_dim : `int`
        P, the size of a word's vector. Where F = P there is no projection.
    activation : `str`
        `"relu"` or `"tanh"`.

    # Raises

    `ValueError`
        For an activation that is neither.
    """

    def __init__(
        self,
        *,
        n_characters: int,
        embedding_dim: int,
        filters: Sequence[Sequence[int]],
        n_highway: int,
        projection_dim: int,
        activation: str = "relu",
    ) -> None:
        super().__init__(n_ids=n_characters, output_dim=projection_dim)
        if activation not in ACTIVATIONS:
            raise ValueError(
                f'char_cnn.activation: expected "relu" or "tanh", found "{activation}"'
            )
        n_filters = sum(number for _, number in filters)
        self.activation = activation
        self.char_embedding = nn.Embedding(n_characters, embedding_dim, padding_idx=0)
        self.convolutions: Iterable[Any] = nn.ModuleList(
            nn.Conv1d(embedding_dim, number, width) for width, number in filters
        )
        self.highways = nn.ModuleList(Highway(dim=n_filters) for _ in range(n_highway))
        self.projection = Linear(n_filters, projection_dim) if n_filters != projection_dim else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """bilm-tf's initial values."""
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
            nn.init.normal_(self.projection.weight, std=self.projection.in_features**-0.5)
            nn.init.zeros_(self.projection.bias)

    def forward(self, characters: Tensor) -> Tensor:
        """
        # Parameters

        characters : `Tensor`
            Shape `(n_words, C)`, any integer type: each word's character ids, padded.

        # Returns

        `Tensor`
            Shape `(n_words, P)`.
        """
        x = ACTIVATIONS[self.activation](self.convolve(characters.long()))  # (n_words, F)
        for highway in self.highways:
            x = highway(x)
        if self.projection is not None:
            x = self.projection(x)
        return x

    def convolve(self, characters: Tensor) -> Tensor:
        """
        All convolutions' maxima over each word. The activations are monotonic, so the maximum may
        come before them. `characters`: shape `(n_words, C)`. Returns shape `(n_words, F)`.
        """
        if characters.device.type != "cpu":
            return self.reference_convolve(characters)
        words, place, n_windows = sort_by_length(characters)
        maxima = [
            max_of_convolution(words, n_windows, self.char_embedding.weight, conv.weight)
            + conv.bias
            for conv in self.convolutions
        ]
        return torch.cat(maxima, dim=1)[place]

    def reference_convolve(self, characters: Tensor) -> Tensor:
        """The same as `convolve`, as the paper has it; also what a GPU does fastest."""
        x = self.char_embedding(characters).transpose(1, 2)  # (n_words, c, C)
        return torch.cat([conv(x).amax(dim=2) for conv in self.convolutions], dim=1)
