"""Where a sentence starts."""

from elmo_plugin.modules.bilm import BiLM
from elmo_plugin.modules.lstm_state import LSTMState

INITIAL_STATES = ("carry", "zero", "warm")


def initial_state(
    bilm: BiLM, kind: str, n_rows: int, carried: LSTMState | None = None
) -> LSTMState:
    """
    The state from which a batch of sentences, or the first window of a text, is read.

    # Parameters

    bilm : `BiLM`
    kind : `str`
        One of `INITIAL_STATES`: `"zero"`; `"warm"`, the mean state that training found at the
        starts of sentences; or `"carry"`, the state after the row above in the batch before, as in
        bilm-tf and AllenNLP, so that a vector depends on what was read before.
    n_rows : `int`
        B.
    carried : `LSTMState | None`
        For `"carry"`, see `carry_on`; nothing was read yet where there is none.

    # Returns

    `LSTMState`
        The state of B rows.
    """
    if kind == "warm":
        return bilm.warm_state(n_rows)
    if kind == "carry" and carried is not None:
        return carried.take(n_rows)
    return bilm.bilstm.zero_state(n_rows)


def carry_on(carried: LSTMState | None, after: LSTMState) -> LSTMState:
    """
    The state to carry to the next batch: that `after` this one, and what was `carried` so far in
    rows that this one did not have.
    """
    return after if carried is None else carried.put(after)
