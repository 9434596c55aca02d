"""What the reader of a format returns, and the modules that it fills."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch.overrides import TorchFunctionMode

from elmo_plugin.checks import InputError
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.options import BiLMOptions


class FoundBiLM(NamedTuple):
    """
    A biLM with its options and weights. If they were asked for and exist, also the softmax of the
    language model and the words of its rows. `parameters`: the block `model` of an archive's
    config, with the values that it has there.
    """

    bilm: BiLM
    softmax: SampledSoftmax | None = None
    words: list[str] | None = None
    parameters: dict[str, Any] | None = None

    @property
    def options(self) -> BiLMOptions:
        return self.bilm.options


def meta_modules(
    options: BiLMOptions, n_words: int | None, most_layers: int
) -> tuple[BiLM, SampledSoftmax | None]:
    """
    A biLM and, if there are words, a softmax on PyTorch's device "meta". They have shapes but take
    no memory, so that a file's arrays can be checked against them before `allocate`. Raises an
    `InputError` if `options` have more layers than `most_layers`, the most that the file can hold,
    or sizes beyond PyTorch's limits.
    """
    n_layers = options.lstm.n_layers + 1
    if options.char_cnn is not None:
        n_layers += len(options.char_cnn.filters) + options.char_cnn.n_highway
    if n_layers > most_layers:
        raise InputError(
            f"expected the weights of {n_layers} layers, as the options say, found at most "
            f"{most_layers}"
        )
    try:
        with without_memory():
            bilm = BiLM(options)
            if n_words is None:
                return bilm, None
            size = options.lstm.projection_dim
            return bilm, SampledSoftmax(n_words=n_words, dim=size, n_negative_samples=None)
    except ValueError as error:
        raise InputError(str(error)) from error
    except (OverflowError, RuntimeError, TypeError) as error:
        raise InputError("expected sizes within PyTorch's limits, found larger ones") from error


@contextmanager
def without_memory() -> Iterator[None]:
    """Put new modules on PyTorch's device "meta", and set no initial values."""
    with torch.device("meta"), _NoInitialValues():
        yield


def allocate(module: torch.nn.Module | None) -> None:
    """Give a module of `meta_modules` memory on the CPU, with zeros."""
    if module is not None:
        zeros = {n: torch.zeros_like(x, device="cpu") for n, x in module.state_dict().items()}
        module.load_state_dict(zeros, assign=True)


class _NoInitialValues(TorchFunctionMode):
    """
    Leaves out `torch.nn.init`: for the device "meta", PyTorch's random functions import its
    compiler, which takes a second.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__module__", None) == "torch.nn.init":
            return kwargs["tensor"] if "tensor" in kwargs else args[0]
        return func(*args, **kwargs)
