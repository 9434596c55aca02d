"""
The text of an AllenNLP task as `task://CONFIG#KEY`, for example
`task://training_configs/esim.jsonnet#train_data_path`: the config's dataset reader reads the data
under this key. The other keys are `validation_data_path` and `test_data_path`.

Each distinct `TextField` of the instances, including those in a `ListField`, becomes a sentence,
because ELMo reads it as one. The passage of several SQuAD questions therefore occurs once. A space
inside a token is written as an underscore, as the token indexer reads it, and the symbols that
readers add to the targets of sequence-to-sequence models are removed. Word pieces raise an error.

`cached_path` resolves these addresses and caches the text until the config's reader or path, the
data files, or the source file of the reader's class change.
"""

import json
import os
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager
from functools import cache, cached_property
from inspect import getfile
from itertools import chain
from pathlib import Path
from typing import Any
from unittest.mock import patch

from allennlp.common import Params, params, util
from allennlp.common.plugins import import_plugins
from allennlp.common.util import END_SYMBOL, START_SYMBOL
from allennlp.data import DatasetReader, Field, Instance
from allennlp.data.dataset_readers import MultiTaskDatasetReader
from allennlp.data.fields import ListField, TextField
from cached_path import add_scheme_client

from elmo_plugin.checks import InputError, check_choice
from elmo_plugin.files.digest import digest
from elmo_plugin.files.local_path import local_path
from elmo_plugin.plugin.data.local_scheme import LocalSchemeClient
from elmo_plugin.text.characters import one_token
from elmo_plugin.text.text_files import file_facts, find_files

EDITION = 5
"""Version of the extraction. Increase it when the same data would yield different text."""

KEYS = ("train_data_path", "validation_data_path", "test_data_path")
READERS = ("dataset_reader", "validation_dataset_reader")

import_plugins_once = cache(import_plugins)
"""AllenNLP's function takes half a second per call."""


class TaskTextClient(LocalSchemeClient):
    """Resolves `task://CONFIG#KEY` for `cached_path`, which caches the text."""

    scheme = "task"

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        file, _, key = resource.removeprefix("task://").partition("#")
        check_choice(f"{resource}: the key of the data after the config", key, KEYS)
        file = local_path(file, "the config of a task")
        import_plugins_once()  # register the readers of allennlp-models, also outside commands
        with _reading(resource):
            self.config = _evaluated(file, [*READERS, key])
            config = Params(self.config).duplicate()
            self.path = config.pop(key)
            reader = config.pop(READERS[1], None) if key != KEYS[0] else None
            self.reader = DatasetReader.from_params(reader or config.pop(READERS[0]))

    def get_etag(self) -> str:
        """A digest of everything that determines the text."""
        try:
            files = [*find_files(self.path), Path(getfile(type(self.reader)))]
        except (OSError, TypeError):
            # Only the reader understands the path, or it has no file, such as one of a notebook.
            return digest(self.text)
        return digest(json.dumps([EDITION, self.config, file_facts(files)]).encode("utf-8"))

    def content(self) -> bytes:
        return self.text

    @cached_property
    def text(self) -> bytes:
        """
        One sentence per line, in UTF-8 without lone surrogates, which ELMo's characters lack too.
        """
        with _reading(self.resource):
            instances = _instances(self.reader, self.path)
            fields = (field for instance in instances for field in instance.fields.values())
            added = (getattr(self.reader, f"_{x}_token", None) or "" for x in ("start", "end"))
            symbols = {START_SYMBOL, END_SYMBOL, *map(str, added)}
            lines = dict.fromkeys(x for field in fields for x in _lines(field, symbols) if x)
            if not lines:
                raise InputError(
                    f"expected text fields in the instances of {self.path}, found none"
                )
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "ignore")


add_scheme_client(TaskTextClient)


def _evaluated(file: str, keys: list[str]) -> dict[str, Any]:
    """These keys of a config. The others, such as its model, are not evaluated."""
    wanted = f"{{ [key]: config[key] for key in {keys} if std.objectHas(config, key) }}"
    code = f"local config = import {json.dumps(os.path.abspath(file))}; {wanted}"
    environment = params._environment_variables()
    return json.loads(params.evaluate_snippet("", code, ext_vars=environment))


def _instances(reader: DatasetReader, path: Any) -> Iterable[Instance]:
    """The instances of a reader; those of several tasks, each with its own path, in turn."""
    if isinstance(reader, MultiTaskDatasetReader):
        return chain.from_iterable(reader.readers[task].read(path[task]) for task in reader.readers)
    return reader.read(path)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """
    Read everything in distributed training too, where readers read only the share of their own
    process. Readers raise many kinds of errors for other configs and data, which `name` names.
    """
    try:
        with patch.object(util, "is_distributed", return_value=False):
            yield
    except Exception as error:
        raise InputError(f"{name}: {error}") from error


def _lines(field: Field, symbols: Set[str]) -> Iterator[str]:
    """The texts of a field, or of those in a list, with spaces between words but no symbols."""
    if isinstance(field, ListField):
        for element in field.field_list:
            yield from _lines(element, symbols)
    elif isinstance(field, TextField):
        words = [token.ensure_text() for token in field.tokens]
        if any(getattr(token, "text_id", None) is not None for token in field.tokens):
            expected = "words, from a tokenizer that the task with ELMo also needs"
            raise InputError(f"expected {expected}, found the word pieces {' '.join(words)}")
        kept = (word for word in words if word not in symbols)
        yield " ".join(map(one_token, kept))
