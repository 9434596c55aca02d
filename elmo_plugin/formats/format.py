"""What the reader of a format returns, and what `find_bilm` has to know about a format."""

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from elmo_plugin.formats.mixes import TrainedMixes
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.options import BiLMOptions


class FoundBiLM(NamedTuple):
    """
    A biLM with its options and weights. If they were asked for and exist, also the softmax of the
    language model and the words of its rows. `mixes`: mixes that were trained with the biLM.
    """

    bilm: BiLM
    softmax: SampledSoftmax | None = None
    words: list[str] | None = None
    mixes: TrainedMixes | None = None

    @property
    def options(self) -> BiLMOptions:
        return self.bilm.options


class Format(NamedTuple):
    """
    A format of models. `files`: a regular expression for the names of its files. `is_in`: whether a
    path has this format. `read`: a function of the path, `with_softmax`, and what else the user may
    give with this format.
    """

    files: str
    is_in: Callable[[Path], bool]
    read: Callable[..., FoundBiLM]
