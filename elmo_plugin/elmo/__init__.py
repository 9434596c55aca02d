"""ELMo vectors: `Elmo`, its caches, and writing vectors to a file."""

from elmo_plugin.elmo.elmo import Elmo

__all__ = ["Elmo"]
