import logging
import math
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from elmo_plugin.checks import InputError, check_flag, fail, optional_count
from elmo_plugin.ops.linear import is_on_cpu, linear, on_device, product_dtype
from elmo_plugin.ops.softmax import log_likelihoods, sampled_softmax_loss, softmax_loss
from elmo_plugin.ops.streams import Shared, shared

logger = logging.getLogger(__name__)

IGNORE = -100
"""Target at positions without a prediction: PyTorch's default `ignore_index`."""

CERTAIN = 1e30
"""A logit next to which the probabilities of all other words are 0."""

CHUNK_NUMBERS = 2**24
"""Number of logits that the full softmax computes at a time: 64 MiB in fp32."""


class SampledSoftmax(nn.Module):
    """
    The language model's softmax over V words. Evaluation uses all words; training uses the target
    and `n_negative_samples` other words (Jean et al. 2015), drawn from the log-uniform distribution
    (TensorFlow's candidate sampler, which bilm-tf uses),

        p(k) = log((k + 2) / (k + 1)) / log(V + 1),

    without repetition. The logarithm of a word's expected count in this draw is subtracted from its
    logit. Words must be numbered by descending frequency.

    # Parameters

    n_words : `int`
        V, the number of words.
    dim : `int`
        P, the size of a hidden vector.
    n_negative_samples : `int | None`
        Number of words to draw in each call; `None` trains with all words, and so does a number of
        V or more, which is logged.
    sparse_gradients : `bool`, optional (default = `False`)
        Whether training gradients are sparse tensors of only the drawn rows, instead of dense
        tensors of all V rows. With V samples or more they are dense.

    # Raises

    `InputError`
        If `n_negative_samples` is not at least 1, or is `None` with `sparse_gradients`.
    """

    def __init__(
        self,
        *,
        n_words: int,
        dim: int,
        n_negative_samples: int | None,
        sparse_gradients: bool = False,
    ) -> None:
        super().__init__()
        n_negative_samples = optional_count("n_negative_samples", n_negative_samples)
        check_flag("sparse_gradients", sparse_gradients)
        if sparse_gradients and n_negative_samples is None:
            raise InputError(
                "sparse_gradients: expected n_negative_samples with it, found none: a softmax over "
                "all words has a gradient for each"
            )
        if n_negative_samples is not None and n_negative_samples >= n_words:
            logger.warning(
                "n_negative_samples: training uses the full softmax, because the vocabulary has %d "
                "words, which are no more than the %d samples",
                n_words,
                n_negative_samples,
            )
            n_negative_samples, sparse_gradients = None, False
        self.n_negative_samples = n_negative_samples
        self.sparse_gradients = sparse_gradients
        self.precision: torch.dtype | None = None  # of sampled products; by default the weight's
        self.weight = nn.Parameter(torch.empty(n_words, dim))
        self.bias = nn.Parameter(torch.empty(n_words))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set bilm-tf's initial values."""
        nn.init.normal_(self.weight, std=self.weight.size(1) ** -0.5)
        nn.init.zeros_(self.bias)

    @property
    def n_words(self) -> int:
        return self.weight.size(0)

    def forward(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """
        The sum of the negative log likelihoods, a scalar: sampled in training mode, exact in
        evaluation mode. `hidden`: hidden vectors, shape `(..., P)`. `targets`: word numbers, shape
        `(...)`; `IGNORE` at positions without a prediction. Raises an `InputError` for targets of
        another shape.
        """
        hidden, targets = _flat(hidden, targets)
        is_sampled = self.training and self.n_negative_samples is not None
        if is_sampled and not is_on_cpu(hidden):
            # A GPU computes rows without a prediction too, as the CPU would wait for their number.
            ignored = targets == IGNORE
            return self._sampled_loss(hidden, targets.masked_fill(ignored, 0), ignored)
        real = (targets != IGNORE).nonzero().squeeze(1)
        # The gradient of `hidden[real]` is several times slower.
        hidden, targets = hidden.index_select(0, real), targets[real]
        if is_sampled:
            return self._sampled_loss(hidden, targets)
        return softmax_loss(hidden, targets, self.weight, self.bias)

    def log_probabilities(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """
        The exact log probability of each target, 0 for `IGNORE`. Shapes are those of `forward`; the
        result has shape `(...)`. To bound memory, rows are computed in chunks, and a chunk's logits
        are recomputed for the gradient.
        """
        flat_hidden, flat_targets = _flat(hidden, targets)
        if not torch.is_grad_enabled():
            real = flat_targets != IGNORE
            found = flat_hidden.new_zeros(flat_targets.shape)
            found[real] = log_likelihoods(
                flat_hidden[real], flat_targets[real], self.weight, self.bias
            )
            return found.view(targets.shape)
        n_rows = max(1, CHUNK_NUMBERS // self.n_words)
        chunks = [
            checkpoint(self._chunk, h, t, use_reentrant=False, preserve_rng_state=False)
            for h, t in zip(flat_hidden.split(n_rows), flat_targets.split(n_rows))
        ]
        return torch.cat(chunks).view(targets.shape)

    def ranks(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """
        The rank of each target among all words, 1 for the most probable, shape `(n,)`, in chunks of
        rows as `log_probabilities`. `hidden`: shape `(n, P)`; `targets`: shape `(n,)`.
        """
        n_rows = max(1, CHUNK_NUMBERS // self.n_words)
        chunks = zip(hidden.split(n_rows), targets.split(n_rows))
        logits = ((self.logits(h), k[:, None]) for h, k in chunks)
        return torch.cat([(y > y.gather(1, k)).sum(dim=1) + 1 for y, k in logits])

    def _chunk(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return -F.cross_entropy(self.logits(hidden), targets, ignore_index=IGNORE, reduction="none")

    def logits(self, hidden: Tensor) -> Tensor:
        """The logits of all words, shape `(..., V)`. `hidden`: shape `(..., P)`."""
        flat = linear(hidden.reshape(-1, hidden.size(-1)), self.weight, self.bias)
        return flat.view(*hidden.shape[:-1], self.n_words)

    def _sampled_loss(
        self, hidden: Tensor, targets: Tensor, ignored: Tensor | None = None
    ) -> Tensor:
        """`forward` for rows, shape `(n, P)`, without the `ignored` ones, shape `(n,)`."""
        assert self.n_negative_samples is not None
        samples, n_tries = log_uniform_sample(
            self.n_negative_samples, self.n_words, device=targets.device
        )
        # One lookup for both, so that the table has one gradient.
        numbers = torch.cat([targets, samples])
        weight, bias = self._rows(numbers)
        log_counts = torch.log(expected_count(numbers, n_tries, self.n_words))
        if ignored is not None:
            # A target that is certain has neither a loss nor a gradient.
            log_counts[: len(targets)].masked_fill_(ignored, -CERTAIN)
        bias = bias - log_counts
        return sampled_softmax_loss(
            hidden, targets, samples, weight.to(product_dtype(weight, self.precision)), bias
        )

    def _rows(self, numbers: Tensor) -> tuple[Tensor, Tensor]:
        if self.sparse_gradients:
            weight = F.embedding(numbers, self.weight, sparse=True)
            return weight, torch.gather(self.bias, 0, numbers, sparse_grad=True)
        return F.embedding(numbers, self.weight), self.bias[numbers]


def _flat(hidden: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Hidden vectors and their targets as rows, shapes `(n, P)` and `(n,)`."""
    if targets.shape != hidden.shape[:-1]:
        fail("targets", f"the shape {tuple(hidden.shape[:-1])}, of hidden", tuple(targets.shape))
    return hidden.reshape(-1, hidden.size(-1)), targets.reshape(-1).long()


def log_uniform_sample(
    n_samples: int, n_words: int, *, device: torch.device | None = None
) -> tuple[Tensor, int]:
    """
    Draw words from the log-uniform distribution until `n_samples` distinct words are drawn. Returns
    these, shape `(n_samples,)`, and the number of draws. Random numbers come from the CPU, so that
    a seed draws the same words on every device.
    """
    log_range = math.log(n_words + 1)
    drawn = np.empty(0, np.int64)
    first = drawn  # the position of each word's first draw, because only that one counts
    while len(first) < n_samples:
        u = torch.rand(max(2 * n_samples, 64), dtype=torch.float64, device="cpu")
        more = torch.exp(u * log_range).numpy().astype(np.int64) - 1
        drawn = np.concatenate([drawn, np.minimum(more, n_words - 1)])
        first = np.unique(drawn, return_index=True)[1]
    first = np.sort(first)[:n_samples]
    samples = torch.from_numpy(drawn[first])
    return on_device(samples, device or samples.device), int(first[-1]) + 1


def expected_count(words: Tensor, n_tries: int, n_words: int) -> Tensor:
    """
    The expected count of each word among the distinct words of `n_tries` log-uniform draws,

        1 - (1 - p(k)) ** n_tries.

    `words`: word numbers, shape `(n,)`. Returns float32 numbers of the same shape.
    """
    logs, made = _logs_of_not_drawing(n_words, words.device)
    if made:
        made.wait()
    return -torch.expm1(n_tries * logs.index_select(0, words)).float()


@lru_cache(maxsize=4)
def _logs_of_not_drawing(n_words: int, device: torch.device) -> tuple[Tensor, Shared | None]:
    """log(1 - p(k)) of all words k, shape `(n_words,)`, which each training step looks up."""
    # Apple's GPUs have no float64.
    precise = torch.float32 if device.type == "mps" else torch.float64
    words = torch.arange(n_words, dtype=precise, device=device)
    logs = torch.log1p(-log_uniform(words, n_words))
    return logs, shared(logs)


def log_uniform(k: Tensor, n_words: int) -> Tensor:
    """
    The log-uniform distribution p(k) of words numbered by frequency; see `SampledSoftmax`. `k`:
    word numbers of any shape; the result has their type, or for integers PyTorch's default type.
    """
    return torch.log1p(1 / (k + 1.0)) / math.log(n_words + 1)
