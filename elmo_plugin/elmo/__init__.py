"""ELMo vectors in use: `Elmo` and what it stands on."""

from elmo_plugin.elmo.elmo import Elmo

__all__ = ["Elmo"]
