"""
AllenNLP's trainer ignores keys that it does not know, so that a misspelled `num_epoch` or
`optimiser` trains with the default. Importing this makes it an error that lists the keys.

A misspelled `validation_metric` is an error only after the first epoch. For a model that lists its
`validation_metrics`, it is one before.

A `grad_norm` of 0 multiplies every gradient by 0, and a negative one ascends, both in silence.
These and other numbers that cannot train are errors.
"""

import inspect
from functools import wraps
from types import NoneType
from typing import Any

from allennlp.training import GradientDescentTrainer

from elmo_plugin.checks import InputError, check_choice, check_count, check_number, fail

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
    given = inspect.signature(_init).bind(self, *args, **kwargs).arguments
    check_count("trainer: num_epochs", given.get("num_epochs", 1))
    if given.get("validation_metric", "-loss") is None:
        fail("trainer: validation_metric", "the name of a metric after + or -", None)
    for key, none in (("grad_norm", bool), ("grad_clipping", NoneType)):
        if key in given and not isinstance(given[key], none):
            check_number(f"trainer: {key}", given[key], above=0)
    _init(self, *args, **kwargs)
    if (known_metrics := getattr(self.model, "validation_metrics", None)) is not None:
        for _, name in self._metric_tracker.tracked_metrics:
            check_choice("trainer: validation_metric", name, known_metrics)


GradientDescentTrainer.__init__ = _init_with_known_keys  # type: ignore[method-assign]
