"""
AllenNLP's trainer ignores keys that it does not know, so that a misspelled `num_epoch`, or a key of
AllenNLP 0.9, trains with the default. Importing this makes it an error that lists the keys.
"""

import inspect
from functools import wraps
from typing import Any

from allennlp.training import GradientDescentTrainer

from elmo_plugin.checks import InputError

_init = GradientDescentTrainer.__init__
PASSED = {"model", "serialization_dir", "data_loader", "validation_data_loader", "local_rank"}
PASSED |= {"world_size", "distributed", "ddp_accelerator", "kwargs"}
"""Arguments of the constructor that AllenNLP passes and a config cannot."""
DEPRECATED = "run_sanity_checks"
"""The one additional key that the trainer reads."""


@wraps(_init)
def _init_with_known_keys(self: GradientDescentTrainer, *args: Any, **kwargs: Any) -> None:
    unknown = set(kwargs) - set(inspect.signature(_init).parameters) - {DEPRECATED}
    if unknown:
        known = set(inspect.signature(GradientDescentTrainer.from_partial_objects).parameters)
        raise InputError(
            f"trainer: unknown key{'s' * (len(unknown) > 1)} {', '.join(sorted(unknown))}; "
            f"its keys are {', '.join(sorted(known - PASSED))}"
        )
    _init(self, *args, **kwargs)


GradientDescentTrainer.__init__ = _init_with_known_keys  # type: ignore[method-assign]
