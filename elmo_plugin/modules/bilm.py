from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError, check_choice
from elmo_plugin.modules.initial_state import WarmState
from elmo_plugin.modules.lstm import BiLSTM, LSTMState, ProjectedLSTM
from elmo_plugin.modules.token_encoder import WordTable, filled, token_encoder, unique_words
from elmo_plugin.ops.backend import quantizes
from elmo_plugin.ops.linear import Linear, on_device, product_dtype
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import NUM_CHARACTERS, resize_characters
from elmo_plugin.torch_modules import name_hook

TRAINED_PRECISIONS = {"fp32": None, "bf16": torch.bfloat16}
PRECISIONS = {**TRAINED_PRECISIONS, "int8": torch.int8}

INITIAL_STATES = ("carry", "zero", "warm")

ID_TYPES = (torch.int16, torch.int32, torch.int64)

N_BOUNDARIES = 16
"""
Number of empty sentences from which weights of other programs get a warm state; ours store theirs.
In `tiny`, `small` and `medium`, one more changes the LSTM's outputs by less than 0.1 %, and its
memory cells by less than 1 %.
"""


class SentenceLayers(NamedTuple):
    """
    biLM output for a batch of sentences. T includes the two boundaries, if present.

    layers : `list[Tensor]`
        h_0 .. h_L of equation 1, each of shape `(B, T, 2P)`: first the forward, then the backward
        direction; h_0 is the character CNN's vector twice. Zeros at padding.
    state : `LSTMState`
        State after each row's sentence, shape `(L, 2, B, ...)`.
    """

    layers: list[Tensor]
    state: LSTMState


class BiLM(nn.Module):
    """
    The bidirectional language model without its softmax (Peters et al. 2018, section 3.1). The
    weights are untrained.

    # Parameters

    options : `BiLMOptions`
        Sizes of the biLM.
    dropout : `float`, optional (default = `0.0`)
        See `BiLSTM`.

    # Raises

    `RuntimeError`
        If there is not enough memory for the weights.
    """

    boundaries: Tensor

    def __init__(self, options: BiLMOptions, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.options = options
        self.token_encoder: Any = token_encoder(options)
        self.bilstm = BiLSTM(dropout=dropout, **asdict(options.lstm))
        self.warm_state = WarmState(self.bilstm.zero_state(1))
        # The character ids of the tokens that begin and end a sentence, shape `(2, C)`.
        self.register_buffer("boundaries", _boundaries(self), persistent=False)
        name_hook(self.register_load_state_dict_post_hook(_restore_boundaries))
        self.n_trained = 0  # counts the batches that autograd has seen; see `State`

    def set_precision(self, precision: str, permitted: Collection[str] = PRECISIONS) -> None:
        """
        Set the precision of the matrix multiplications: `"fp32"`, or `"bf16"`, which permits
        bfloat16 on devices that have it natively, where a CPU is at least twice as fast. Others
        compute in fp32. Weights, memory cells and results stay in fp32. `"int8"` also permits 8-bit
        integers for the LSTMs of a frozen biLM, on CPUs that multiply them. A value that is not
        `permitted` raises an `InputError`.
        """
        check_choice("precision", precision, permitted)
        for module in self.modules():
            if isinstance(module, (Linear, ProjectedLSTM)):
                module.precision = PRECISIONS[precision]

    @property
    def precision(self) -> str:
        """The precision of matrix multiplications on the present device; see `set_precision`."""
        layer = self.bilstm.layers[0]
        weight = layer.input_weight
        if layer.precision == torch.int8 and quantizes(weight):
            return "int8"
        is_cast = layer.precision and product_dtype(weight, layer.precision) == torch.bfloat16
        return "bf16" if is_cast else "fp32"

    @property
    def permitted_precision(self) -> str:
        """The precision that `set_precision` has set."""
        dtype = self.bilstm.layers[0].precision
        return next(name for name, known in PRECISIONS.items() if known == dtype)

    @property
    def max_characters_per_token(self) -> int:
        """C, the number of character ids of a token that its vector depends on."""
        return self.token_encoder.max_characters

    def resize_characters(self, tokens: Tensor) -> Tensor:
        """
        The character ids of tokens, shape `(..., C)`, for this biLM's C. Raises an `InputError` if
        they may have been cut to a smaller C.
        """
        return resize_characters(tokens, self.max_characters_per_token)

    @property
    def word_table(self) -> WordTable | None:
        """The table of words, if the biLM reads tokens from it alone."""
        return self.token_encoder if isinstance(self.token_encoder, WordTable) else None

    @property
    def device(self) -> torch.device:
        return self.boundaries.device

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
    ) -> tuple[list[Tensor], LSTMState]:
        """
        Read two streams of running text, each in its own reading order.

        `words`: character ids of the distinct words of the streams, shape `(U, C)`, or their
        numbers in a `WordTable`, shape `(U,)`.
        `forward_inputs` and `backward_inputs`: index of each token in `words`, shape `(B, T)`.
        `state`: initial LSTM state of shape `(L, 2, B, ...)`. `batch_sizes`: see
        `ProjectedLSTM.forward`.

        Returns the L + 1 layers, each of shape `(2, T, B, P)`, of which the first is the words'
        vectors, and the state after the last step.
        """
        if torch.is_grad_enabled() and any(x.requires_grad for x in self.parameters()):
            self.n_trained += 1
        vectors = self.token_encoder(filled(words))  # (U or more, P)
        tokens = torch.stack([forward_inputs.T, backward_inputs.T])  # (2, T, B)
        x = nn.functional.embedding(tokens, vectors)
        outputs, after = self.bilstm(x, state, batch_sizes)
        return [x, *outputs], after

    def sentence_lengths(self, tokens: Tensor) -> Tensor:
        """
        Number of tokens of each sentence without boundaries, shape `(B,)`. `tokens`: character ids
        of shape `(B, T, C)`; a token of zeros is padding. Raises an `InputError` if a character id
        does not exist or the type cannot hold all of them, or if padding comes before a real token,
        because the tokens after it would get other tokens' vectors.
        """
        if tokens.dtype not in ID_TYPES:
            raise InputError(f"expected ids of type int16, int32 or int64, found {tokens.dtype}")
        if tokens.numel() and not 0 <= int(tokens.min()) <= int(tokens.max()) < NUM_CHARACTERS:
            raise InputError(
                f"expected ids from 0 to {NUM_CHARACTERS - 1}, "
                f"found {int(tokens.min())} to {int(tokens.max())}"
            )
        real = tokens.any(dim=-1)  # (B, T)
        holes = real[:, 1:] & ~real[:, :-1]
        if holes.any():
            row, place = holes.nonzero()[0].tolist()
            raise InputError(
                "expected padding only after the tokens of a sentence, found it in row "
                f"{row} at token {place}, before a real token"
            )
        return real.sum(dim=1)

    def sentences(
        self, tokens: Tensor, lengths: Tensor, state: LSTMState, boundaries: bool = True
    ) -> SentenceLayers:
        """
        Read sentences in both directions. `tokens`: character ids of shape `(B, T, C)`, without
        boundaries; a token of zeros is padding. `lengths`: their `sentence_lengths`, shape `(B,)`.
        Both are on the CPU, which prepares the batch without waiting for a GPU. `state`: initial
        LSTM state of shape `(L, 2, B, ...)`. With `boundaries`, the boundaries of each sentence are
        read too, so that the layers have T + 2 tokens. Without them, each direction starts after
        its first boundary, from a `state` of `after_boundary`, and does not read the last one.
        """
        if boundaries:
            tokens = self.with_boundaries(tokens, lengths)
            lengths = lengths + 2
        # Longest first, so that each step of the recurrence reads the first `batch_sizes[t]`.
        lengths, order = lengths.sort(descending=True, stable=True)
        words, indices = unique_words(tokens[order])
        time = torch.arange(indices.size(1), device=tokens.device)
        real = time < lengths[:, None]  # (B, T)
        # This index reverses each sentence within its length; applying it again restores the order.
        backward = torch.where(real, lengths[:, None] - 1 - time, time)
        batch_sizes = real.sum(dim=0).tolist()
        prepared = indices, indices.gather(1, backward), backward, real, order, order.argsort()
        *both_inputs, backward, real, order, unsort = (on_device(x, self.device) for x in prepared)
        [x, *outputs], after = self(words, *both_inputs, state.select(order), batch_sizes)

        rows = torch.arange(tokens.size(0), device=self.device)[:, None]
        x = x[0].transpose(0, 1) * real[:, :, None]
        layers = [torch.cat([x, x], dim=-1)[unsort]]
        for h in outputs:
            both = torch.cat([h[0].transpose(0, 1), h[1][backward, rows]], dim=-1)
            layers.append(both[unsort])
        return SentenceLayers(layers, after.select(unsort))

    def with_boundaries(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """`tokens` with `<S>` before and `</S>` after each row's tokens, shape `(B, T + 2, C)`."""
        is_here = tokens.device == self.device
        boundaries = self.boundaries if is_here else self.token_encoder.boundaries
        begin, end = resize_characters(boundaries, tokens.size(-1)).to(tokens)
        batch_size, n_steps, n_characters = tokens.shape
        padded = tokens.new_zeros(batch_size, n_steps + 2, n_characters)
        padded[:, 1:-1] = tokens
        padded[:, 0] = begin
        padded[torch.arange(batch_size, device=tokens.device), lengths + 1] = end
        return padded

    def initial_state(
        self, kind: str, batch_size: int, carried: LSTMState | None = None
    ) -> LSTMState:
        """
        Initial state for `batch_size` sentences or for the first window of a text, shape
        `(L, 2, B, ...)`. `kind` is one of `INITIAL_STATES`: `"zero"`; `"warm"`, the mean state at
        sentence starts in training; or `"carry"`, the final state of the same batch row in the
        previous batch, as in bilm-tf and AllenNLP, so that a vector depends on earlier batches.
        This state is `carried`, by default zeros, whose type may be one that the biLM had before.
        Raises an `InputError` for another `kind`.
        """
        check_choice("initial_state", kind, INITIAL_STATES)
        if kind == "warm":
            return self.warm_state(batch_size)
        if kind == "carry" and carried is not None:
            return carried.take(batch_size).to(self.warm_state.output)
        return self.bilstm.zero_state(batch_size)

    def after_boundary(self, state: LSTMState) -> LSTMState:
        """
        The state after reading `<S>` in the forward and `</S>` in the backward direction. `state`
        has one row.
        """
        begin = self.boundaries.new_zeros(1, 1, dtype=torch.long)
        return self(self.boundaries, begin, begin + 1, state)[1]

    @torch.no_grad()
    def warm_up(self) -> None:
        """
        Compute a warm state for weights that have none: the state of one row after `N_BOUNDARIES`
        empty sentences, `<S> </S>`, starting from zeros, without dropout.
        """
        training = self.training
        self.eval()
        begin_end = torch.tensor([[0, 1] * N_BOUNDARIES], device=self.boundaries.device)
        zero = self.bilstm.zero_state(1)
        _, after = self(self.boundaries, begin_end, 1 - begin_end, zero)
        self.warm_state.set(after)
        self.train(training)


def _boundaries(bilm: BiLM) -> Tensor:
    """`BiLM.boundaries` on the biLM's device."""
    return bilm.token_encoder.boundaries.to(bilm.warm_state.output.device)


def _restore_boundaries(bilm: BiLM, _: object) -> None:
    """
    Hook of `load_state_dict`. No state dictionary has the boundaries, and `to_empty` leaves what
    happens to be in memory.
    """
    right = _boundaries(bilm)
    if bilm.boundaries.is_meta or not torch.equal(bilm.boundaries, right):
        bilm.boundaries = right
