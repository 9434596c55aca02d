"""
The reader `ptb_trees` (constituency parser) reads with NLTK, which since version 3.10 refuses files
outside its data folders: `Security Violation [CorpusReader.__init__]: Unauthorized path`.

Here the file's own folder is among NLTK's data folders while the file is read, and no longer. This
can go when the reader no longer reads with NLTK.
"""

import os
from collections.abc import Iterator

import nltk
from allennlp.common.file_utils import cached_path
from allennlp.data import Instance
from allennlp_models.structured_prediction import PennTreeBankConstituencySpanDatasetReader

_read_unauthorized = PennTreeBankConstituencySpanDatasetReader._read


def _read(self: PennTreeBankConstituencySpanDatasetReader, file_path: str) -> Iterator[Instance]:
    file_path = os.path.abspath(cached_path(file_path))
    folder = os.path.dirname(file_path)
    nltk.data.path.append(folder)
    try:
        yield from _read_unauthorized(self, file_path)
    finally:
        nltk.data.path.remove(folder)


PennTreeBankConstituencySpanDatasetReader._read = _read
