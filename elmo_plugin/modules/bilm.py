from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor, nn

from elmo_plugin.modules.bilstm import BiLSTM
from elmo_plugin.modules.char_cnn import CharCNN
from elmo_plugin.modules.lstm_state import LSTMState
from elmo_plugin.modules.projected_lstm import ProjectedLSTM
from elmo_plugin.modules.token_encoder import TokenEncoder
from elmo_plugin.modules.warm_state import WarmState
from elmo_plugin.ops.linear import Linear
from elmo_plugin.ops.unique_words import unique_words

PRECISIONS = {"fp32": None, "bf16": torch.bfloat16}

Encode = Callable[[Tensor], Tensor]
"""Vectors of words, shape `(U, P)`, from their ids, shape `(U, *id_shape)`."""


class SentenceLayers(NamedTuple):
    """
    biLM output for a batch of sentences. T counts the two boundaries of each, if they are there.

    layers : `list[Tensor]`
        h_0 .. h_L of equation 1, each of shape `(B, T, 2P)`: the forward direction, then the
        backward one; h_0 is the token encoder's vector twice. Zeros at padding.
    mask : `Tensor`
        Mask of shape `(B, T)`, true at real tokens and boundaries.
    state : `LSTMState`
        The state after each row's sentence, of shape `(L, 2, B, ..)`.
    """

    layers: list[Tensor]
    mask: Tensor
    state: LSTMState


class BiLM(nn.Module):
    """
    The bidirectional language model without its softmax (Peters et al. 2018, section 3.1).

    # Parameters

    token_encoder : `TokenEncoder`
        The module that gives a word its vector.
    bilstm : `BiLSTM`
        The layers over it.
    boundaries : `Tensor`
        Ids of `<S>` and `</S>`, shape `(2, *id_shape)`.
    """

    boundaries: Tensor

    def __init__(self, *, token_encoder: TokenEncoder, bilstm: BiLSTM, boundaries: Tensor) -> None:
        super().__init__()
        self.token_encoder = token_encoder
        self.bilstm = bilstm
        self.warm_state = WarmState(bilstm.zero_state(1))
        self.register_buffer("boundaries", boundaries, persistent=False)
        self.n_trained = 0  # see `frozen_state`

    def set_precision(self, precision: str) -> None:
        """
        # Parameters

        precision : `str`
            Precision of the matrix products: `"fp32"`, or `"bf16"`, which takes at most half their
            time on CPUs with native bfloat16. Weights, memory cells and results stay in fp32.

        # Raises

        `ValueError`
            If it is neither.
        """
        if precision not in PRECISIONS:
            raise ValueError(f"precision: expected fp32 or bf16, found {precision!r}")
        for module in self.modules():
            if isinstance(module, (Linear, ProjectedLSTM)):
                module.precision = PRECISIONS[precision]

    def clear_packed_weights(self) -> None:
        """Frozen weights are packed again before the next product."""
        for module in self.modules():
            if isinstance(module, (CharCNN, Linear, ProjectedLSTM)):
                module.packed_weights.clear()

    @property
    def n_ids(self) -> int:
        """The number of ids of `token_encoder`, 0 included."""
        return self.token_encoder.n_ids

    @property
    def id_shape(self) -> tuple[int, ...]:
        """The shape of a token's ids: `(C,)` for C characters, `()` for a word's number."""
        return tuple(self.boundaries.shape[1:])

    @property
    def output_dim(self) -> int:
        """2P, the size of each layer's vectors."""
        return 2 * self.bilstm.projection_dim

    def forward(
        self,
        words: Tensor,
        forward_inputs: Tensor,
        backward_inputs: Tensor,
        state: LSTMState,
        batch_sizes: Sequence[int] | None = None,
        encode: Encode | None = None,
        dropout: bool = True,
    ) -> tuple[list[Tensor], LSTMState]:
        """
        Reads two streams of running text, each in its own reading order.

        # Parameters

        words : `Tensor`
            Ids of the distinct words of the streams, shape `(U, *id_shape)`.
        forward_inputs : `Tensor`
            Index of each token in `words`, shape `(B, T)`.
        backward_inputs : `Tensor`
            The same of the backward stream.
        state : `LSTMState`
            Initial LSTM state of shape `(L, 2, B, ..)`.
        batch_sizes : `Sequence[int] | None`
            The number of rows at each step, if rows end early; see `ProjectedLSTM.forward`.
        encode : `Encode | None`
            Function called in place of `token_encoder`, for example one with a cache.
        dropout : `bool`
            Whether there is dropout in training mode.

        # Returns

        `tuple[list[Tensor], LSTMState]`
            The L + 1 layers, each of shape `(2, T, B, P)`, and the state after the last step. The
            first layer has the words' vectors.
        """
        if torch.is_grad_enabled() and any(x.requires_grad for x in self.parameters()):
            self.n_trained += 1
        vectors = (encode or self.token_encoder)(words)  # (U, P)
        tokens = torch.stack([forward_inputs.T, backward_inputs.T])  # (2, T, B)
        x = nn.functional.embedding(tokens, vectors)
        outputs, after = self.bilstm(x, state, batch_sizes, dropout)
        return [x, *outputs], after

    def sentence_lengths(self, tokens: Tensor) -> Tensor:
        """
        The number of real tokens in each row without boundaries, shape `(B,)`.

        # Parameters

        tokens : `Tensor`
            Ids of shape `(B, T, *id_shape)`; a token of zeros is padding.

        # Raises

        `ValueError`
            If `token_encoder` does not have an id, or if padding stands before a real token: the
            tokens after it would get other tokens' vectors.
        """
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < self.n_ids:
            raise ValueError(
                f"expected ids from 0 to {self.n_ids - 1}, "
                f"found {int(tokens.min())} to {int(tokens.max())}"
            )
        real = tokens.any(dim=-1) if tokens.dim() == 3 else tokens > 0  # (B, T)
        holes = real[:, 1:] & ~real[:, :-1]
        if holes.any():
            row, place = holes.nonzero()[0].tolist()
            raise ValueError(
                "expected padding only after the tokens of a sentence, found it in row "
                f"{row} at token {place}, before a real token"
            )
        return real.sum(dim=1)

    def sentences(
        self,
        tokens: Tensor,
        state: LSTMState,
        encode: Encode | None = None,
        dropout: bool = True,
    ) -> SentenceLayers:
        """
        Reads whole sentences, each in both directions and with its boundaries.

        # Parameters

        tokens : `Tensor`
            Ids of shape `(B, T, *id_shape)`, without boundaries; a token of zeros is padding.
        state : `LSTMState`
            Initial LSTM state of shape `(L, 2, B, ..)`.
        encode : `Encode | None`
            Function called in place of `token_encoder`, for example one with a cache.
        dropout : `bool`
            Whether there is dropout in training mode.

        # Returns

        `SentenceLayers`
            Layers of T + 2 tokens.

        # Raises

        `ValueError`
            See `sentence_lengths`.
        """
        lengths = self.sentence_lengths(tokens)
        return self._read(
            self._with_boundaries(tokens, lengths), lengths + 2, state, encode, dropout
        )

    def inner_words(
        self,
        tokens: Tensor,
        state: LSTMState,
        encode: Encode | None = None,
        dropout: bool = True,
    ) -> SentenceLayers:
        """
        As `sentences`, but for T tokens: each direction begins after its first boundary, in the
        state that `after_boundary` gives, and does not read the last one.
        """
        return self._read(tokens, self.sentence_lengths(tokens), state, encode, dropout)

    def after_boundary(self, state: LSTMState) -> LSTMState:
        """
        `state`, of one row, after `<S>` in the forward direction, `</S>` in the backward one,
        without dropout.
        """
        begin = self.boundaries.new_zeros(1, 1, dtype=torch.long)
        return self(self.boundaries, begin, begin + 1, state, dropout=False)[1]

    def _read(
        self,
        tokens: Tensor,
        lengths: Tensor,
        state: LSTMState,
        encode: Encode | None,
        dropout: bool,
    ) -> SentenceLayers:
        """`sentences`, with the boundaries that are in `tokens` and `lengths`, shape `(B,)`."""
        # Longest first, so that each step of the recurrence reads the first `batch_sizes[t]` rows.
        lengths, order = lengths.sort(descending=True, stable=True)
        words, indices = unique_words(tokens[order])
        time = torch.arange(indices.size(1), device=tokens.device)
        real = time < lengths[:, None]  # (B, T)
        # This index reverses each sentence within its length, and applied again restores the order.
        backward = torch.where(real, lengths[:, None] - 1 - time, time)
        [x, *outputs], after = self(
            words,
            indices,
            indices.gather(1, backward),
            state.select(order),
            real.sum(dim=0).tolist(),
            encode,
            dropout,
        )

        rows = torch.arange(len(tokens), device=tokens.device)[:, None]
        unsort = order.argsort()
        x = x[0].transpose(0, 1) * real[:, :, None]
        layers = [torch.cat([x, x], dim=-1)[unsort]]
        for h in outputs:
            both = torch.cat([h[0].transpose(0, 1), h[1][backward, rows]], dim=-1)
            layers.append(both[unsort])
        return SentenceLayers(layers, real[unsort], after.select(unsort))

    def _with_boundaries(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """`tokens` with `<S>` before and `</S>` after each row's own, shape `(B, T + 2, ..)`."""
        begin, end = self.boundaries.to(tokens)
        n_rows, n_steps = tokens.shape[:2]
        padded = tokens.new_zeros(n_rows, n_steps + 2, *tokens.shape[2:])
        padded[:, 1:-1] = tokens
        padded[:, 0] = begin
        padded[torch.arange(n_rows, device=tokens.device), lengths + 1] = end
        return padded
