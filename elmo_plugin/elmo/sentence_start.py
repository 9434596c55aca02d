from typing import Any

import torch

from elmo_plugin.modules import BiLM, LSTMState
from elmo_plugin.modules.initial_state import initial_state
from elmo_plugin.ops.numerics_key import numerics_key, tensor_versions


class SentenceStart:
    """
    The state in which a frozen biLM reads a sentence's first word: under `"zero"` and `"warm"` it
    is the same for all sentences. It is computed again only after a change. A copy starts empty.
    """

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._found: tuple[Any, LSTMState] | None = None

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return SentenceStart, ()

    def __call__(self, bilm: BiLM, kind: str) -> LSTMState:
        """One row. `kind`: `"zero"` or `"warm"`, see `initial_state`."""
        tensors = [*bilm.parameters(), *bilm.buffers()]
        key = kind, numerics_key(bilm), tensor_versions(tensors)
        found = self._found  # another thread may replace it
        if found is None or found[0] != key:
            # The state may be used outside of inference mode.
            with torch.inference_mode(False), torch.no_grad():
                found = key, bilm.after_boundary(initial_state(bilm, kind, 1))
            self._found = found
        return found[1]
