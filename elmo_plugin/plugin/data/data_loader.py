"""Loads windows of running text from an encoded corpus, for models that carry LSTM states."""

import logging
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, Optional

import numpy as np
import torch
import torch.distributed as dist
from allennlp.common.util import is_distributed
from allennlp.data import DataLoader, DatasetReader, Instance, Vocabulary

from elmo_plugin.checks import InputError, check_choice, check_count, check_path, fail, named
from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import WORDS_NAMESPACE, ids_of_corpus_words
from elmo_plugin.text.advice import Advice, advised, in_lines
from elmo_plugin.text.characters import END, UNKNOWN
from elmo_plugin.text.corpus import EncodedCorpus
from elmo_plugin.text.corpus_advice import advise_of_corpus
from elmo_plugin.text.corpus_cache import open_corpus
from elmo_plugin.text.windows import Epoch

logger = logging.getLogger(__name__)

NAME = 'data_loader of type "bilm"'
SHUFFLES = ("sentences", None)

AHEAD = 8
"""Number of windows that are made ahead."""

Tensors = dict[str, torch.Tensor]


class LazyWindow:
    """
    A window whose tensors are made by `make` when the model first reads them. When AllenNLP's
    trainer resumes, it draws and discards the earlier batches, which therefore costs nothing.
    """

    def __init__(self, make: Callable[[], Tensors]) -> None:
        self._make = make

    def __repr__(self) -> str:
        return "LazyWindow()"  # AllenNLP logs a sample of the first batch

    def to_json(self) -> str:
        return repr(self)  # AllenNLP writes each batch with its loss to --predictions-output-file

    @cached_property
    def _tensors(self) -> Tensors:
        return self._make()

    def tensors(self, device: torch.device | str = "cpu") -> Tensors:
        """The window's tensors on `device`."""
        # Copied here, and not in the thread, so that the copies are queued on the model's stream.
        return {key: x.to(device, non_blocking=True) for key, x in self._tensors.items()}


class Prefetcher:
    """
    Returns windows by number. `windows` yields those from a given number on. The thread starts at
    the first requested window. Later requests should be in order, because any other request
    restarts it at that window.
    """

    def __init__(self, windows: Callable[[int], Iterator[Tensors]]) -> None:
        self._windows = windows
        # Its thread does not refer to this object, so both end together.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="bilm-windows")
        self._ahead: deque[Future[Tensors]] = deque()
        self._next: int | None = None

    def get(self, number: int) -> Tensors:
        """Return a window, or raise the error that occurred while making it."""
        if number != self._next:
            self._source = self._windows(number)
            self._ahead.clear()
        self._next = None  # after an error, the next request starts again
        while len(self._ahead) <= AHEAD:
            self._ahead.append(self._thread.submit(next, self._source))
        window = self._ahead.popleft().result()
        self._next = number + 1
        return window


@DataLoader.register("bilm")
class BiLMDataLoader(DataLoader):
    """
    Each batch is a window of T time steps of B rows of running text, and each row continues in the
    next window. An epoch reads every sentence once. A row ends with a sentence; after its end, its
    targets are -100.

    Registered as a `DataLoader` with name "bilm". It needs the dataset reader "bilm".

    A batch is a dictionary:

    * `starts`: rows whose state is reset, shape `(B,)`, bool: all rows in an epoch's first window,
      and later those that `restart_every` selects. The reset is to zeros in training and to the
      model's `initial_state` in evaluation.
    * `window`: a `LazyWindow`, whose method `tensors` returns a dictionary:
        * `words`: character ids of the distinct words of the window, shape `(U, C)`, int16.
        * `word_ids`: their vocabulary ids, shape `(U,)`, int64.
        * `forward_inputs`: indices into `words` for `<S> w1 .. wn` of each sentence, shape
          `(B, T)`, int64.
        * `forward_targets`: vocabulary ids of `w1 .. wn </S>`, or -100, shape `(B, T)`, int64.
        * `backward_inputs`, `backward_targets`: the same for `</S> wn .. w1` and `wn .. w1 <S>`.

    A window is made when its tensors are first read. From then on, a thread prefetches the next
    windows.

    # Parameters

    reader : `DatasetReader`
        Dataset reader "bilm", which sets the number of characters per word. Training does not read
        its instances.
    data_path : `str`
        Folder of an encoded corpus, or a text (see the reader), which is encoded once and cached.
    batch_size : `int`, optional (default = `64`)
        B, the number of rows per process. With W processes, process r reads rows r * B to (r + 1) *
        B of the W * B rows that a single process with that batch size would read.
    window : `int`, optional (default = `20`)
        T, the number of time steps of backpropagation.
    shuffle : `str`, optional (default = `"sentences"`)
        `"sentences"` shuffles the shards of the corpus and the sentences within each, in each
        epoch. `null` keeps the order of the text, for evaluation. Each shard is cut into rows.
    seed : `int`, optional (default = `13370`)
        Seed of the order, which depends only on this and the number of the epoch.
    restart_every : `int`, optional
        Number of windows after which a row restarts from zeros; the restarts of different rows are
        spread out. By default rows never restart, as in bilm-tf. Set it if there is little text:
        otherwise the model may rely on memory cells that were set long before, which are zero in
        programs that start each sentence from zeros.
    cache_dir : `str`, optional
        Cache folder of encoded corpora, by default in AllenNLP's cache.
    """

    def __init__(
        self,
        reader: DatasetReader,
        data_path: str,
        *,
        batch_size: int = 64,
        window: int = 20,
        shuffle: str | None = "sentences",
        seed: int = 13370,
        restart_every: int | None = None,
        cache_dir: Optional[str] = None,  # AllenNLP does not check `|`
    ) -> None:
        batch_size = check_count(f"{NAME}: batch_size", batch_size)
        self.window = check_count(f"{NAME}: window", window)
        check_choice(f"{NAME}: shuffle", shuffle, SHUFFLES)
        self.seed = check_count(f"{NAME}: seed", seed, least=0, most=2**64 - 1)
        if restart_every is not None:
            restart_every = check_count(f"{NAME}: restart_every", restart_every, least=2)
        self.restart_every = restart_every
        world_size, rank = 1, 0
        if is_distributed():
            world_size, rank = dist.get_world_size(), dist.get_rank()
        self._is_first = rank == 0  # what is found in the text is said by one process
        self.reader = _check_reader(reader)
        self.data_path = data_path
        self.corpus = self._open(cache_dir)
        self.batch_size = self._check_rows(batch_size, shuffle, world_size)
        self._n_rows = self.batch_size * world_size  # of all processes
        self._rows = slice(rank * self.batch_size, (rank + 1) * self.batch_size)  # of this one
        self.shuffle = shuffle
        self._epochs_begun = 0
        self._epoch: Epoch | None = None
        self._device: torch.device | None = None
        self._ids: np.ndarray | None = None

    def _open(self, cache_dir: str | None) -> EncodedCorpus:
        with named(f"{NAME}: train_data_path, test_data_path or validation_data_path"):
            check_path("the text", self.data_path)
            corpus = open_corpus(self.data_path, cache_dir)
        if self._is_first:
            advise_of_corpus(corpus, self.data_path, self.reader.max_characters_per_token)
        return corpus

    def _check_rows(self, batch_size: int, shuffle: str | None, world_size: int) -> int:
        """
        The rows of a process. Evaluation of fewer sentences than rows uses one row per sentence;
        training raises an error.
        """
        sentences, rows = self.corpus.num_sentences, batch_size * world_size
        if rows <= sentences:
            return batch_size
        if shuffle is not None:
            raise InputError(
                f"{self.data_path}: expected a sentence in each line and at least as many lines as "
                f"rows, found {sentences} line(s) for {rows} rows (batch_size {batch_size} in "
                f'{world_size} process(es)); for evaluation, set "shuffle" to null'
            )
        fewer = -(-sentences // world_size)
        logger.warning(
            f"{self.data_path} has {sentences} sentences: using {fewer} rows, not {batch_size}"
        )
        return fewer

    def __len__(self) -> int:
        """
        Number of windows of the current or, before training, the first epoch. Epochs can differ by
        one or two windows, because row lengths depend on the order of the sentences.
        """
        if self._epoch is None:
            self._epoch = self._make_epoch(0)
        return self._epoch.num_windows

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """
        Start the next epoch. `starts` comes first, because AllenNLP's log writers take the batch
        size from the first value.
        """
        assert self._ids is not None  # AllenNLP calls `index_with` before
        self._epoch = self._make_epoch(self._epochs_begun)
        self._epochs_begun += 1
        prefetcher = Prefetcher(partial(self._windows, self._epoch, self._ids))
        return (
            {"starts": self._starts(n), "window": LazyWindow(partial(prefetcher.get, n))}
            for n in range(self._epoch.num_windows)
        )

    def iter_instances(self) -> Iterator[Instance]:
        return iter(self.reader.read(self.data_path))

    def index_with(self, vocab: Vocabulary) -> None:
        """
        Look up the corpus's words. Logs the share of unknown tokens, which shows whether the
        vocabulary is from another text, and the perplexity of the words' frequencies in this text,
        which a language model has to fall far below.
        """
        self._ids = ids_of_corpus_words(self.corpus, vocab)
        is_unknown, counts = self._ids == UNKNOWN, self.corpus.counts
        n_unknown, n = int(counts[is_unknown].sum()), self.corpus.num_tokens
        by_id = np.bincount(self._ids, counts)
        by_id[END] = self.corpus.num_sentences
        shares = by_id[by_id > 0] / by_id.sum()
        of_frequencies = np.exp(-(shares * np.log(shares)).sum())
        logger.info(
            f"{self.data_path}: {100 * n_unknown / n:.1f} % of its {n} tokens are none of the "
            f"vocabulary's {vocab.get_vocab_size(WORDS_NAMESPACE)} words, and a perplexity counts "
            f"them as one word, <UNK>; their frequencies alone have a perplexity of "
            f"{of_frequencies:.1f}"
        )
        if self._is_first:
            words, ranks = self.corpus.words(), np.flatnonzero(is_unknown & (counts > 0))
            with in_lines(), advised(Advice(self.data_path)) as advice:
                examples = (repr(words[rank]) for rank in ranks)
                advice.find("unknown words", n_unknown, n, examples, hint="")

    def set_target_device(self, device: torch.device) -> None:
        self._device = device

    def _make_epoch(self, number: int) -> Epoch:
        is_shuffled = self.shuffle is not None
        return Epoch(self.corpus, self._n_rows, self.window, is_shuffled, self.seed, number)

    def _windows(self, epoch: Epoch, ids: np.ndarray, first: int) -> Iterator[Tensors]:
        # The rank NOTHING, -1, indexes the last element, IGNORE.
        target_ids = np.append(ids, IGNORE)
        for window in epoch.windows(self._rows, first):
            inputs = np.stack([window.forward_inputs, window.backward_inputs])  # (2, B, T)
            words, positions = np.unique(inputs, return_inverse=True)  # (U,), (2, B, T)
            forward_inputs, backward_inputs = positions.reshape(inputs.shape)
            arrays = {
                "forward_inputs": forward_inputs,
                "forward_targets": target_ids[window.forward_targets],
                "backward_inputs": backward_inputs,
                "backward_targets": target_ids[window.backward_targets],
                "words": self.corpus.characters(words, self.reader.max_characters_per_token),
                "word_ids": ids[words],
            }
            tensors = {key: torch.from_numpy(array) for key, array in arrays.items()}
            if self._device is not None and self._device.type == "cuda":
                tensors = {key: tensor.pin_memory() for key, tensor in tensors.items()}
            yield tensors

    def _starts(self, index: int) -> torch.Tensor:
        """The rows that restart in an epoch's window `index`, shape `(B,)`, bool."""
        starts = np.full(self.batch_size, index == 0)
        if index > 0 and self.restart_every is not None:
            # Restarts are spread over the windows, independently of the number of processes.
            offsets = np.arange(self._n_rows)[self._rows] * self.restart_every // self._n_rows
            starts = (index + offsets) % self.restart_every == 0
        return torch.from_numpy(starts).to(self._device, non_blocking=True)


def _check_reader(reader: DatasetReader) -> BiLMDatasetReader:
    if not isinstance(reader, BiLMDatasetReader):
        raise InputError(
            f'{NAME}: expected a dataset_reader of type "bilm", found {type(reader).__name__}'
        )
    if reader.max_instances is not None:
        expected = "a dataset_reader without max_instances, since it reads whole texts"
        fail(NAME, expected, reader.max_instances)
    return reader
