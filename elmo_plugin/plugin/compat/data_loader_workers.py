"""
AllenNLP's data loader `multiprocess` fails with `num_workers` and the `start_method` `spawn` or
`forkserver`, on all versions of Python before 3.14: `A SemLock created in a fork context is being
shared with a process in a spawn context`. It passes to its workers a lock for progress bars, which
it makes with Python's default start method.

With the `start_method` `fork`, a worker hangs if it handles a large tensor after the main process
has computed: it waits for OpenMP's threads, which a fork does not copy.

Importing this makes the lock with the start method of the workers. Each worker computes in one
thread, as those of PyTorch's data loader do, and imports the plugin with its patches, because this
module has the function that it runs.
"""

from functools import partialmethod
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.queues import JoinableQueue
from typing import Any

import torch
from allennlp.common import Tqdm
from allennlp.data.data_loaders import MultiProcessDataLoader


def _start_workers(
    self: MultiProcessDataLoader, queue: JoinableQueue, context: Any, *, work: str
) -> tuple[list[BaseProcess], list[Connection]]:
    """AllenNLP's method for workers that run the loader's method `work`."""
    Tqdm.set_lock(context.RLock())
    workers, senders = [], []
    for number in range(self.num_workers):  # type: ignore[has-type]
        receiver, sender = context.Pipe(duplex=False)
        arguments = (self, work, number, queue, Tqdm.get_lock(), receiver)
        worker = context.Process(target=_work, args=arguments, daemon=True)
        worker.start()
        workers.append(worker)
        senders.append(sender)
    return workers, senders


def _work(loader: MultiProcessDataLoader, work: str, *arguments: Any) -> None:
    torch.set_num_threads(1)
    getattr(loader, work)(*arguments)


for _kind in ("instance", "batch"):
    _method = partialmethod(_start_workers, work=f"_{_kind}_worker")
    setattr(MultiProcessDataLoader, f"_start_{_kind}_workers", _method)
