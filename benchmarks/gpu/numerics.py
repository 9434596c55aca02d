"""
Compares what the device computes with the plain equations in double precision on the CPU.

The difference of two tensors is the norm of their difference divided by the norm of the expected
one. For a smooth function it is bounded by `FACTOR` times the rounding of a product, for the few
products that follow one another. A gradient through clips, ReLUs and maxima jumps: rounding moves
about that share of the numbers across a jump, and each is then wrong by its own size, so that the
bound is the square root.
"""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.gpu.precision import PRECISIONS, Precision, precise_to
from benchmarks.gpu.text import InventedText
from benchmarks.measure import Record
from benchmarks.settings import blocks, options_of
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM, CharCNN, ProjectedLSTM, SampledSoftmax
from elmo_plugin.ops.linear import Linear
from elmo_plugin.ops.lstm_reference import reference_lstm
from elmo_plugin.ops.sampled_softmax_loss import (
    reference_sampled_softmax_loss,
    sampled_softmax_loss,
)
from elmo_plugin.options import BiLMOptions

FACTOR = 16

Tensors = dict[str, Tensor]
Part = Callable[[bool], "tuple[nn.Module, Work]"]


class Work:
    """
    A computation that is compared.

    # Parameters

    forward : `Callable[..., Tensors]`
        Computes the outputs of a module for `inputs`, which are on the module's device and in the
        precision of its weights.
    inputs : `Sequence[Tensor]`
        Tensors on the CPU in fp32, or of integers.
    equation : `Callable[..., Tensors]`, optional
        The same by the plain equations; by default `forward` with them in place of the kernels.
    jumps : `bool`, optional (default = `False`)
        Whether the gradient jumps.
    has_gradient : `bool`, optional (default = `True`)
        Whether to compare the gradients of the outputs' sum with random weights, for the module's
        parameters and for its inputs.
    """

    def __init__(
        self,
        forward: Callable[..., Tensors],
        inputs: Sequence[Tensor],
        equation: Callable[..., Tensors] | None = None,
        jumps: bool = False,
        has_gradient: bool = True,
    ) -> None:
        self.forward = forward
        self.inputs = inputs
        self.equation = equation or forward
        self.jumps = jumps
        self.has_gradient = has_gradient

    def compute(
        self,
        function: Callable[..., Tensors],
        module: nn.Module,
        device: torch.device,
        dtype: torch.dtype,
    ) -> Tensors:
        """The outputs and the gradients, in double precision on the CPU."""
        inputs = [
            x.to(device, dtype).requires_grad_(self.has_gradient)
            if x.is_floating_point()
            else x.to(device)
            for x in self.inputs
        ]
        module.zero_grad()
        found = function(module, *inputs)
        if self.has_gradient:
            found |= self._gradients(module, inputs, found)
        return {name: x.detach().cpu().double() for name, x in found.items()}

    @staticmethod
    def _gradients(module: nn.Module, inputs: list[Tensor], outputs: Tensors) -> Tensors:
        draw = torch.Generator().manual_seed(1)
        weights = [torch.randn(x.shape, generator=draw).to(x) for x in outputs.values()]
        leaves = {f"input {k}": x for k, x in enumerate(inputs) if x.requires_grad}
        leaves |= dict(module.named_parameters())
        total = sum((x * w).sum() for x, w in zip(outputs.values(), weights))
        assert isinstance(total, Tensor)
        gradients = torch.autograd.grad(total, list(leaves.values()))
        return {f"gradient of {name}": g for name, g in zip(leaves, gradients)}


@contextmanager
def plain_equations() -> Iterator[None]:
    """Replace the kernels of our modules by their equations."""

    with (
        mock.patch("elmo_plugin.modules.lstm.lstm_scan", reference_lstm),
        mock.patch("elmo_plugin.ops.char_conv.is_usual", lambda *_: False),
    ):
        yield


def run(device: torch.device, quick: bool) -> Iterator[Record]:
    """Yield a record for each part and precision, of the tensor that is closest to its bound."""
    for part, make in PARTS.items():
        torch.manual_seed(0)
        module, work = make(quick)
        with plain_equations():
            exact = copy.deepcopy(module).double()
            expected = work.compute(work.equation, exact, torch.device("cpu"), torch.float64)
        module.to(device)
        for precision in PRECISIONS:
            set_precision(module, precision)
            with precise_to(precision):
                found = work.compute(work.forward, module, device, torch.float32)
            records = [
                compare(part, name, precision, tensor, expected[name], work.jumps)
                for name, tensor in found.items()
            ]
            yield max(records, key=lambda x: (not x["ok"], x["difference"] / x["bound"]))


def compare(
    part: str, name: str, precision: Precision, found: Tensor, expected: Tensor, jumps: bool
) -> Record:
    bound = FACTOR * precision.rounding
    if jumps and name.startswith("gradient"):
        bound = bound**0.5
    norm = max(float(expected.norm()), torch.finfo(torch.float32).tiny)
    difference = float((found - expected).norm()) / norm
    return {
        "part": part,
        "tensor": name,
        "precision": precision.name,
        "difference": difference,
        "bound": bound,
        "largest_difference": float((found - expected).abs().max()),
        "largest_number": float(expected.abs().max()),
        "ok": difference <= bound,  # false for NaN
    }


def set_precision(module: nn.Module, precision: Precision) -> None:
    for part in module.modules():
        if isinstance(part, (Linear, ProjectedLSTM, SampledSoftmax, _NoParameters)):
            part.precision = precision.dtype if precision.bilm == "bf16" else None


def _layer(quick: bool, clips: tuple[float, float] | None) -> tuple[nn.Module, Work]:
    """A layer in which, with `clips`, a good part of the numbers is clipped."""
    input_dim, dim, n_steps, n_rows = (8, 32, 5, 4) if quick else (128, 1024, 20, 32)
    cell_clip, proj_clip = clips or (None, None)
    layer = ProjectedLSTM(
        input_dim=input_dim,
        dim=dim,
        projection_dim=input_dim,
        cell_clip=cell_clip,
        proj_clip=proj_clip,
    )
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.randn(weight.shape) * input_dim**-0.5)
        if layer.projection_weight is not None:
            layer.projection_weight.mul_((input_dim / dim) ** 0.5)
    inputs = torch.randn(2, n_steps, n_rows, input_dim)
    state = 0.1 * torch.randn(2, n_rows, dim), 0.1 * torch.randn(2, n_rows, input_dim)

    def forward(module: nn.Module, x: Tensor) -> Tensors:
        before = (s.to(x) for s in state)
        return {"h": module(x, *before)[0]}

    return layer, Work(forward, [inputs], jumps=clips is not None)


def _lstm(quick: bool) -> tuple[nn.Module, Work]:
    return _layer(quick, None)


def _clipped_lstm(quick: bool) -> tuple[nn.Module, Work]:
    return _layer(quick, (0.5, 0.2))


def _uneven_lstm(quick: bool) -> tuple[nn.Module, Work]:
    """Rows that end early, without a gradient, as vectors of sentences are computed."""
    layer, work = _clipped_lstm(quick)
    assert isinstance(layer, ProjectedLSTM)
    n_steps, n_rows = work.inputs[0].shape[1:3]
    sizes = [max(1, n_rows - t * n_rows // n_steps) for t in range(n_steps)]
    zero = torch.zeros(2, n_rows, layer.dim), torch.zeros(2, n_rows, layer.projection_dim)

    @torch.no_grad()
    def forward(module: nn.Module, x: Tensor) -> Tensors:
        return dict(zip(("h", "last c", "last h"), module(x, *(s.to(x) for s in zero), sizes)))

    return layer.requires_grad_(False), Work(forward, work.inputs, has_gradient=False)


def _char_cnn(quick: bool) -> tuple[nn.Module, Work]:
    options = _options(quick)
    cnn = CharCNN(
        n_characters=262,
        embedding_dim=16,
        filters=options.char_cnn.filters,
        n_highway=options.char_cnn.n_highway,
        projection_dim=options.lstm.projection_dim,
    )
    words = InventedText(1000, 50).windows(4 if quick else 32, 20, 1)[0]["words"]
    return cnn, Work(lambda module, x: {"vectors": module(x)}, [words], jumps=True)


def _sampled_softmax(quick: bool) -> tuple[nn.Module, Work]:
    n, n_samples, dim, n_words = (32, 64, 16, 100) if quick else (640, 8192, 512, 20_000)
    targets = torch.randint(n_words, (n,))  # some are among the samples
    samples = torch.randperm(n_words)[:n_samples]
    hidden, weight = torch.randn(n, dim), torch.randn(n + n_samples, dim) * dim**-0.5
    bias = torch.randn(n + n_samples)

    def forward(_: nn.Module, hidden: Tensor, targets: Tensor, *others: Tensor) -> Tensors:
        samples, weight, bias = others
        dtype = module.precision or weight.dtype
        found = sampled_softmax_loss(hidden, targets, samples, weight.to(dtype), bias)
        return {"loss": found}

    def equation(_: nn.Module, *tensors: Tensor) -> Tensors:
        return {"loss": reference_sampled_softmax_loss(*tensors)}

    module = _NoParameters()
    return module, Work(forward, [hidden, targets, samples, weight, bias], equation)


def _full_softmax(quick: bool) -> tuple[nn.Module, Work]:
    n, dim, n_words = (32, 16, 100) if quick else (640, 512, 20_000)
    softmax = SampledSoftmax(n_words=n_words, dim=dim, n_negative_samples=None)
    inputs = [torch.randn(n, dim), torch.randint(n_words, (n,))]

    def forward(module: nn.Module, hidden: Tensor, targets: Tensor) -> Tensors:
        return {"loss": module(hidden, targets)}

    def equation(module: nn.Module, hidden: Tensor, targets: Tensor) -> Tensors:
        assert isinstance(module, SampledSoftmax)
        logits = hidden @ module.weight.T + module.bias
        return {"loss": F.cross_entropy(logits, targets, reduction="sum")}

    return softmax, Work(forward, inputs, equation)


def _bilm(quick: bool) -> tuple[nn.Module, Work]:
    bilm = BiLM(_options(quick))
    window = InventedText(5000, 50).windows(4 if quick else 32, 20, 1)[0]

    def forward(module: nn.Module, *tensors: Tensor) -> Tensors:
        assert isinstance(module, BiLM)
        zero = module.bilstm.zero_state(len(tensors[1]))
        layers, _ = module(*tensors, zero)
        return {f"layer {k}": h for k, h in enumerate(layers)}

    inputs = [window[name] for name in ("words", "forward_inputs", "backward_inputs")]
    return bilm, Work(forward, inputs, jumps=True)


def _vectors(quick: bool) -> tuple[nn.Module, Work]:
    elmo = Elmo(BiLM(_options(quick))).eval()
    elmo.bilm.warm_up()
    elmo.requires_grad_(False)
    tokens = elmo.characters(InventedText(5000, 50).sentences(100 if quick else 1000))

    @torch.no_grad()
    def forward(module: nn.Module, tokens: Tensor) -> Tensors:
        return {"vectors": module(tokens)["elmo_representations"][0]}

    return elmo, Work(forward, [tokens], has_gradient=False)


class _NoParameters(nn.Module):
    """Has only the precision, for a function."""

    def __init__(self) -> None:
        super().__init__()
        self.precision: torch.dtype | None = None


def _options(quick: bool) -> BiLMOptions:
    filters = [[1, 8], [2, 8], [3, 16]] if quick else [[1, 32], [3, 64], [5, 256], [7, 256]]
    return options_of("test", blocks(64 if quick else 512, 16 if quick else 128, filters, 1))


PARTS: Mapping[str, Part] = {
    "LSTM layer": _lstm,
    "LSTM layer with clips": _clipped_lstm,
    "LSTM layer, rows of several lengths": _uneven_lstm,
    "char CNN": _char_cnn,
    "sampled softmax": _sampled_softmax,
    "full softmax": _full_softmax,
    "biLM": _bilm,
    "Elmo": _vectors,
}
