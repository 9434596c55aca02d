"""
The callback `tensorboard` writes with tensorboardX, which passes its events to a thread through a
queue for processes. This queue starts one more thread at the first event, which is the one that
ends the writer if training failed before any other, when the program ends. Python 3.12 starts no
thread then, so two tracebacks follow the error. Importing this replaces it by a queue for
threads, which starts none. Remove it when tensorboardX has one.
"""

import queue
from types import SimpleNamespace

from tensorboardX import event_file_writer


class ThreadQueue(queue.Queue):
    def close(self) -> None:
        """A queue for processes has this method."""


event_file_writer.multiprocessing = SimpleNamespace(Queue=ThreadQueue)
