"""Builds the modules of a biLM, which the reader of a format fills with its weights."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from elmo_plugin.checks import MOST, InputError, check_count, named
from elmo_plugin.formats.mixes import TrainedMixes
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.modules.lexicon import CodePoints, WordList
from elmo_plugin.options import MOST_LAYERS, BiLMOptions

MOST_PARAMETERS = 1 << 32
"""More would exhaust the memory; ELMo has 94 million."""


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


def meta_modules(
    options: BiLMOptions, n_words: int | None, most_layers: int
) -> tuple[BiLM, SampledSoftmax | None]:
    """
    A biLM and, if there are words, a softmax on PyTorch's device "meta". They have shapes but take
    no memory, so that a file's arrays can be checked against them before `allocate`. A softmax that
    shares the weights of a table of words has none before `tie`. Raises an `InputError` if
    `options` have more layers than `most_layers`, the most that the file can hold, or sizes beyond
    PyTorch's limits.
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
        with torch.device("meta"), _NoInitialValues():
            bilm = BiLM(options)
            if n_words is None:
                return bilm, None
            size = options.lstm.projection_dim
            softmax = SampledSoftmax(n_words=n_words, dim=size, n_negative_samples=None)
            if options.is_tied:
                softmax.register_parameter("weight", None)
            return bilm, softmax
    except ValueError as error:
        raise InputError(str(error)) from error
    except (OverflowError, RuntimeError, TypeError) as error:
        raise InputError("expected sizes within PyTorch's limits, found larger ones") from error


def check_size(options: BiLMOptions, n_words: int | None = None) -> None:
    """
    Raise an `InputError` if a biLM, with a softmax of `n_words` words, would take too much memory.
    This is for new models, because a weight file bounds the sizes of others.
    """
    if options.char_cnn is not None:
        check_count("char_cnn.n_highway", options.char_cnn.n_highway, least=0, most=MOST_LAYERS)
    with named("lstm, char_cnn and words"):
        modules = torch.nn.ModuleList(filter(None, meta_modules(options, n_words, MOST)))
        if (n_parameters := sum(x.numel() for x in modules.parameters())) > MOST_PARAMETERS:
            raise InputError(
                f"expected sizes of at most {MOST_PARAMETERS:,} parameters, found {n_parameters:,}"
            )


def allocate(module: torch.nn.Module | None) -> None:
    """Give a module of `meta_modules` memory on the CPU, with zeros."""
    if module is not None:
        zeros = {n: torch.zeros_like(x, device="cpu") for n, x in module.state_dict().items()}
        module.load_state_dict(zeros, assign=True)


def load_state(
    modules: torch.nn.Module, state: Mapping[str, Tensor], source: str, prefix: str = ""
) -> None:
    """
    Fill `modules`, which have no memory, with the weights of an archive. Raises an `InputError` as
    `check_state` and `check_lexicon`.
    """
    check_state(modules.state_dict(), state, source, prefix)
    allocate(modules)
    modules.load_state_dict(state)
    check_lexicon(modules)


def check_lexicon(modules: torch.nn.Module) -> None:
    """Raise an `InputError` if what a token encoder looks up is not what it has to be."""
    for name, module in modules.named_modules():
        if isinstance(module, WordList | CodePoints):
            with named(name):
                module.check()


def check_state(
    expected: Mapping[str, Tensor], state: Mapping[str, Tensor], source: str, prefix: str = ""
) -> None:
    """
    Compare weights with those that are `expected`, which have no memory, before any is allocated.
    Raises an `InputError` if they have other names, shapes or types, if numbers are not finite, or
    if tensors share stored numbers. `source`: where the expected sizes are from. `prefix`: what the
    names in `state` begin with in the file.
    """
    # In float32, as weights are trained and stored, whatever PyTorch's default type is.
    expected = {n: x.float() if x.is_floating_point() else x for n, x in expected.items()}
    for name in sorted(expected.keys() | state.keys()):
        one, other = (_described(tensors.get(name)) for tensors in (expected, state))
        if one != other:
            raise InputError(
                f"{prefix}{name}: expected {one}, as the sizes in {source} say, found {other}"
            )
        check_finite(prefix + name, state[name])
    # Views that share stored numbers would take more memory in a model than in the file.
    storages = (x.untyped_storage() for x in state.values())
    stored = sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
    if (size := sum(x.nbytes for x in state.values())) > stored:
        raise InputError(
            f"expected weights of {size:,} bytes, each stored by itself, found {stored:,} bytes"
        )


def check_finite(name: str, tensor: Tensor) -> None:
    """Raise an `InputError` if not all numbers of a tensor are finite."""
    if not torch.isfinite(tensor).all():
        raise InputError(f"{name}: expected finite numbers, found NaN or infinity")


def _described(tensor: Tensor | None) -> str:
    if tensor is None:
        return "no tensor"
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {tuple(tensor.shape)}"


def tie(bilm: BiLM, softmax: SampledSoftmax | None) -> None:
    """Let a softmax of `meta_modules` share the weights of the table of words, if it is tied."""
    if softmax is not None and bilm.options.is_tied:
        softmax.weight = bilm.token_encoder.embedding.weight


def check_words(bilm: BiLM, words: list[str], source: str) -> None:
    """Raise an `InputError` if a table of words is of others than `words`, those of `source`."""
    if bilm.word_table is not None and bilm.word_table.words.words() != words:
        raise InputError(f"{source}: expected the words of the table in the weights, found others")


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
