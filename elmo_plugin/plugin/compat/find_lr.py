"""
AllenNLP's command `find-lr` divides by zero or draws nothing for some rates, and fails with an
error about `NoneType` if the config lacks a block. Importing this checks its arguments before
anything is loaded. Remove it when AllenNLP does so.
"""

from functools import wraps
from inspect import signature
from typing import Any

from allennlp.commands import find_learning_rate

from elmo_plugin.checks import check_count, check_number
from elmo_plugin.plugin.compat.config_blocks import check_block

_find_learning_rate = find_learning_rate.find_learning_rate_model


@wraps(_find_learning_rate)
def _find_after_checks(*args: Any, **kwargs: Any) -> None:
    bound = signature(_find_learning_rate).bind(*args, **kwargs)
    bound.apply_defaults()
    given = bound.arguments
    is_linear, start = given["linear_steps"], given["start_lr"]
    check_number("--start-lr", start, **({"least": 0} if is_linear else {"above": 0}))
    check_number("--end-lr", given["end_lr"], above=start)
    check_count("--num-batches", given["num_batches"], least=11)
    if (factor := given["stopping_factor"]) is not None:
        check_number("--stopping-factor", factor, above=0)
    for key in ("data_loader", "model", "trainer"):
        check_block(given["params"], key)
    _find_learning_rate(*args, **kwargs)


find_learning_rate.find_learning_rate_model = _find_after_checks
