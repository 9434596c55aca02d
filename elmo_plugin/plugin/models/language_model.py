import math
import os
import re
from collections.abc import Callable, Sequence
from typing import Any, Dict, List, Optional, Union

import torch
from allennlp.common import Params
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.nn import RegularizerApplicator
from allennlp.nn.parallel import DdpAccelerator
from torch import Tensor

from elmo_plugin.checks import (
    InputError,
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_path,
    fail,
)
from elmo_plugin.files.torch_file import check_torch_file
from elmo_plugin.modules import BiLM, LSTMState, SampledSoftmax
from elmo_plugin.modules.bilm import INITIAL_STATES, PRECISIONS
from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data.vocabulary import vocabulary_words, word_ids
from elmo_plugin.plugin.models.transfer import load_pretrained
from elmo_plugin.plugin.training.metrics import TokenAverage
from elmo_plugin.plugin.training.row_exchange import check_optimizer
from elmo_plugin.text.corpus import BEGIN, END
from elmo_plugin.text.prefetch import LazyWindow


@Model.register("bilm")
class LanguageModel(Model):
    """
    The bidirectional language model of ELMo (Peters et al. 2018, section 3.1): a character CNN, L
    layers of clipped, projected LSTMs in both directions, and one softmax for both.

    On windows of the `bilm` data loader, each row continues from its LSTM state after the previous
    window. Batches of sentences (`evaluate`, `predict`) start from `initial_state`.

    Gradients are those of the loss times the window's length, as in bilm-tf, whose initial Adagrad
    accumulator of 1.0 and gradient norm of 10 presuppose this factor. The reported loss does not
    include it, nor does the penalty of a `regularizer`, which is not multiplied.

    Registered as a `Model` with name "bilm".

    # Parameters

    vocab : `Vocabulary`
        Vocabulary of type `bilm`, with the words of the softmax in order of frequency.
    lstm : `Dict[str, Any]`
        The block `lstm` of an options file; see `elmo_plugin.options`.
    char_cnn : `Dict[str, Any]`
        The block `char_cnn` of an options file.
    dropout : `float`, optional (default = `0.1`)
        Dropout rate of each LSTM layer's input and of the last layer's output.
    n_negative_samples : `int`, optional (default = `8192`)
        Number of words that the sampled softmax draws in training, for each direction. `None`
        trains with the full softmax.
    initial_state : `str`, optional (default = `"warm"`)
        LSTM state at the start of a sentence, or of a text in evaluation: `"warm"`, the mean state
        at sentence starts in training; `"zero"`; or `"carry"`, the state after the previous batch.
    precision : `str`, optional (default = `"fp32"`)
        Precision of the biLM's matrix products. `"bf16"` permits bfloat16 on devices that have
        it natively; others compute in fp32. Weights and optimizer state stay in fp32.
    sparse_gradients : `bool`, optional (default = `False`)
        Whether the softmax has row-sparse gradients, only for the words in a batch. The cost of a
        step then does not depend on the size of the vocabulary. Requires the optimizer
        `clipped_adagrad`, which replaces the trainer's `grad_norm`.
    pretrained_file : `str`, optional
        Pretrained weights of the same sizes to continue training from: a biLM as in `archive_file`
        of the embedder `elmo`, or bilm-tf's weight file alone. Softmax rows are loaded for
        words in both vocabularies. AllenNLP removes a parameter of this name from the config in an
        archive, so that the archive needs no other file.
    pretrained_vocabulary_file : `str`, optional
        Vocabulary file with the words of the softmax in bilm-tf's weight file. An archive is loaded
        without it.
    """

    default_predictor = "bilm"
    validation_metrics = ("perplexity", "forward_perplexity", "backward_perplexity", "loss")
    reads_empty_text = True  # both of its boundaries have a probability

    def __init__(
        self,
        vocab: Vocabulary,
        lstm: Dict[str, Any],
        char_cnn: Dict[str, Any],
        dropout: float = 0.1,
        n_negative_samples: Optional[int] = 8192,
        initial_state: str = "warm",
        precision: str = "fp32",
        sparse_gradients: bool = False,
        pretrained_file: Optional[str] = None,
        pretrained_vocabulary_file: Optional[str] = None,
        regularizer: Optional[RegularizerApplicator] = None,
        serialization_dir: Optional[str] = None,
        ddp_accelerator: Optional[DdpAccelerator] = None,
    ) -> None:
        super().__init__(vocab, regularizer, serialization_dir, ddp_accelerator)  # type: ignore[arg-type]
        check_number("dropout", dropout, least=0, below=1)
        if n_negative_samples is not None:
            check_count("n_negative_samples", n_negative_samples)
        check_choice("initial_state", initial_state, INITIAL_STATES)
        check_flag("sparse_gradients", sparse_gradients)
        if pretrained_file is not None:
            check_path("pretrained_file", pretrained_file)
        if pretrained_vocabulary_file is not None:
            check_path("pretrained_vocabulary_file", pretrained_vocabulary_file)
            if pretrained_file is None:
                fail("pretrained_file", "one with pretrained_vocabulary_file", None)
        n_words = len(word_ids(vocab))
        try:
            blocks = {"lstm": lstm, "char_cnn": char_cnn}
            self.bilm = BiLM(BiLMOptions.from_dict(blocks, source="model"), dropout=dropout)
            self.bilm.set_precision(precision)
            self.softmax = SampledSoftmax(
                n_words=n_words,
                dim=self.bilm.bilstm.projection_dim,
                n_negative_samples=n_negative_samples,
                sparse_gradients=sparse_gradients,
            )
            self.softmax.precision = PRECISIONS[precision]
        except (ValueError, RuntimeError, MemoryError) as error:  # the last two from PyTorch
            raise InputError(str(error)) from None
        if sparse_gradients:
            _check_unpenalized(self.softmax, regularizer)
            # The optimizer exchanges them. Distributed data parallel has no argument for this, but
            # reads this attribute.
            self._ddp_params_and_buffers_to_ignore = [
                f"softmax.{name}" for name, _ in self.softmax.named_parameters()
            ]
        self.dropout = torch.nn.Dropout(dropout)
        self.initial_state = initial_state
        self.precision = precision
        # LSTM states of the rows, by training mode, so that evaluation does not change those of
        # training. They are not buffers, because distributed training overwrites the buffers of all
        # processes except one.
        self._carried: dict[bool, Optional[LSTMState]] = {True: None, False: None}
        self._n_batches = 0
        self._sampled_loss = TokenAverage()
        # Forward and backward, by whether the model is in training mode, because a validation may
        # come within an epoch.
        self._losses = {training: (TokenAverage(), TokenAverage()) for training in (True, False)}
        self.register_load_state_dict_pre_hook(_take_resume_state)
        if pretrained_file is not None:
            load_pretrained(
                self.bilm,
                self.softmax,
                vocabulary_words(vocab),
                pretrained_file,
                pretrained_vocabulary_file,
            )

    @classmethod
    def _load(
        cls,
        config: Params,
        serialization_dir: Union[str, os.PathLike],
        weights_file: Optional[Union[str, os.PathLike]] = None,
        cuda_device: int = -1,
    ) -> Model:
        """
        Check the weights before loading, because AllenNLP silently loads damaged ones. Like
        `pretrained_file`, which AllenNLP removes, the vocabulary of that file is read in training.
        """
        config["model"].pop("pretrained_vocabulary_file", None)
        check_torch_file(weights_file or os.path.join(serialization_dir, "best.th"))
        return super()._load(config, serialization_dir, weights_file, cuda_device)

    def extend_embedder_vocab(
        self, embedding_sources_mapping: Optional[Dict[str, str]] = None
    ) -> None:
        """
        Called when `model: { type: 'from_archive' }` or `evaluate --extend-vocab` has added the
        words of a new text to the vocabulary. Raises an `InputError`, because the softmax has no
        rows for them.
        """
        n_words = len(word_ids(self.vocab))
        if n_words != self.softmax.n_words:
            raise InputError(
                f"vocabulary: expected the {self.softmax.n_words} words of the archive, found "
                f"{n_words}; to train on a text with other words, use pretrained_file, as in "
                "bilm_finetune.jsonnet"
            )

    def _apply(self, fn: Callable[[Tensor], Tensor], *args: Any, **kwargs: Any) -> "LanguageModel":
        super()._apply(fn, *args, **kwargs)
        for training, state in self._carried.items():  # same device and precision as the weights
            self._carried[training] = state and LSTMState(*map(fn, state))
        return self

    @property
    def device(self) -> torch.device:
        return self.bilm.boundaries.device

    def forward(  # type: ignore[override]
        self,
        window: Optional[LazyWindow] = None,
        starts: Optional[Tensor] = None,
        source: Optional[TextFieldTensors] = None,
        targets: Optional[Tensor] = None,
        metadata: Optional[List[Any]] = None,
    ) -> Dict[str, Any]:
        """
        Compute the loss of a window of running text (from the `bilm` data loader) or of sentences.

        # Parameters

        window : `LazyWindow`, optional
            Tensors of the window; see the `bilm` data loader.
        starts : `Tensor`, optional
            Rows whose state is reset in this window, shape `(B,)`, bool.
        source : `TextFieldTensors`, optional
            Sentences without boundaries.
        targets : `Tensor`, optional
            Vocabulary ids of the sentences' words, shape `(B, T)`.
        metadata : `List[Any]`, optional
            Tokens of the sentences, passed through.

        # Returns

        `Dict[str, Any]`
            `loss`, the mean of both directions' mean negative log likelihoods. For sentences in
            evaluation also the exact `forward_log_probabilities` of w_1 .. w_n, `</S>` and the
            `backward_log_probabilities` of `<S>`, w_1 .. w_n, shape `(B, T + 1)`, with their
            `mask`.
        """
        if window is not None:
            assert starts is not None
            return {"loss": self._window_loss(starts, **window.tensors(starts.device))}
        assert source is not None and targets is not None
        return self._forward_sentences(source, targets, metadata)

    def _window_loss(
        self,
        starts: Tensor,
        words: Tensor,
        forward_inputs: Tensor,
        forward_targets: Tensor,
        backward_inputs: Tensor,
        backward_targets: Tensor,
    ) -> Tensor:
        self._check_characters(words.size(1))
        batch_size = len(starts)
        zero = self.bilm.bilstm.zero_state(batch_size)
        before = self._carried[self.training] or zero
        # In training, rows start from zeros (bilm-tf: only at the run's start). The warm state is
        # not used here, because it would depend on the number of processes.
        start = zero if self.training else self.bilm.initial_state(self.initial_state, batch_size)
        state = before.take(batch_size).where(starts, start)
        if self.training:
            first = words[forward_inputs[:, 0]]
            at_start = (first == self.bilm.boundaries[0]).view(batch_size, -1).all(dim=1)
            has_text = forward_targets[:, 0] != IGNORE
            self.bilm.warm_state.observe(state, at_start & has_text & ~starts)
        layers, after = self.bilm(words, forward_inputs, backward_inputs, state)
        self._carried[self.training] = before.put(after)
        targets = torch.stack([forward_targets.T, backward_targets.T])  # (2, T, B)
        return self._loss(self._sums(self.dropout(layers[-1]), targets), targets)

    def _forward_sentences(
        self, source: TextFieldTensors, targets: Tensor, metadata: Optional[List[Any]]
    ) -> Dict[str, Any]:
        hidden, goals = self.read_sentences(source, targets)
        if self.training:
            return {"loss": self._loss(self._sums(hidden, goals), goals)}
        log_p = [self.softmax.log_probabilities(h, g) for h, g in zip(hidden, goals)]
        output: Dict[str, Any] = {
            "loss": self._loss([-x.sum() for x in log_p], goals),
            "forward_log_probabilities": log_p[0].T[:, :-1],
            "backward_log_probabilities": log_p[1].T[:, 1:],
            "mask": goals[0].T[:, :-1] != IGNORE,
        }
        if metadata is not None:
            output["tokens"] = metadata
        return output

    def read_sentences(
        self, source: TextFieldTensors, targets: Tensor, carries: bool = True
    ) -> tuple[Tensor, Tensor]:
        """
        Return the top layer, shape `(2, T + 2, B, P)`, and the targets at its positions, shape
        `(2, T + 2, B)`. Without `carries` the carried state stays as it is.
        """
        found = [x["elmo_tokens"] for x in source.values() if "elmo_tokens" in x]
        if not found:
            raise InputError(
                'dataset_reader.token_indexers: expected one of type "elmo" for a model of type '
                f'"bilm", found {", ".join(source)}'
            )
        tokens = found[0]
        self._check_characters(tokens.size(2))
        lengths = self.bilm.sentence_lengths(tokens)
        batch_size = len(tokens)
        carried = self._carried[self.training]
        state = self.bilm.initial_state(self.initial_state, batch_size, carried)
        read = self.bilm.sentences(tokens, lengths, state)
        if self.initial_state == "carry" and carries:
            self._carried[self.training] = carried.put(read.state) if carried else read.state

        goals = _between_boundaries(targets, lengths)
        nothing = goals.new_full((batch_size, 1), IGNORE)
        forward_goals = torch.cat([goals[:, 1:], nothing], dim=1)
        backward_goals = torch.cat([nothing, goals[:, :-1]], dim=1)
        backward_goals = backward_goals.masked_fill(goals == IGNORE, IGNORE)
        hidden = torch.stack(self.dropout(read.layers[-1]).transpose(0, 1).chunk(2, dim=-1))
        return hidden, torch.stack([forward_goals.T, backward_goals.T])

    def _check_characters(self, found: int) -> None:
        """
        Check the length of words, because the model expects words cut and padded to its own length.
        """
        expected = self.bilm.max_characters_per_token
        if found != expected:
            raise InputError(
                "expected the same max_characters_per_token in model.char_cnn and dataset_reader, "
                f"found {expected} and {found}"
            )

    def _sums(self, hidden: Tensor, targets: Tensor) -> list[Tensor]:
        """
        The negative log likelihood of each direction. `hidden`: shape `(2, T, B, P)`. `targets`:
        shape `(2, T, B)`.
        """
        return [self.softmax(h, t) for h, t in zip(hidden, targets)]

    def _loss(self, sums: Sequence[Tensor], targets: Tensor) -> Tensor:
        """The loss. `sums`: those of `_sums`. `targets`: shape `(2, T, B)`."""
        if self.training and self.softmax.sparse_gradients:
            check_optimizer(self.softmax.parameters())
        forward_sum, backward_sum = sums
        n_tokens = int((targets[0] != IGNORE).sum())
        if self.training and self.softmax.n_negative_samples is not None:
            self._sampled_loss((forward_sum + backward_sum).detach() / 2, n_tokens)
        else:
            for average, direction_sum in zip(self._losses[self.training], sums):
                average(direction_sum.detach(), n_tokens)
        loss = (forward_sum + backward_sum) / (2 * max(n_tokens, 1))
        if self.training:
            self._check_loss(loss)
        # This factor is the window's length, or less if some rows have ended.
        return _scale_gradient(loss, n_tokens / targets.size(2))

    def _check_loss(self, loss: Tensor) -> None:
        """Raise an error before a step that would make the weights NaN or infinite."""
        self._n_batches += 1
        if not torch.isfinite(loss):
            raise FloatingPointError(
                f"training batch {self._n_batches} since the run started or was recovered: "
                f"expected a finite loss, found {loss.item()}. The last checkpoint is from before "
                "this batch; a new run needs a lower learning rate or gradient norm"
            )

    def get_metrics(self, reset: bool = False) -> Dict[str, float]:
        if self.training and self.softmax.n_negative_samples is not None:
            return {"sampled_loss": self._sampled_loss.get_metric(reset)}
        if reset and not self.training:
            self._carried[False] = None  # the next evaluation reads from the start of a text
        forward, backward = (x.get_metric(reset) for x in self._losses[self.training])
        return {
            "perplexity": exp((forward + backward) / 2),
            "forward_perplexity": exp(forward),
            "backward_perplexity": exp(backward),
        }

    def make_output_human_readable(self, output_dict: Dict[str, Tensor]) -> Dict[str, Any]:
        readable: Dict[str, Any] = dict(output_dict)
        mask = readable.pop("mask", None)
        if mask is None:  # a window has only a loss
            return readable
        for key in ("forward_log_probabilities", "backward_log_probabilities"):
            readable[key] = [row[real].tolist() for row, real in zip(output_dict[key], mask)]
        return readable

    def resume_state(self) -> Dict[str, Tensor]:
        """
        The LSTM states of the training rows, which an exact resume needs in addition to the
        weights.
        """
        carried = self._carried[True]
        return {} if carried is None else carried.stored()


def _take_resume_state(
    model: LanguageModel, state_dict: Dict[str, Any], prefix: str, *_: Any
) -> None:
    """Remove the rows' states from a checkpoint's state dictionary; see `resume_state`."""
    rows = state_dict.pop(prefix + "resume_state", None)
    if rows:
        model._carried[True] = LSTMState.from_stored(rows, model.device)


def _between_boundaries(targets: Tensor, lengths: Tensor) -> Tensor:
    """The ids of `<S> w_1 .. w_n </S>`, then `IGNORE`, shape `(B, T + 2)`."""
    mask = torch.arange(targets.size(1), device=targets.device) < lengths[:, None]
    targets = torch.nn.functional.pad(targets.masked_fill(~mask, IGNORE), (1, 1), value=IGNORE)
    targets[:, 0] = BEGIN
    return targets.scatter(1, lengths[:, None] + 1, END)


def _scale_gradient(x: Tensor, factor: float) -> Tensor:
    """Return `x` with its gradient multiplied by `factor`."""
    return x.detach() + factor * (x - x.detach())


def exp(x: float) -> float:
    """e to the power of x, and infinity where a float is too small for it. NaN stays NaN."""
    return math.inf if x > 700 else math.exp(x)


def _check_unpenalized(
    softmax: SampledSoftmax, regularizer: Optional[RegularizerApplicator]
) -> None:
    """The gradient of a penalty has every row, and would not be exchanged between processes."""
    for pattern, _ in regularizer._regularizers if regularizer is not None else ():
        for name, _ in softmax.named_parameters(prefix="softmax"):
            if re.search(pattern, name):
                fail("regularizer", f"no pattern for {name} with sparse_gradients", pattern)
