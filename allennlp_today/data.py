"""
Three patches of AllenNLP's data loading:

- The data loader `multiprocess` fails with `num_workers` and the `start_method` `spawn` or
  `forkserver`, on all versions of Python before 3.14: `A SemLock created in a fork context is being
  shared with a process in a spawn context`. It passes to its workers a lock for progress bars,
  which it makes with Python's default start method. With the `start_method` `fork`, a worker hangs
  if it handles a large tensor after the main process has computed: it waits for OpenMP's threads,
  which a fork does not copy. The lock now has the start method of the workers, and each worker
  computes in one thread, as those of PyTorch's data loader do. A worker imports this package, and
  whatever else is in `IMPORTED_BY_WORKERS`.
- The dataset reader `ptb_trees` (constituency parsing) uses NLTK, which since version 3.10 rejects
  files outside its data folders: `Security Violation [CorpusReader.__init__]: Unauthorized path`.
  The file's folder is now one of NLTK's data folders while the file is read. Remove this when the
  reader no longer uses NLTK.
- Data in which the reader finds no instance, such as an empty file, trained nothing, and had an
  accuracy and a loss of 0. It is now an error. Remove this when AllenNLP raises one.
"""

import os
from collections.abc import Iterator, Sequence
from functools import partialmethod
from importlib import import_module
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.queues import JoinableQueue
from typing import Any

import nltk
import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.common.util import is_distributed
from allennlp.data import Instance
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp_models.structured_prediction import PennTreeBankConstituencySpanDatasetReader

IMPORTED_BY_WORKERS: list[str] = []
"""Names of modules that have patches too, and that a worker imports before it works."""

_iter_instances = MultiProcessDataLoader.iter_instances
_read_unauthorized = PennTreeBankConstituencySpanDatasetReader._read


def _start_workers(
    self: MultiProcessDataLoader, queue: JoinableQueue, context: Any, *, work: str
) -> tuple[list[BaseProcess], list[Connection]]:
    """AllenNLP's method for workers that run the loader's method `work`."""
    Tqdm.set_lock(context.RLock())
    workers, senders = [], []
    for number in range(self.num_workers):  # type: ignore[has-type]
        receiver, sender = context.Pipe(duplex=False)
        arguments = (IMPORTED_BY_WORKERS, self, work, number, queue, Tqdm.get_lock(), receiver)
        worker = context.Process(target=_work, args=arguments, daemon=True)
        worker.start()
        workers.append(worker)
        senders.append(sender)
    return workers, senders


def _work(
    modules: Sequence[str], loader: MultiProcessDataLoader, work: str, *arguments: Any
) -> None:
    for module in modules:
        import_module(module)
    torch.set_num_threads(1)
    getattr(loader, work)(*arguments)


def _read(self: PennTreeBankConstituencySpanDatasetReader, file_path: str) -> Iterator[Instance]:
    file_path = os.path.abspath(cached_path(file_path))
    folder = os.path.dirname(file_path)
    nltk.data.path.append(folder)
    try:
        yield from _read_unauthorized(self, file_path)
    finally:
        nltk.data.path.remove(folder)


def _at_least_one_instance(self: MultiProcessDataLoader) -> Iterator[Instance]:
    instance = None
    for instance in _iter_instances(self):
        yield instance
    if instance is None and not is_distributed():  # where a process may have no share
        reader, path = type(self.reader).__name__, self.data_path  # type: ignore[has-type]
        raise ConfigurationError(f"{path}: expected data for {reader}, which found none")


for _kind in ("instance", "batch"):
    _method = partialmethod(_start_workers, work=f"_{_kind}_worker")
    setattr(MultiProcessDataLoader, f"_start_{_kind}_workers", _method)
MultiProcessDataLoader.iter_instances = _at_least_one_instance  # type: ignore[method-assign]
PennTreeBankConstituencySpanDatasetReader._read = _read
