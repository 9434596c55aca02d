import sys
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from pathlib import Path
from queue import Empty
from typing import Any

import nltk
import pytest
import torch
from allennlp.data import DatasetReader, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.data.data_loaders.data_collator import DataCollator
from allennlp.data.dataset_readers import SequenceTaggingDatasetReader

from allennlp_today import data
from tests.conftest import ROOT, threads, write_file

TEXT = str(ROOT / "fixtures" / "tagging" / "dev.tsv")


def make_loader(text: str = TEXT, **options: Any) -> MultiProcessDataLoader:
    reader = SequenceTaggingDatasetReader()
    loader = MultiProcessDataLoader(reader, text, batch_size=8, quiet=True, **options)
    loader.index_with(Vocabulary.from_instances(loader.iter_instances()))
    return loader


def all_tokens(loader: MultiProcessDataLoader) -> list[torch.Tensor]:
    return [batch["tokens"]["tokens"]["tokens"] for batch in loader]  # type: ignore[index, call-overload]


@contextmanager
def started(loader: MultiProcessDataLoader, start_method: str) -> Iterator[Any]:
    """Start a worker of the loader, and return its queue of batches."""
    context = get_context(start_method)
    queue = context.JoinableQueue()
    loader.num_workers = 1
    workers, _ = loader._start_batch_workers(queue, context)
    try:
        yield queue
    finally:
        for worker in workers:
            worker.kill()
            worker.join()


@pytest.mark.parametrize("start_method", ["spawn", "forkserver"])
def test_workers_of_other_start_methods_start(start_method: str) -> None:
    """Without the patch, this is a `RuntimeError` or, in early versions of Python 3.11, a missing
    file in the worker. The test does not wait until the worker has imported AllenNLP."""
    with started(make_loader(), start_method):
        pass


@pytest.mark.parametrize(
    "start_method",
    ["fork", *(pytest.param(m, marks=pytest.mark.long) for m in ("spawn", "forkserver"))],
)
@pytest.mark.parametrize("most", [None, 16])
def test_workers_read_the_same(start_method: str, most: int | None) -> None:
    """The expected batches are those of a loader without workers. With `most`, workers make
    batches, otherwise instances."""
    options = {"start_method": start_method, "max_instances_in_memory": most}
    found = all_tokens(make_loader(num_workers=1, **options))
    expected = all_tokens(make_loader())
    torch.testing.assert_close(found, expected)


def test_data_without_instances(tmp_path: Path) -> None:
    """By definition: without the patch, an evaluation has the accuracy 0."""
    with pytest.raises(data.ConfigurationError, match="text: expected data for SequenceTagging"):
        make_loader(str(write_file(tmp_path / "text", "\n\n")))


class ComputingCollator(DataCollator):
    """Computes with as many numbers as PyTorch gives to several threads."""

    def __call__(self, instances: Any) -> Any:
        return torch.ones(1 << 20).add(1).sum().item()


def test_a_forked_worker_computes_after_the_main_process() -> None:
    """The expected sum is 2 * 2**20. The main process has started a thread, which the worker does
    not have and must not wait for."""
    loader = make_loader(collate_fn=ComputingCollator())
    with threads(2):
        torch.ones(1 << 20).add(1)
        with started(loader, "fork") as queue:
            try:
                found = queue.get(timeout=30)
            except Empty:
                pytest.fail("the worker hangs")
    assert found == (2**21, None)


def test_a_worker_imports_the_modules_that_are_listed(tmp_path, monkeypatch):
    """By definition: before the loader's method runs, which gets the other arguments."""
    (tmp_path / "has_patches.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(torch, "set_num_threads", lambda n: None)
    seen = []

    class Loader:
        def read(self, *arguments: object) -> None:
            seen.append((arguments, "has_patches" in sys.modules))

    data._work(["has_patches"], Loader(), "read", 1, 2)  # type: ignore[arg-type]
    assert seen == [((1, 2), True)]


TREES = """
(TOP (S (NP (DT The) (NN dog)) (VP (VBZ barks)) (. .)))
(TOP (S (NP (PRP It)) (VP (VBZ sleeps)) (. .)))
"""


def test_trees_of_any_folder(tmp_path: Path) -> None:
    """Expected: the words as they are written, and NLTK's folders as they were before. Without the
    patch, NLTK raises `PermissionError`."""
    file = write_file(tmp_path / "trees.txt", TREES)
    before = list(nltk.data.path)
    instances: Any = DatasetReader.by_name("ptb_trees")().read(str(file))
    first = next(instances)
    assert set(nltk.data.path) - set(before) == {str(tmp_path)}
    sentences = [[t.text for t in i["tokens"]] for i in (first, *instances)]
    assert sentences == [["The", "dog", "barks", "."], ["It", "sleeps", "."]]
    assert nltk.data.path == before
