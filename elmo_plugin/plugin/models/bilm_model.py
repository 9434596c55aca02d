import math
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Dict, List, Optional, Union

import torch
from allennlp.common import Params
from allennlp.data import TextFieldTensors, Vocabulary
from allennlp.models import Model
from allennlp.nn import RegularizerApplicator
from allennlp.nn.parallel import DdpAccelerator
from allennlp.nn.util import dist_reduce_sum
from allennlp.training.metrics import Metric
from torch import Tensor

from elmo_plugin.checks import InputError, fail
from elmo_plugin.files.torch_file import load_weights
from elmo_plugin.formats.fill import check_size, check_words
from elmo_plugin.modules import language_model
from elmo_plugin.modules.language_model import window_gradient
from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data.data_loader import LazyWindow
from elmo_plugin.plugin.data.vocabulary import vocabulary_words, word_ids
from elmo_plugin.plugin.models.transfer import load_pretrained
from elmo_plugin.plugin.training.optimizer import check_optimizer


@Model.register("bilm")
class BiLMModel(language_model.BiLMWithSoftmax, Model):
    """
    The bidirectional language model of ELMo (Peters et al. 2018, section 3.1): a character CNN, L
    layers of clipped, projected LSTMs in both directions, and one softmax for both. Its equations
    are in `modules/language_model.py`.

    On windows of the `bilm` data loader, each row continues from its LSTM state after the previous
    window, in `evaluate` too. Batches of sentences, as in `predict`, start from `initial_state`.

    Gradients are those of the loss times the window's length, as in bilm-tf, whose initial Adagrad
    accumulator of 1.0 and gradient norm of 10 presuppose this factor. The reported loss does not
    include it, nor does the penalty of a `regularizer`, which is not multiplied.

    Registered as a `Model` with name "bilm".

    # Parameters

    vocab : `Vocabulary`
        Vocabulary of type `bilm`, with the words of the softmax in order of frequency.
    lstm : `Dict[str, Any]`
        The block `lstm` of an options file; see `elmo_plugin.options`.
    char_cnn : `Dict[str, Any]`, optional
        The block `char_cnn` of an options file: the biLM reads words by their characters.
    words : `Dict[str, Any]`, optional
        Instead of `char_cnn`, the biLM reads the words of `vocab` from a table: `dim`, the size of
        its rows, and `tied` (default = `False`), whether the softmax uses the same weights.
    dropout : `float`, optional (default = `0.1`)
        Dropout rate of each LSTM layer's input and of the last layer's output.
    n_negative_samples : `int`, optional (default = `8192`)
        Number of words that the sampled softmax draws in training, for each direction. `None`
        trains with the full softmax, and so does a number that is not below the number of words,
        which is logged.
    initial_state : `str`, optional (default = `"warm"`)
        LSTM state at the start of a sentence, or of a text in evaluation: `"warm"`, the mean state
        at sentence starts in training; `"zero"`; or `"carry"`, the state after the previous batch.
    precision : `str`, optional (default = `"fp32"`)
        Precision of the biLM's matrix multiplications. `"bf16"` permits bfloat16 on devices that
        have it natively; others compute in fp32. Weights and optimizer state stay in fp32.
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
    pretrained_softmax_file : `str`, optional
        HDF5 file with the softmax, if bilm-tf's weight file does not have it, as that of the
        published English models. An archive is loaded without it.
    """

    default_predictor = "bilm"

    _n_batches = 0

    def __init__(
        self,
        vocab: Vocabulary,
        lstm: Dict[str, Any],
        char_cnn: Optional[Dict[str, Any]] = None,
        words: Optional[Dict[str, Any]] = None,
        dropout: float = 0.1,
        n_negative_samples: Optional[int] = 8192,
        initial_state: str = "warm",
        precision: str = "fp32",
        sparse_gradients: bool = False,
        pretrained_file: Optional[str] = None,
        pretrained_vocabulary_file: Optional[str] = None,
        pretrained_softmax_file: Optional[str] = None,
        regularizer: Optional[RegularizerApplicator] = None,
        serialization_dir: Optional[str] = None,
        ddp_accelerator: Optional[DdpAccelerator] = None,
    ) -> None:
        known = vocabulary_words(vocab)
        with _errors_of_sizes():
            super().__init__(
                _options({"lstm": lstm, "char_cnn": char_cnn, "words": words}, known),
                n_words=len(known),
                dropout=dropout,
                n_negative_samples=n_negative_samples,
                sparse_gradients=sparse_gradients,
                initial_state=initial_state,
                precision=precision,
                vocab=vocab,
                regularizer=regularizer,
                serialization_dir=serialization_dir,
                ddp_accelerator=ddp_accelerator,
            )
        if words is not None:
            self.bilm.token_encoder.words.fill(known)
        _check_unpenalized(self, regularizer)
        # The optimizer exchanges them. Distributed data parallel has no argument for this, but
        # reads this attribute.
        self._ddp_params_and_buffers_to_ignore = _names_of_sparse(self)
        # A validation may come within an epoch.
        self._losses = {training: (TokenAverage(), TokenAverage()) for training in (True, False)}
        files = pretrained_file, pretrained_vocabulary_file, pretrained_softmax_file
        load_pretrained(self.bilm, self.softmax, known, *files)

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
        `pretrained_file`, which AllenNLP removes, the vocabulary and the softmax of that file are
        read in training.
        """
        config["model"].pop("pretrained_vocabulary_file", None)
        config["model"].pop("pretrained_softmax_file", None)
        load_weights(weights_file or os.path.join(serialization_dir, "best.th"))
        model = super()._load(config, serialization_dir, weights_file, cuda_device)
        if isinstance(model, BiLMModel):
            check_words(model.bilm, vocabulary_words(model.vocab), "vocabulary/words.txt")
        return model

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
            tensors = window.tensors(starts.device)
            self.check_characters(tensors["words"].size(-1))
            return {"loss": self._loss(*self.read_window(starts, **tensors))}
        assert source is not None and targets is not None
        hidden, goals = self.read_sentences(_characters(source), targets)
        if self.training:
            return {"loss": self._loss(hidden, goals)}
        log_p = self.log_probabilities(hidden, goals)
        output: Dict[str, Any] = {
            "loss": self._count([-x.sum() for x in log_p], goals),
            "forward_log_probabilities": log_p[0].T[:, :-1],
            "backward_log_probabilities": log_p[1].T[:, 1:],
            "mask": goals[0].T[:, :-1] != IGNORE,
        }
        if metadata is not None:
            output["tokens"] = metadata
        return output

    def check_characters(self, found: int) -> None:
        """Raise an `InputError` if the words of windows have fewer characters than the model's."""
        least = self.bilm.max_characters_per_token
        if found < least and not self.bilm.token_encoder.has_lexicon:
            name = "dataset_reader or validation_dataset_reader: max_characters_per_token"
            fail(name, f"at least {least}, as the model", found)

    def _loss(self, hidden: Tensor, targets: Tensor) -> Tensor:
        return self._count(self.negative_log_likelihoods(hidden, targets), targets)

    def _count(self, sums: Sequence[Tensor], targets: Tensor) -> Tensor:
        """
        Add the negative log likelihoods to the metrics, and return the loss. Its value is that of
        all processes, because after the end of a process's own rows there are no words.
        """
        if self.training and self.softmax.sparse_gradients:
            check_optimizer(self.softmax.parameters())  # in a loop that no `TrainModel` has checked
        n_targets = (targets[0] != IGNORE).sum()
        loss = (sums[0] + sums[1]) / (2 * n_targets.clamp(min=1))
        totals = [(sums[0] + sums[1]) / 2] if self._is_sampled else sums
        # Read at once, because the CPU waits for a GPU. A float counts to 2^24.
        numbers = torch.stack([n_targets.float(), *totals]).tolist()
        n_tokens = int(numbers[0])
        averages = zip(self._losses[self.training], numbers[1:])
        means = [average(total, n_tokens) for average, total in averages]
        value = sum(means) / len(means)
        if self.training:
            self._check_loss(value)
        return window_gradient(loss, value, n_tokens, n_rows=targets.size(2))

    def _check_loss(self, loss: float) -> None:
        """Raise an error before a step that would make the weights NaN or infinite."""
        self._n_batches += 1
        if not math.isfinite(loss):
            raise FloatingPointError(
                f"training batch {self._n_batches} since the run started or was recovered: "
                f"expected a finite loss, found {loss}. The last checkpoint is from before "
                "this batch; a new run needs a lower learning rate or gradient norm"
            )

    @property
    def _is_sampled(self) -> bool:
        """Whether the loss is that of a sample of the words, the mean of both directions."""
        return self.training and self.softmax.n_negative_samples is not None

    def get_metrics(self, reset: bool = False) -> Dict[str, float]:
        if self._is_sampled:
            return {"sampled_loss": self._losses[True][0].get_metric(reset)}
        if reset and not self.training:
            # The next evaluation reads from the start of a text.
            self.carried_in_evaluation.state = None
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


class TokenAverage(Metric):
    """
    The mean over all tokens of a data set and all processes of a distributed run. Each token has
    the same weight, regardless of batch sizes.
    """

    def __init__(self) -> None:
        self.reset()

    def __call__(self, total: float, count: int) -> float:  # type: ignore[override]
        """Add a batch, and return its mean. `total`: the sum over `count` tokens."""
        # Both are exchanged together in float64, which represents token counts exactly.
        pair = torch.tensor([total, count], dtype=torch.float64)
        total_of_all, count_of_all = dist_reduce_sum(pair).tolist()
        self.total += total_of_all
        self.count += int(count_of_all)
        return float(total_of_all / max(count_of_all, 1))

    def get_metric(self, reset: bool = False) -> float:
        mean = self.total / self.count if self.count else math.nan
        if reset:
            self.reset()
        return mean

    def reset(self) -> None:
        self.total, self.count = 0.0, 0


@contextmanager
def _errors_of_sizes() -> Iterator[None]:
    """Raise an `InputError` for sizes that exceed PyTorch's limits or the memory."""
    try:
        yield
    except (ValueError, RuntimeError, MemoryError) as error:
        raise InputError(str(error)) from None


def _options(blocks: Dict[str, Any], words: List[str]) -> BiLMOptions:
    """The options of a biLM that is trained with these words, from the blocks of a config."""
    options = BiLMOptions.from_dict(blocks, source="model")
    if options.reads_code_points:
        fail("model: char_cnn.n_code_points", "none in training", "one")
    options = options.of_words(words)
    check_size(options, len(words))
    return options


def _characters(source: TextFieldTensors) -> Tensor:
    """The character ids of sentences, shape `(B, T, C)`."""
    for tensors in source.values():
        if "elmo_tokens" in tensors:
            return tensors["elmo_tokens"]
    found = "; ".join(f"{name}, which gives {', '.join(x)}" for name, x in source.items())
    raise InputError(
        'dataset_reader.token_indexers: expected one of type "elmo" for a model of type "bilm", '
        f"found {found}"
    )


def exp(x: float) -> float:
    """e to the power of x, and infinity where a float is too small for it. NaN stays NaN."""
    return math.inf if x > 700 else math.exp(x)


def _names_of_sparse(model: BiLMModel) -> List[str]:
    """The names of the parameters with sparse gradients: the softmax, and a table of words."""
    if not model.softmax.sparse_gradients:
        return []
    sparse = {id(parameter) for parameter in model.softmax.parameters()}
    if (table := model.bilm.word_table) is not None:
        sparse.add(id(table.embedding.weight))
    named = model.named_parameters(remove_duplicate=False)
    return [name for name, parameter in named if id(parameter) in sparse]


def _check_unpenalized(model: BiLMModel, regularizer: Optional[RegularizerApplicator]) -> None:
    """The gradient of a penalty has every row, and would not be exchanged between processes."""
    for pattern, _ in regularizer._regularizers if regularizer is not None else ():
        for name in _names_of_sparse(model):
            if re.search(pattern, name):
                fail("regularizer", f"no pattern for {name} with sparse_gradients", pattern)
