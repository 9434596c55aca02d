"""Dataset readers that only the grid needs."""

import random
import re
from collections.abc import Iterable
from itertools import cycle, islice
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from allennlp.data import DatasetReader, Instance, Token
from allennlp.data.dataset_readers import SequenceTaggingDatasetReader, WorkerInfo
from allennlp_models.coref import ConllCorefReader
from allennlp_models.structured_prediction import UniversalDependenciesDatasetReader

from elmo_plugin.checks import InputError

ORDER_SEED = 13370


@DatasetReader.register("subset")
class SubsetReader(DatasetReader):
    """
    Reads a fraction of the instances of another reader, in their order. Fractions of the same data
    are nested: a larger one contains all instances of a smaller one. The selection depends only on
    the number of instances.

    # Parameters

    base_reader : `DatasetReader`
    fraction : `float`
        Above 0, and at most 1. At least one instance is read.
    repeated : `bool`, optional (default = `False`)
        Whether to read the part again and again, until there are as many instances as in the whole.
        An epoch then has the same steps for each fraction.
    """

    def __init__(self, base_reader: DatasetReader, fraction: float, repeated: bool = False) -> None:
        super().__init__()
        if not 0 < fraction <= 1:
            raise InputError(f"fraction: expected a number above 0 and at most 1, found {fraction}")
        self._base_reader = base_reader
        self._fraction = fraction
        self._repeated = repeated

    def _set_worker_info(self, info: WorkerInfo | None) -> None:
        super()._set_worker_info(info)
        # Each worker reads the whole, without indexers, and keeps its share of the part.
        self._base_reader._set_worker_info(None if info is None else WorkerInfo(1, 0))

    def apply_token_indexers(self, instance: Instance) -> None:
        self._base_reader.apply_token_indexers(instance)

    def _read(self, file_path: str) -> Iterable[Instance]:
        instances = list(self._base_reader.read(file_path))
        order = list(range(len(instances)))
        random.Random(ORDER_SEED).shuffle(order)
        part = sorted(order[: max(1, round(self._fraction * len(order)))])
        for k in islice(cycle(part), len(order)) if self._repeated else part:
            yield instances[k]


@DatasetReader.register("upos")
class UposReader(SequenceTaggingDatasetReader):
    """Reads universal POS tags from a CoNLL-U file, for a tagger."""

    def _read(self, file_path: str) -> Iterable[Instance]:
        for instance in UniversalDependenciesDatasetReader().read(str(Path(file_path))):
            words = [Token(token.text) for token in instance["words"]]  # type: ignore[union-attr]
            yield self.text_to_instance(words, instance["pos_tags"].labels)  # type: ignore


@DatasetReader.register("coref_without")
class CorefWithoutReader(ConllCorefReader):
    """
    Reads a file in CoNLL 2012 format except some of its documents, such as those that are also in
    the training text of a biLM.

    # Parameters

    without : `list[str]`
        Names of the excluded documents, as in `#begin document (NAME); part 000`.
    """

    def __init__(self, without: list[str], **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._without = without

    def _read(self, file_path: str) -> Iterable[Instance]:
        _, *parts = re.split(r"(?m)^#begin document \((.*)\)", Path(file_path).read_text("utf-8"))
        documents = list(zip(parts[::2], parts[1::2]))
        if unknown := sorted(set(self._without) - {name for name, _ in documents}):
            raise InputError(f"{file_path}: expected documents {unknown}, found none")
        with TemporaryDirectory() as folder:
            rest = Path(folder) / Path(file_path).name
            rest.write_text(
                "".join(
                    f"#begin document ({name}){content}"
                    for name, content in documents
                    if name not in self._without
                ),
                "utf-8",
            )
            yield from super()._read(str(rest))
