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
from dataclasses import dataclass
from functools import partial
from unittest import mock

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks.gpu.precision import PRECISIONS, Precision, precise_to
from benchmarks.gpu.text import InventedText
from benchmarks.measure import CPU, Record
from benchmarks.settings import blocks, options_of
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM, CharCNN, ProjectedLSTM, SampledSoftmax
from elmo_plugin.ops.linear import Linear
from elmo_plugin.ops.lstm import reference_lstm
from elmo_plugin.ops.softmax import reference_sampled_softmax_loss, sampled_softmax_loss
from elmo_plugin.options import BiLMOptions

FACTOR = 16

Tensors = dict[str, Tensor]


@dataclass
class Part:
    """
    A computation that is compared.

    # Parameters

    module : `nn.Module`
        Its parameters are those whose gradients are compared.
    forward : `Callable[..., Tensors]`
        Computes the outputs of the module for `inputs`, which are on the module's device and in the
        precision of its weights.
    inputs : `Sequence[Tensor]`
        Tensors on the CPU in fp32, or of integers.
    equation : `Callable[..., Tensors]`, optional
        The same by the plain equations; by default `forward` with them instead of the kernels.
    jumps : `bool`, optional (default = `False`)
        Whether the gradient jumps.
    has_gradient : `bool`, optional (default = `True`)
        Whether to compare the gradients of the outputs' sum with random weights, for the module's
        parameters and for its inputs.
    """

    module: nn.Module
    forward: Callable[..., Tensors]
    inputs: Sequence[Tensor]
    equation: Callable[..., Tensors] | None = None
    jumps: bool = False
    has_gradient: bool = True

    def exact(self) -> Tensors:
        """What the equations give in double precision on the CPU."""
        module = copy.deepcopy(self.module).double()
        with plain_equations():
            return self._computed(self.equation or self.forward, module, CPU, torch.float64)

    def found(self, device: torch.device, precision: Precision) -> Tensors:
        """What the device gives, in double precision on the CPU."""
        for part in self.module.to(device).modules():
            if isinstance(part, (Linear, ProjectedLSTM, SampledSoftmax, _SampledLoss)):
                part.precision = precision.dtype if precision.bilm == "bf16" else None
        with precise_to(precision):
            return self._computed(self.forward, self.module, device, torch.float32)

    def _computed(
        self,
        function: Callable[..., Tensors],
        module: nn.Module,
        device: torch.device,
        dtype: torch.dtype,
    ) -> Tensors:
        inputs = [x.to(device, dtype if x.is_floating_point() else x.dtype) for x in self.inputs]
        leaves: dict[str, Tensor] = dict(module.named_parameters())
        if self.has_gradient:
            floats = {f"input {k}": x for k, x in enumerate(inputs) if x.is_floating_point()}
            leaves |= {name: x.requires_grad_() for name, x in floats.items()}
        found = function(module, *inputs)
        if self.has_gradient:
            draw = torch.Generator().manual_seed(1)
            weights = [torch.randn(x.shape, generator=draw).to(x) for x in found.values()]
            outputs = list(found.values())
            gradients = torch.autograd.grad(outputs, list(leaves.values()), weights)
            found |= {f"gradient of {name}": g for name, g in zip(leaves, gradients)}
        return {name: x.detach().cpu().double() for name, x in found.items()}


@contextmanager
def plain_equations() -> Iterator[None]:
    """Replace the kernels of our modules by their equations."""

    with (
        mock.patch("elmo_plugin.modules.lstm.lstm_scan", reference_lstm),
        mock.patch("elmo_plugin.ops.char_conv._weights", lambda *_: None),
    ):
        yield


def run(device: torch.device, quick: bool) -> Iterator[Record]:
    """Yield a record for each part and precision, of the tensor that is closest to its bound."""
    for name, make in PARTS.items():
        torch.manual_seed(0)
        part = make(quick)
        expected = part.exact()
        for precision in PRECISIONS:
            records = [
                compare(name, tensor, precision, found, expected[tensor], part.jumps)
                for tensor, found in part.found(device, precision).items()
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


def _lstm(quick: bool, clips: tuple[float | None, float | None] = (None, None)) -> Part:
    """A layer in which, with `clips`, a good part of the numbers is clipped."""
    input_dim, dim, n_steps, n_rows = (8, 32, 5, 4) if quick else (128, 1024, 20, 32)
    layer = ProjectedLSTM(
        input_dim=input_dim,
        dim=dim,
        projection_dim=input_dim,
        cell_clip=clips[0],
        proj_clip=clips[1],
    )
    with torch.no_grad():
        for weight in layer.parameters():
            weight.copy_(torch.randn(weight.shape) * input_dim**-0.5)
        assert layer.projection_weight is not None
        layer.projection_weight.mul_((input_dim / dim) ** 0.5)
    inputs = torch.randn(2, n_steps, n_rows, input_dim)
    state = 0.1 * torch.randn(2, n_rows, dim), 0.1 * torch.randn(2, n_rows, input_dim)

    def forward(module: nn.Module, x: Tensor) -> Tensors:
        return {"h": module(x, *(s.to(x) for s in state))[0]}

    return Part(layer, forward, [inputs], jumps=clips != (None, None))


_clipped_lstm = partial(_lstm, clips=(0.5, 0.2))


def _uneven_lstm(quick: bool) -> Part:
    """Rows that end early, without a gradient, as vectors of sentences are computed."""
    part = _clipped_lstm(quick)
    layer, [inputs] = part.module.requires_grad_(False), part.inputs
    assert isinstance(layer, ProjectedLSTM)
    n_steps, n_rows = inputs.shape[1:3]
    sizes = [max(1, n_rows - t * n_rows // n_steps) for t in range(n_steps)]
    zero = torch.zeros(2, n_rows, layer.dim), torch.zeros(2, n_rows, layer.projection_dim)

    @torch.no_grad()
    def forward(module: nn.Module, x: Tensor) -> Tensors:
        return dict(zip(("h", "last c", "last h"), module(x, *(s.to(x) for s in zero), sizes)))

    return Part(layer, forward, [inputs], has_gradient=False)


def _char_cnn(quick: bool) -> Part:
    options = _options(quick)
    assert options.char_cnn is not None
    cnn = CharCNN(
        n_characters=262,
        embedding_dim=16,
        filters=options.char_cnn.filters,
        n_highway=options.char_cnn.n_highway,
        projection_dim=options.lstm.projection_dim,
    )
    words = InventedText(1000, 50).windows(4 if quick else 32, 20, 1)[0]["words"]
    return Part(cnn, lambda module, x: {"vectors": module(x)}, [words], jumps=True)


class _SampledLoss(nn.Module):
    """The function as a module without parameters, which has a precision."""

    precision: torch.dtype | None = None

    def forward(
        self, hidden: Tensor, targets: Tensor, samples: Tensor, weight: Tensor, bias: Tensor
    ) -> Tensors:
        weight = weight.to(self.precision or weight.dtype)
        return {"loss": sampled_softmax_loss(hidden, targets, samples, weight, bias)}


def _sampled_softmax(quick: bool) -> Part:
    n, n_samples, dim, n_words = (32, 64, 16, 100) if quick else (640, 8192, 512, 20_000)
    targets = torch.randint(n_words, (n,))  # some are among the samples
    samples = torch.randperm(n_words)[:n_samples]
    hidden, weight = torch.randn(n, dim), torch.randn(n + n_samples, dim) * dim**-0.5
    bias = torch.randn(n + n_samples)

    def equation(_: nn.Module, *tensors: Tensor) -> Tensors:
        return {"loss": reference_sampled_softmax_loss(*tensors)}

    inputs = [hidden, targets, samples, weight, bias]
    return Part(_SampledLoss(), _SampledLoss.__call__, inputs, equation)


def _full_softmax(quick: bool) -> Part:
    n, dim, n_words = (32, 16, 100) if quick else (640, 512, 20_000)
    softmax = SampledSoftmax(n_words=n_words, dim=dim, n_negative_samples=None)
    inputs = [torch.randn(n, dim), torch.randint(n_words, (n,))]

    def equation(module: nn.Module, hidden: Tensor, targets: Tensor) -> Tensors:
        assert isinstance(module, SampledSoftmax)
        logits = hidden @ module.weight.T + module.bias
        return {"loss": F.cross_entropy(logits, targets, reduction="sum")}

    return Part(softmax, lambda module, h, t: {"loss": module(h, t)}, inputs, equation)


def _bilm(quick: bool) -> Part:
    window = InventedText(5000, 50).windows(4 if quick else 32, 20, 1)[0]

    def forward(module: nn.Module, *tensors: Tensor) -> Tensors:
        assert isinstance(module, BiLM)
        layers, _ = module(*tensors, module.bilstm.zero_state(len(tensors[1])))
        return {f"layer {k}": h for k, h in enumerate(layers)}

    inputs = [window[name] for name in ("words", "forward_inputs", "backward_inputs")]
    return Part(BiLM(_options(quick)), forward, inputs, jumps=True)


def _vectors(quick: bool) -> Part:
    elmo = Elmo(BiLM(_options(quick))).eval()
    elmo.bilm.warm_up()
    elmo.requires_grad_(False)
    tokens = elmo.characters(InventedText(5000, 50).sentences(100 if quick else 1000))

    @torch.no_grad()
    def forward(module: nn.Module, tokens: Tensor) -> Tensors:
        return {"vectors": module(tokens)["elmo_representations"][0]}

    return Part(elmo, forward, [tokens], has_gradient=False)


def _options(quick: bool) -> BiLMOptions:
    filters = [[1, 8], [2, 8], [3, 16]] if quick else [[1, 32], [3, 64], [5, 256], [7, 256]]
    return options_of("test", blocks(64 if quick else 512, 16 if quick else 128, filters, 1))


PARTS: Mapping[str, Callable[[bool], Part]] = {
    "LSTM layer": _lstm,
    "LSTM layer with clips": _clipped_lstm,
    "LSTM layer, rows of several lengths": _uneven_lstm,
    "char CNN": _char_cnn,
    "sampled softmax": _sampled_softmax,
    "full softmax": _full_softmax,
    "biLM": _bilm,
    "Elmo": _vectors,
}
