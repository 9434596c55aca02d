from typing import Any, cast

import torch
from torch import Tensor, nn

from elmo_plugin.checks import check_choice, check_number
from elmo_plugin.modules.bilm import INITIAL_STATES, TRAINED_PRECISIONS, BiLM
from elmo_plugin.modules.initial_state import CarriedState, CarriesState
from elmo_plugin.modules.sampled_softmax import IGNORE, SampledSoftmax
from elmo_plugin.ops.linear import on_device
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import BEGIN, END


class BiLMWithSoftmax(CarriesState):
    """
    The bidirectional language model of ELMo (Peters et al. 2018, section 3.1): a biLM and one
    softmax for both directions, trained to minimize

        - 1 / 2n sum_k (log p(t_k | t_1 .. t_{k-1}) + log p(t_k | t_{k+1} .. t_n)).

    # Parameters

    options : `BiLMOptions`
        Sizes of the biLM.
    n_words : `int`
        V, the number of words of the softmax.
    dropout : `float`, optional (default = `0.0`)
        Dropout rate of each LSTM layer's input and of the last layer's output.
    n_negative_samples, sparse_gradients
        See `SampledSoftmax`.
    initial_state : `str`, optional (default = `"warm"`)
        LSTM state at the start of a sentence, or of a text in evaluation; see `BiLM.initial_state`.
    precision : `str`, optional (default = `"fp32"`)
        `"fp32"` or `"bf16"`; see `BiLM.set_precision`.
    """

    def __init__(
        self,
        options: BiLMOptions,
        *,
        n_words: int,
        dropout: float = 0.0,
        n_negative_samples: int | None = None,
        sparse_gradients: bool = False,
        initial_state: str = "warm",
        precision: str = "fp32",
        **of_another_base: Any,
    ) -> None:
        super().__init__(**of_another_base)
        check_number("dropout", dropout, least=0, most=0.99)
        self.bilm = BiLM(options, dropout=dropout)
        check_choice("initial_state", initial_state, INITIAL_STATES)
        self.bilm.set_precision(precision, TRAINED_PRECISIONS)
        self.softmax = SampledSoftmax(
            n_words=n_words,
            dim=options.lstm.projection_dim,
            n_negative_samples=n_negative_samples,
            sparse_gradients=sparse_gradients,
        )
        self.softmax.precision = TRAINED_PRECISIONS[precision]
        if (table := self.bilm.word_table) is not None:
            table.embedding.sparse = self.softmax.sparse_gradients
            if options.is_tied:
                self.softmax.weight = cast(nn.Parameter, table.embedding.weight)
        self.dropout = nn.Dropout(dropout)
        self.initial_state = initial_state
        self.precision = precision
        # Evaluation within an epoch does not change the states of the training rows.
        self.carried_in_evaluation = CarriedState()

    def read_window(
        self,
        starts: Tensor,
        words: Tensor,
        forward_inputs: Tensor,
        forward_targets: Tensor,
        backward_inputs: Tensor,
        backward_targets: Tensor,
        word_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """
        Read the next T time steps of B rows of running text, from their states after the previous
        window. `starts`: rows whose state is reset, shape `(B,)`, bool. The others are those of the
        `bilm` data loader; a biLM that reads words from a table takes `word_ids`. Returns the top
        layer, shape `(2, T, B, P)`, and the targets at its positions, shape `(2, T, B)`.
        """
        batch_size, carried = len(starts), self._carried
        if word_ids is not None and self.bilm.word_table is not None:
            words, begin = word_ids, torch.tensor(BEGIN)
        else:
            words = self.bilm.resize_characters(words)
            begin = self.bilm.resize_characters(self.bilm.boundaries)[0]
        # In training, rows start from zeros (bilm-tf: only at the run's start). The warm state is
        # not used here, because it would depend on the number of processes.
        kind = "zero" if self.training else self.initial_state
        start = self.bilm.initial_state(kind, batch_size)
        before = self.bilm.initial_state("carry", batch_size, carried.state)
        state = before.where(starts, start)
        if self.training:
            first = words[forward_inputs[:, 0]]
            at_start = (first == begin).view(batch_size, -1).all(dim=1)
            has_text = forward_targets[:, 0] != IGNORE
            self.bilm.warm_state.observe(state, at_start & has_text & ~starts)
        layers, after = self.bilm(words, forward_inputs, backward_inputs, state)
        carried.put(after)
        return self.dropout(layers[-1]), torch.stack([forward_targets.T, backward_targets.T])

    def read_sentences(self, tokens: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """
        Read sentences without boundaries. `tokens`: character ids, shape `(B, T, C)`. `targets`:
        numbers of the words in the softmax, shape `(B, T)`. Returns the top layer, shape
        `(2, T + 2, B, P)`, and the targets at its positions, shape `(2, T + 2, B)`.
        """
        tokens = self.bilm.resize_characters(tokens.cpu())  # the only time that the CPU waits
        lengths = self.bilm.sentence_lengths(tokens)
        carried = self._carried
        state = self.bilm.initial_state(self.initial_state, len(tokens), carried.state)
        read = self.bilm.sentences(tokens, lengths, state)
        if self.initial_state == "carry":
            carried.put(read.state)
        goals = _between_boundaries(targets, on_device(lengths, targets.device))
        nothing = goals.new_full((len(tokens), 1), IGNORE)
        forward_goals = torch.cat([goals[:, 1:], nothing], dim=1)
        backward_goals = torch.cat([nothing, goals[:, :-1]], dim=1)
        backward_goals = backward_goals.masked_fill(goals == IGNORE, IGNORE)
        hidden = torch.stack(self.dropout(read.layers[-1]).transpose(0, 1).chunk(2, dim=-1))
        return hidden, torch.stack([forward_goals.T, backward_goals.T])

    def negative_log_likelihoods(self, hidden: Tensor, targets: Tensor) -> list[Tensor]:
        """
        The sum for each direction, sampled in training; see `SampledSoftmax.forward`. `hidden`:
        shape `(2, T, B, P)`. `targets`: shape `(2, T, B)`.
        """
        return [self.softmax(h, t) for h, t in zip(hidden, targets)]

    def log_probabilities(self, hidden: Tensor, targets: Tensor) -> list[Tensor]:
        """The exact log probability of each target, shape `(T, B)` for each direction."""
        return [self.softmax.log_probabilities(h, t) for h, t in zip(hidden, targets)]

    @property
    def _carried(self) -> CarriedState:
        return self.carried if self.training else self.carried_in_evaluation


def _between_boundaries(targets: Tensor, lengths: Tensor) -> Tensor:
    """The ids of `<S> w_1 .. w_n </S>`, then `IGNORE`, shape `(B, T + 2)`."""
    mask = torch.arange(targets.size(1), device=targets.device) < lengths[:, None]
    targets = nn.functional.pad(targets.masked_fill(~mask, IGNORE), (1, 1), value=IGNORE)
    targets[:, 0] = BEGIN
    return targets.scatter(1, lengths[:, None] + 1, END)


def window_gradient(loss: Tensor, value: float, n_tokens: int, n_rows: int) -> Tensor:
    """
    The number `value`, with the gradient of a token's mean loss times the window's length.
    bilm-tf's initial Adagrad accumulator of 1.0 and gradient norm of 10 presuppose this factor. If
    some of the `n_rows` have ended, it is the mean number of their tokens.
    """
    return value + n_tokens / n_rows * (loss - loss.detach())
