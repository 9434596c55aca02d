"""The states from which sentences are read."""

import torch

from elmo_plugin.modules.bilm import BiLM
from elmo_plugin.modules.lstm_state import LSTMState

INITIAL_STATES = ("carry", "zero", "warm")

N_BOUNDARIES = 16
"""Empty sentences after which one more no longer changes the state noticeably."""


def initial_state(
    bilm: BiLM, kind: str, n_rows: int, carried: LSTMState | None = None
) -> LSTMState:
    """
    The state of shape `(L, 2, B, ..)` from which a batch of `n_rows` sentences, or the first window
    of a text, is read. `kind` is one of `INITIAL_STATES`: `"zero"`; `"warm"`, the mean state that
    training found at the starts of sentences; or `"carry"`, the state after the same row of the
    batch before, as in bilm-tf and AllenNLP, so that a vector depends on what was read before. This
    is `carried`, which `carry_on` gives, by default zeros.
    """
    if kind == "warm":
        return bilm.warm_state(n_rows)
    if kind == "carry" and carried is not None:
        return carried.take(n_rows)
    return bilm.bilstm.zero_state(n_rows)


def carry_on(carried: LSTMState | None, after: LSTMState) -> LSTMState:
    """
    The state to carry to the next batch: the state `after` this batch, and in rows that this batch
    did not have the state `carried` so far.
    """
    return after if carried is None else carried.put(after)


@torch.no_grad()
def warm_up(bilm: BiLM) -> LSTMState:
    """
    A warm state for weights that came without one: the state of one row after `N_BOUNDARIES` empty
    sentences, `<S> </S>` again and again, from zeros.
    """
    boundaries = bilm.boundaries
    begin_end = torch.tensor([[0, 1] * N_BOUNDARIES], device=boundaries.device)
    zero = bilm.bilstm.zero_state(1)
    return bilm(boundaries, begin_end, 1 - begin_end, zero, dropout=False)[1]
