"""
The compiled kernels of `csrc/`, one for each of the LSTM scan, the softmax's loss and the
convolutions. `setup.py` builds them where there is a C++ compiler, and only this file calls them.

They are used on CPUs for the precisions that `KERNEL_DTYPES` lists, unless the environment variable
ELMO_PLUGIN_KERNEL is 0. Each is compared with its definition when it is loaded.
"""

import logging
import os
import re
from collections.abc import Sequence
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from elmo_plugin.ops.kernel_sources import sources_digest
from elmo_plugin.ops.lstm_reference import LSTMWeights, reference_lstm, scan_gradients
from elmo_plugin.ops.no_double_backward import no_double_backward
from elmo_plugin.ops.private_torch import ONEDNN_DTYPES

logger = logging.getLogger(__name__)

LIBRARY = Path(__file__).with_name("csrc") / f"kernels{EXTENSION_SUFFIXES[0]}"

BLOCK = 64
"""Number of columns of a block of the LSTM's packed weights."""

PADDED_TO = 32
"""
Rows of weights are padded to a multiple of this number, in the LSTM the AMX bf16 tile height.
"""

MOST_CHARACTERS = 256
"""The longest word, since the kernel keeps the positions of windows in a byte."""


def takes(weight: Any) -> bool:
    """Whether the kernels are used for this weight, which is not packed."""
    return (
        isinstance(weight, Tensor)
        and weight.device.type == "cpu"
        and weight.dtype in KERNEL_DTYPES
        and bool(torch.backends.mkldnn.enabled)
        and not torch.compiler.is_compiling()
    )


class KernelWeights(NamedTuple):
    """A stack of matrices in the kernel's memory layout, as returned by `pack`."""

    packed: Tensor


def pack(weights: Tensor, n_gates: int) -> Tensor:
    """
    Pack `weights`, shape `(2, k, n_gates * n)` with the gates' columns one after another, into
    shape `(2, blocks, n_gates, K, BLOCK)`. Columns after the first n and rows after the first k are
    zeros. In bf16 pairs of rows are interleaved, so that numbers of one column are adjacent.
    """
    n_stack, k, columns = weights.shape
    n = columns // n_gates
    n_pair = 2 if weights.dtype == torch.bfloat16 else 1
    x = weights.reshape(n_stack, k, n_gates, n)
    x = _padded(x, -k % PADDED_TO, -n % BLOCK)
    x = x.view(n_stack, x.size(1) // n_pair, n_pair, n_gates, -1, BLOCK)
    x = x.permute(0, 4, 3, 1, 5, 2).contiguous()
    return x.view(*x.shape[:3], -1, BLOCK)


def _padded(x: Tensor, n_rows: int, n_columns: int) -> Tensor:
    """`x` with zeros after its rows (dimension 1) and columns (the last)."""
    if not (n_rows or n_columns):
        return x  # `pad` would copy it
    return F.pad(x, (0, n_columns, 0, 0, 0, n_rows))


def pack_for_kernel(weights: LSTMWeights) -> LSTMWeights:
    """The same weights with matrices that are `KernelWeights`."""
    return weights.map_matrices(lambda x, n_gates: KernelWeights(pack(x, n_gates)))


def kernel_scan(
    inputs: Tensor, c_0: Tensor, h_0: Tensor, *arguments: Any, keep: bool = False
) -> tuple[Tensor, ...]:
    """
    The scan with packed weights; the arguments are `LSTMWeights` and batch sizes. The results are
    followed by the gates, c and m of every step for the backward pass, or by three times `None`
    without `keep`.
    """
    w_x, w_h, bias, w_p, *clips_and_sizes = arguments
    outputs, c, h, *kept = torch.ops.elmo_plugin.lstm_scan(
        *(x.float().contiguous() for x in (inputs, c_0, h_0)),
        w_x.packed,
        w_h.packed,
        bias.float().contiguous(),
        None if w_p is None else w_p.packed,
        *clips_and_sizes,
        keep,
    )
    return outputs.to(inputs.dtype), c.to(c_0.dtype), h.to(h_0.dtype), *kept


class KernelScan(torch.autograd.Function):
    """The kernel's scan with its gradient. Weights are packed in each pass."""

    @staticmethod
    def forward(
        ctx: Any, inputs: Tensor, c_0: Tensor, h_0: Tensor, *arguments: Any
    ) -> tuple[Tensor, Tensor, Tensor]:
        *given, batch_sizes = arguments
        weights = LSTMWeights(*given)
        x, c_0, h_0 = (tensor.float().contiguous() for tensor in (inputs, c_0, h_0))
        outputs, last_c, last_h, *kept = kernel_scan(
            x, c_0, h_0, *pack_for_kernel(weights), batch_sizes, keep=True
        )
        matrices = weights.input, weights.recurrent, weights.projection
        ctx.save_for_backward(x, c_0, h_0, *matrices, outputs, *kept)
        ctx.clips_and_sizes = weights.cell_clip, weights.proj_clip, batch_sizes
        ctx.mark_non_differentiable(last_c, last_h)
        return outputs.to(inputs.dtype), last_c, last_h

    @staticmethod
    @no_double_backward
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        x, c_0, h_0, input_weight, recurrent_weight, projection_weight, outputs, gates, c, m = (
            ctx.saved_tensors
        )
        d_gates, d_h, d_bias = torch.ops.elmo_plugin.lstm_scan_backward(
            grads[0].float().contiguous(),
            outputs,
            c_0,
            gates,
            c,
            _pack_transposed(recurrent_weight),
            None if projection_weight is None else pack(projection_weight.transpose(1, 2), 1),
            *ctx.clips_and_sizes,
        )
        h = torch.cat([h_0[:, None], outputs], dim=1)[:, :-1]
        return scan_gradients(ctx, x, h, m, d_gates, d_h, d_bias, input_weight)


def _pack_transposed(recurrent_weight: Tensor) -> Tensor:
    """
    W_h transposed and packed, with its rows in the kernel's order: the four gates of a block of
    units.
    """
    n_stack, projection_dim, columns = recurrent_weight.shape
    x = recurrent_weight.view(n_stack, projection_dim, 4, columns // 4)
    x = _padded(x, -projection_dim % BLOCK, -x.size(-1) % BLOCK)
    x = x.view(n_stack, x.size(1) // BLOCK, BLOCK, 4, -1, BLOCK)
    if x.dtype == torch.bfloat16:
        x = x.contiguous().view(torch.int32)  # pairs of rows stay pairs
    x = x.permute(0, 1, 4, 3, 5, 2).contiguous().view(recurrent_weight.dtype)
    return x.view(*x.shape[:2], 1, -1, BLOCK)


def kernel_losses(
    hidden: Tensor,
    hits: Tensor,
    weight: Tensor,
    bias: Tensor,
    true_logits: Tensor,
    d_weight: Tensor | None,
) -> tuple[Tensor, ...]:
    """
    `sampled_softmax_loss.losses` by the kernel: arguments and results are the same. `hidden` is in
    fp32, and neither it nor `weight` is empty.
    """
    dim = hidden.size(1)
    padding = -dim % PADDED_TO
    rows = F.pad(weight, (0, padding)) if padding else weight  # `pad` copies even for no padding
    arguments = hidden.contiguous(), hits.contiguous(), rows.contiguous()
    biases = bias.float().contiguous(), true_logits
    if d_weight is None:
        return torch.ops.elmo_plugin.softmax_loss(*arguments, *biases, None)[:1]
    if not padding:
        return torch.ops.elmo_plugin.softmax_loss(*arguments, *biases, d_weight)
    padded = d_weight.new_empty(arguments[2].shape)
    found = torch.ops.elmo_plugin.softmax_loss(*arguments, *biases, padded)
    d_weight.copy_(padded[:, :dim])
    return found


def kernel_best_windows(
    characters: Tensor, tables: Sequence[Tensor], wants_places: bool
) -> tuple[Tensor, Tensor | None]:
    """
    `char_conv._best_windows` by the kernel: arguments and results are the same. Raises an
    `IndexError` if a character has no row in the tables.
    """
    best, at = torch.ops.elmo_plugin.best_windows(
        characters.contiguous(), [table.contiguous() for table in tables], wants_places
    )
    return best, at if wants_places else None


def kernel_table_gradients(
    d_best: Tensor, characters: Tensor, at: Tensor, tables: Sequence[Tensor]
) -> list[Tensor]:
    """`char_conv._table_gradients` by the kernel: arguments and results are the same."""
    return torch.ops.elmo_plugin.table_gradients(
        d_best.contiguous(), characters.contiguous(), at, tables
    )


def _test_lstm(dtype: torch.dtype) -> None:
    """Raise a `RuntimeError` if the results differ from `reference_lstm`."""
    generator = torch.Generator().manual_seed(0)

    def random(*shape: int) -> Tensor:
        return 0.3 * torch.randn(shape, generator=generator)

    tensors = [random(2, 4, 3, 5), random(2, 3, 70), random(2, 3, 6)]
    w_x, w_h, w_p = (random(*shape).to(dtype) for shape in ((2, 5, 280), (2, 6, 280), (2, 70, 6)))
    weights = LSTMWeights(w_x, w_h, random(2, 280), w_p, 0.4, 0.3)
    sizes = [3, 3, 2, 1]
    found = kernel_scan(*tensors, *pack_for_kernel(weights), sizes)
    in_fp32 = weights.map_matrices(lambda x, _: x.float())
    inputs, c_0, h_0 = tensors
    expected = reference_lstm(inputs, c_0, h_0, in_fp32, sizes)
    error = max(float((x - y).abs().max()) for x, y in zip(found, expected))
    if not error <= (1e-5 if dtype == torch.float32 else 0.02):
        raise RuntimeError(f"its {dtype} numbers are wrong by {error:g}")


def _test_softmax(dtype: torch.dtype) -> None:
    """Raise a `RuntimeError` if the numbers are not those of the equation."""
    generator = torch.Generator().manual_seed(0)
    n, n_words, dim = 70, 150, 40
    hidden = torch.randn(n, dim, generator=generator)
    weight = (0.3 * torch.randn(n_words, dim, generator=generator)).to(dtype)
    bias, true_logits = torch.randn(n_words, generator=generator), torch.zeros(n)
    hits = torch.arange(n) - 1
    d_weight = torch.empty(n_words, dim)
    found = kernel_losses(hidden, hits, weight, bias, true_logits, d_weight)

    logits = hidden.to(dtype).float() @ weight.float().T + bias
    logits[torch.arange(1, n), hits[1:]] = -torch.inf
    logits = torch.cat([logits, true_logits[:, None]], dim=1)
    p = logits.softmax(dim=1)
    sampled = p[:, :-1]
    expected = [
        logits.logsumexp(dim=1),
        p[:, -1] - 1,
        sampled @ weight.float(),
        sampled.sum(dim=0),
        sampled.T @ hidden,
    ]
    error = max(float((x - y).abs().max()) for x, y in zip([*found, d_weight], expected))
    if not error <= (1e-4 if dtype == torch.float32 else 0.05):
        raise RuntimeError(f"its {dtype} numbers of the softmax are wrong by {error:g}")


def _test_convolutions() -> None:
    """Raise a `RuntimeError` if the numbers are not those of the definition."""
    generator = torch.Generator().manual_seed(0)
    n_words, n_characters = 9, 12
    characters = torch.randint(n_characters, (n_words, 10), generator=generator)
    characters[:4, 5:] = 0  # words with padding
    tables = [
        torch.randn(w, n_characters, n, generator=generator).requires_grad_()
        for w, n in ((1, 5), (3, 70))
    ]
    one_hot = F.one_hot(characters, n_characters).float().transpose(1, 2)
    with torch.enable_grad():
        convolved = [F.conv1d(one_hot, table.permute(2, 1, 0)) for table in tables]
        best = torch.cat([y.amax(dim=2) for y in convolved], dim=1)
        d_best = torch.randn(best.shape, generator=generator)
        gradients = torch.autograd.grad(best, tables, d_best)
    with torch.no_grad():
        found, at = kernel_best_windows(characters, tables, True)
        assert at is not None
        found_gradients = kernel_table_gradients(d_best, characters, at, tables)
        pairs = zip([found, *found_gradients], [best, *gradients])
        error = max(float((x - y).abs().max()) for x, y in pairs)
    if not error <= 1e-5:
        raise RuntimeError(f"its numbers of the convolutions are wrong by {error:g}")


def _check_built_from() -> None:
    """
    Raise a `RuntimeError` if the library is not complete, or was built for another PyTorch or from
    other sources. It is not loaded for this, because its calls into another PyTorch may crash.
    """
    pattern = rb"elmo_plugin kernels of (\w+) for PyTorch ([\w.]+)\0"
    built = re.search(pattern, LIBRARY.read_bytes())
    sources, built_for = (x.decode() for x in built.groups()) if built else (None, None)
    again = "; pip install --no-deps --no-build-isolation -e . builds it again"
    if built_for != torch.__version__.partition("+")[0]:
        raise RuntimeError(
            f"{LIBRARY} was built for PyTorch {built_for}, not {torch.__version__}{again}"
            if built
            else f"{LIBRARY}: expected a library of this version of elmo_plugin, found none{again}"
        )
    if sources_digest() not in (None, sources):
        raise RuntimeError(f"{LIBRARY} was built from other sources than those beside it{again}")


def _load() -> tuple[frozenset[torch.dtype], str]:
    """Returns `KERNEL_DTYPES` and `KERNEL_STATUS`."""
    if os.environ.get("ELMO_PLUGIN_KERNEL") == "0":
        return frozenset(), "off, because ELMO_PLUGIN_KERNEL is 0"
    if not LIBRARY.exists():
        return frozenset(), "off, because it was not built"
    try:
        _check_built_from()
        torch.ops.load_library(str(LIBRARY))
        dtypes = frozenset(filter(torch.ops.elmo_plugin.is_supported, ONEDNN_DTYPES))
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)  # threads started here would be missing in a forked process
        default_dtype = torch.get_default_dtype()
        torch.set_default_dtype(torch.float32)
        try:
            # The contexts in which the package happens to be imported do not matter.
            with (
                torch.inference_mode(False),
                torch.autocast("cpu", enabled=False),
                torch.device("cpu"),
            ):
                if torch.float32 in dtypes:
                    _test_convolutions()
                for dtype in dtypes:
                    _test_lstm(dtype)
                    _test_softmax(dtype)
        finally:
            torch.set_num_threads(n_threads)
            torch.set_default_dtype(default_dtype)
    except Exception as error:  # whatever it is, PyTorch's operators compute the same
        logger.warning("The compiled kernels are not used: %s", error)
        return frozenset(), f"off, because {error}"
    names = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
    return dtypes, f"on, for {names}" if names else "off, because this processor has no AVX2"


KERNEL_DTYPES, KERNEL_STATUS = _load()
"""The precisions in which the kernels are used, and whether and why they are on or off."""
