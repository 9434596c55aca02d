"""An `Elmo` out of what `find_bilm` finds, and back to files."""

import logging
import os
from typing import Any

from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.build import FoundBiLM
from elmo_plugin.formats.mixes import TrainedMixes

logger = logging.getLogger(__name__)


def elmo_of(elmo_class: Any, found: FoundBiLM, kwargs: dict[str, Any]) -> Any:
    """
    An `Elmo` with the biLM and, if `kwargs` do not ask for others, with the mixes that were trained
    with it.
    """
    if found.mixes is None:
        return elmo_class(found.bilm, **kwargs)
    settings = found.mixes.settings
    if kwargs.get("scalar_mix_parameters") is not None:
        return elmo_class(found.bilm, **{**settings, "use_top_only": False, **kwargs})
    elmo = elmo_class(found.bilm, **{**settings, **kwargs})
    states = _mixes(elmo), found.mixes.state
    own, trained = ({name: x.shape for name, x in state.items()} for state in states)
    if own == trained:
        elmo.load_state_dict(found.mixes.state, strict=False)
    else:
        logger.warning("the trained mixes are of another number or form, and are not loaded")
    return elmo


def save_elmo(elmo: Any, folder: str | os.PathLike) -> None:
    """See `Elmo.save`."""
    elmo.check_weights()
    with elmo.lock.shared():
        mixes = TrainedMixes(_mixes(elmo), settings_of(elmo))
        write_model_files(folder, elmo.bilm, mixes=mixes)


def settings_of(elmo: Any) -> dict[str, Any]:
    """The parameters of an `Elmo` that its mixes belong to, those of `MIX_SETTINGS`."""
    return {
        "num_output_representations": elmo.num_output_representations,
        "do_layer_norm": elmo.mixes[0].do_layer_norm,
        "use_top_only": elmo.mixes[0].use_top_only,
        "initial_state": elmo.initial_state,
    }


def _mixes(elmo: Any) -> dict[str, Any]:
    return {name: x for name, x in elmo.state_dict().items() if name.startswith("scalar_mix_")}
