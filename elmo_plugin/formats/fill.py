"""
Builds the modules of a biLM without memory, and fills them with the arrays of a file, in the same
way for every format.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from elmo_plugin.checks import MOST, InputError, check_count, named
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.modules.lexicon import CodePoints, WordList
from elmo_plugin.options import MOST_LAYERS, BiLMOptions

MOST_PARAMETERS = 1 << 32
"""More would exhaust the memory; ELMo has 94 million."""

Layout = dict[str, list[Tensor]]
"""
Views of our parameters by the names of the arrays in a file. An array is its views concatenated
along the first dimension: copying into the views reads it, and copying out of them writes it.
"""


class Arrays(Protocol):
    """The named arrays of a file, or of several."""

    def check(self, layout: Layout) -> None:
        """
        Raise an `InputError` that names the array if one of a `layout` without memory is missing or
        has another shape, if there are others, or if all would become much larger in memory.
        """

    def rows(self, name: str, dtype: torch.dtype) -> Iterator[Tensor]:
        """
        The rows of an array as finite numbers that fit into `dtype`, in blocks, so that a large one
        is not in memory twice. Raises an `InputError` that names the array if it has others or is
        damaged.
        """


def meta_modules(
    options: BiLMOptions, n_words: int | None, most_layers: int
) -> tuple[BiLM, SampledSoftmax | None]:
    """
    A biLM and, if there are words, a softmax on PyTorch's device "meta". They have shapes but take
    no memory, so that a file's arrays can be checked against them before `fill`. A softmax that
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
        modules = nn.ModuleList(filter(None, meta_modules(options, n_words, MOST)))
        if (n_parameters := sum(x.numel() for x in modules.parameters())) > MOST_PARAMETERS:
            raise InputError(
                f"expected sizes of at most {MOST_PARAMETERS:,} parameters, found {n_parameters:,}"
            )


@torch.no_grad()
def fill(modules: Iterable[nn.Module | None], layout: Callable[[], Layout], arrays: Arrays) -> None:
    """
    Give `modules`, of `meta_modules`, memory on the CPU, and copy the arrays into it. `layout`
    makes the views of the modules, and maybe of others, which remain without memory: their arrays
    are only checked. What is not in the layout is zero. Raises an `InputError` as `Arrays`: about
    names and sizes before memory is taken, and about numbers when they are read.
    """
    arrays.check(layout())
    for module in filter(None, modules):
        zeros = {n: torch.zeros_like(x, device="cpu") for n, x in module.state_dict().items()}
        module.load_state_dict(zeros, assign=True)
    for name, parts in layout().items():  # those above have no memory
        parts = list(map(torch.atleast_1d, parts))
        for block in map(torch.atleast_1d, arrays.rows(name, parts[0].dtype)):
            while len(block):
                n = min(len(block), len(parts[0]))
                parts[0][:n].copy_(block[:n])
                parts[0], block = parts[0][n:], block[n:]
                if not len(parts[0]):
                    del parts[0]


def stored(parts: list[Tensor]) -> tuple[torch.dtype, tuple[int, ...]]:
    """
    The type and the shape of an array of a `Layout` in a file. Weights are trained and stored in
    float32, whatever PyTorch's default type is.
    """
    first, *others = parts
    dtype = torch.float32 if first.is_floating_point() else first.dtype
    return dtype, (sum(map(len, parts)), *first.shape[1:]) if others else tuple(first.shape)


def own_names(modules: nn.Module) -> Layout:
    """The layout of AllenNLP's archives of our modules."""
    return {name: [tensor] for name, tensor in modules.state_dict().items()}


class Tensors:
    """
    Tensors by name, as `Arrays` that must have exactly the types of the parameters. `source`: where
    the expected sizes are from. `prefix`: what the names begin with in the file.
    """

    def __init__(self, state: Mapping[str, Tensor], source: str, prefix: str = "") -> None:
        self.state, self.source, self.prefix = state, source, prefix

    def check(self, layout: Layout) -> None:
        expected = {name: _described(*stored(parts)) for name, parts in layout.items()}
        found = {name: _described(x.dtype, x.shape) for name, x in self.state.items()}
        for name in sorted(expected.keys() | found.keys()):
            one, other = (tensors.get(name, "no tensor") for tensors in (expected, found))
            if one != other:
                raise InputError(
                    f"{self.prefix}{name}: expected {one}, as the sizes in {self.source} say, "
                    f"found {other}"
                )
        # Views that share stored numbers would take more memory in a model than in the file.
        storages = (x.untyped_storage() for x in self.state.values())
        n_stored = sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
        if (n := sum(x.nbytes for x in self.state.values())) > n_stored:
            raise InputError(
                f"expected weights of {n:,} bytes, each stored by itself, found {n_stored:,} bytes"
            )

    def rows(self, name: str, dtype: torch.dtype) -> Iterator[Tensor]:
        check_finite(self.prefix + name, self.state[name])
        yield self.state[name]


def check_lexicon(modules: nn.Module) -> None:
    """Raise an `InputError` if what a token encoder looks up is not what it has to be."""
    for name, module in modules.named_modules():
        if isinstance(module, WordList | CodePoints):
            with named(name):
                module.check()


def check_finite(name: str, tensor: Tensor) -> None:
    """Raise an `InputError` if not all numbers of a tensor are finite."""
    if not torch.isfinite(tensor).all():
        raise InputError(f"{name}: expected finite numbers, found NaN or infinity")


def _described(dtype: torch.dtype, shape: tuple[int, ...]) -> str:
    return f"{dtype} of shape {tuple(shape)}".removeprefix("torch.")


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
