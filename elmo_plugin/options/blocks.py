"""From a block of a config or of an options file to a dataclass, and to flat keys."""

from collections.abc import Mapping
from inspect import signature
from typing import Any, TypeVar

from elmo_plugin.checks import InputError, fail

NULL_IS_ABSENT = ("n_highway", "use_skip_connections")
"""bilm-tf reads these with `.get(key)` and tests the result for truth."""

Options = TypeVar("Options")


def read_block(options: type[Options], block: Any, name: str) -> Options:
    """Makes a dataclass from the block `name`, whose keys are its fields."""
    if not isinstance(block, Mapping):
        fail(name, "a block {...}", block)
    block = {k: v for k, v in block.items() if v is not None or k not in NULL_IS_ABSENT}
    fields = signature(options).parameters
    for key, field in fields.items():
        if key not in block and field.default is field.empty:
            raise InputError(f"{name}: missing key {key}")
    if unknown := sorted(block.keys() - fields.keys()):
        plural = "s" * (len(unknown) > 1)
        raise InputError(
            f"{name}: unknown key{plural} {', '.join(unknown)}; its keys are {', '.join(fields)}"
        )
    return options(**block)


def flatten(block: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """The values of a nested block under keys such as `lstm.dim`."""
    flat: dict[str, Any] = {}
    for key, value in block.items():
        if isinstance(value, Mapping):
            flat |= flatten(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat
