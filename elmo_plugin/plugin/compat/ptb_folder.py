"""
The dataset reader `ptb_trees` (constituency parsing) uses NLTK, which since version 3.10 rejects
files outside its data folders: `Security Violation [CorpusReader.__init__]: Unauthorized path`.

This module adds the file's folder to NLTK's data folders while the file is read. Remove it when the
reader no longer uses NLTK.
"""

import os
from collections.abc import Iterator

import nltk
from allennlp.data import Instance
from allennlp_models.structured_prediction import PennTreeBankConstituencySpanDatasetReader

from elmo_plugin.files.local_path import local_path

_read_unauthorized = PennTreeBankConstituencySpanDatasetReader._read


def _read(self: PennTreeBankConstituencySpanDatasetReader, file_path: str) -> Iterator[Instance]:
    file_path = os.path.abspath(local_path(file_path))
    folder = os.path.dirname(file_path)
    nltk.data.path.append(folder)
    try:
        yield from _read_unauthorized(self, file_path)
    finally:
        nltk.data.path.remove(folder)


PennTreeBankConstituencySpanDatasetReader._read = _read
