"""
AllenNLP fails with an error about `NoneType`, or with the bare name of a key, if a block of a
config is null, if a `type` is not a string, and if the config in an archive has no dataset reader
or no model. PyTorch does not say that a wrong number is one of the optimizer's. Importing this
makes each an error that names the key. Remove it when AllenNLP does so.
"""

from functools import wraps
from typing import Any

from allennlp.common import Lazy, Params, from_params
from allennlp.common.checks import ConfigurationError
from allennlp.models import archival
from allennlp.training.optimizers import Optimizer

from elmo_plugin.checks import InputError, shown

_pop_and_construct_arg = from_params.pop_and_construct_arg
_pop_choice = Params.pop_choice
_load_dataset_readers = archival._load_dataset_readers
_make_optimizer = Optimizer.from_params.__func__  # type: ignore[attr-defined]


def check_block(config: Params, key: str) -> None:
    """Require a block. A class without parameters may be its name alone."""
    if not isinstance(found := config.get(key), Params | str):
        raise ConfigurationError(f"{config.history}{key}: expected a block, found {shown(found)}")


@wraps(_pop_and_construct_arg)
def _pop_and_construct_no_null(
    class_name: str,
    argument_name: str,
    annotation: Any,
    default: Any,
    params: Params,
    **extras: Any,
) -> Any:
    # `Lazy` without `Optional`. A class of another kind may accept null without saying so.
    if argument_name in params and getattr(annotation, "__origin__", annotation) is Lazy:
        check_block(params, argument_name)
    return _pop_and_construct_arg(class_name, argument_name, annotation, default, params, **extras)


@wraps(_pop_choice)
def _pop_string(self: Params, key: str, *args: Any, **kwargs: Any) -> Any:
    if key in self and not isinstance(found := self.get(key), str):
        raise ConfigurationError(f"{self.history}{key}: expected a name, found {shown(found)}")
    return _pop_choice(self, key, *args, **kwargs)


@wraps(_make_optimizer)
def _make_named_optimizer(cls: type[Optimizer], params: Any, *args: Any, **extras: Any) -> Any:
    found = shown(params.params if isinstance(params, Params) else params)  # before they are read
    try:
        return _make_optimizer(cls, params, *args, **extras)
    except InputError:
        raise
    except (TypeError, ValueError) as error:
        raise ConfigurationError(
            f"optimizer: expected parameters of an optimizer, found {found}: {error}"
        ) from error


def _load_after_checks(config: Params, serialization_dir: Any) -> Any:
    for key in ("dataset_reader", "model"):
        check_block(config, key)
    return _load_dataset_readers(config, serialization_dir)


from_params.pop_and_construct_arg = _pop_and_construct_no_null
Params.pop_choice = _pop_string  # type: ignore[method-assign]
archival._load_dataset_readers = _load_after_checks
Optimizer.from_params = classmethod(_make_named_optimizer)  # type: ignore[assignment]
