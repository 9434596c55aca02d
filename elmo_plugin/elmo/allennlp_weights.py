"""Lets `Elmo.load_state_dict` accept the weights of AllenNLP's own `Elmo`."""

from typing import Any

from torch import nn

from elmo_plugin.checks import InputError
from elmo_plugin.formats.allennlp_elmo import CACHED_WORDS, CHARACTERS, take_allennlp_weights


def accept_allennlp_weights(elmo: nn.Module) -> None:
    """
    Register hooks of `load_state_dict` on an `Elmo`. Its mixes and the embedder's projection have
    the same names in AllenNLP. The warm state, which AllenNLP does not have, is computed.
    """
    elmo.register_load_state_dict_pre_hook(_rename)
    elmo.register_load_state_dict_post_hook(_warm_up)


def _rename(elmo: Any, state_dict: dict[str, Any], prefix: str, *_: Any) -> None:
    if prefix + CHARACTERS not in state_dict:
        return
    if prefix + CACHED_WORDS in state_dict and next(elmo.bilm.parameters()).requires_grad:
        raise InputError(
            f"{prefix}{CACHED_WORDS}: expected word vectors that are computed from characters, "
            "found those that AllenNLP trains apart from them with requires_grad and vocab_to_cache"
        )
    taken = take_allennlp_weights(state_dict, prefix, elmo.bilm.options)
    warm_state = {f"warm_state.{name}": x for name, x in elmo.bilm.warm_state.state_dict().items()}
    state_dict.update({f"{prefix}bilm.{name}": x for name, x in {**warm_state, **taken}.items()})
    elmo.needs_warm_state = True


def _warm_up(elmo: Any, _: object) -> None:
    if elmo.__dict__.pop("needs_warm_state", False):
        elmo.bilm.warm_up()
