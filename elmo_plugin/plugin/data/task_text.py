"""
The text of an AllenNLP task as `task://CONFIG#KEY`, for example
`task://training_configs/esim.jsonnet#train_data_path`: the config's dataset reader reads the data
under this key. The other keys are `validation_data_path` and `test_data_path`.

Each distinct `TextField` of the instances, including those in a `ListField`, becomes a sentence,
because ELMo reads it as one. The passage of several SQuAD questions therefore occurs once in a
training text. Commands that write a result for each line read the same address with all repeats
(`task_address.with_repeats`), where each text field is a line, in the order of the instances and of
their fields, and one without words is a blank line, which they refuse. Tokens that contain white
space are split, and the symbols that readers add to the targets of sequence-to-sequence models are
removed. Word pieces raise an error.

`cached_path` resolves these addresses and caches the text until the config's reader or path, the
data files, or the source file of the reader's class change.
"""

import io
import json
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache, cached_property
from inspect import getfile
from pathlib import Path
from typing import Any

from allennlp.common import Params, params, util
from allennlp.common.plugins import import_plugins
from allennlp.common.util import END_SYMBOL, START_SYMBOL
from allennlp.data import DatasetReader, Field, Instance
from allennlp.data.fields import ListField, TextField
from cached_path import SchemeClient, add_scheme_client

from elmo_plugin.checks import InputError, check_choice, check_text, fail, named, shown
from elmo_plugin.files.digest import digest
from elmo_plugin.files.local_path import local_path
from elmo_plugin.plugin.task_address import TASK, TASK_WITH_REPEATS
from elmo_plugin.text.text_files import file_facts, find_files

logger = logging.getLogger(__name__)

EDITION = 2
"""Version of the extraction. Increase it when the same data would yield different text."""

KEYS = ("train_data_path", "validation_data_path", "test_data_path")
READERS = ("dataset_reader", "validation_dataset_reader")

import_plugins_once = cache(import_plugins)
"""AllenNLP's function takes half a second per call."""


class TaskTextClient(SchemeClient):
    """Resolves `task://CONFIG#KEY` for `cached_path`, which caches the text."""

    scheme = TASK, TASK_WITH_REPEATS

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        scheme, _, address = resource.partition("://")
        self.has_repeats = scheme == TASK_WITH_REPEATS
        self.resource = f"{TASK}://{address}"  # as the user wrote it
        self.config_file, _, self.key = address.partition("#")
        check_choice(f"{self.resource}: the key of the data after the config", self.key, KEYS)

    def get_etag(self) -> str:
        """A digest of everything that determines the text."""
        try:
            files = [*find_files(self.config[self.key]), Path(getfile(type(self.reader)))]
        except (OSError, TypeError):
            # Only the reader understands the path, or it has no file, such as one of a notebook.
            return digest(self.text)
        return digest(json.dumps([EDITION, self.config, file_facts(files)]).encode("utf-8"))

    def get_size(self) -> int | None:
        return None

    def get_resource(self, temp_file: io.BufferedWriter) -> None:
        temp_file.write(self.text)

    @cached_property
    def config(self) -> dict[str, Any]:
        """
        The task's reader and data paths. The rest of the config, such as its model, is not
        evaluated.
        """
        with named(self.resource):
            file = local_path(self.config_file, "the config of a task")
            wanted = json.dumps([*READERS, self.key])
            text = params.evaluate_snippet(
                "",
                f"local config = import {json.dumps(os.path.abspath(file))}; "
                f"{{ [key]: config[key] for key in {wanted} if std.objectHas(config, key) }}",
                ext_vars=params._environment_variables(),
            )
            config = json.loads(text)
            check_text(self.key, config.get(self.key))
            if config.get(READERS[0]) is None:
                fail(READERS[0], "a block", None)
        return config

    @cached_property
    def reader(self) -> DatasetReader:
        import_plugins_once()  # register the readers of allennlp-models, also outside commands
        key = READERS[0]
        if self.key != KEYS[0] and self.config.get(READERS[1]) is not None:
            key = READERS[1]
        with _reading(f"{self.resource}: {key}"):
            return DatasetReader.from_params(Params(self.config[key]).duplicate())

    @cached_property
    def text(self) -> bytes:
        """
        One sentence per line, in UTF-8 without lone surrogates, which ELMo's characters lack too.
        """
        path, name = self.config[self.key], type(self.reader).__name__
        logger.info("Reading the text of %s with %s", self.resource, name)
        with _reading(f"{self.resource}: {name} could not read {path}"):
            lines = list(texts(self.reader.read(path)))
        if not self.has_repeats:
            lines = list(dict.fromkeys(line for line in lines if line))
        if not lines:
            raise InputError(
                f"{self.resource}: expected text fields in the instances that {name} reads from "
                f"{path}, found none"
            )
        return "".join(f"{line}\n" for line in lines).encode("utf-8", "ignore")


add_scheme_client(TaskTextClient)


@contextmanager
def _reading(name: str) -> Iterator[None]:
    """
    Read everything in distributed training too, where readers read only the share of their own
    process. Readers raise many kinds of errors for other configs and data, which `name` names.
    """
    is_distributed = util.is_distributed
    util.is_distributed = lambda: False
    try:
        yield
    except Exception as error:
        raise InputError(f"{name}: {error}") from error
    finally:
        util.is_distributed = is_distributed


def texts(instances: Iterable[Instance]) -> Iterator[str]:
    """
    The texts of instances, in order, with spaces between words. Warns of the first token that
    contains white space. Raises an `InputError` if a token is a word piece or has no text.
    """
    is_split = False
    for instance in instances:
        for name, field in instance.fields.items():
            for text in _text_fields(field):
                words: list[str] = []
                for token in text.tokens:
                    if token.text is None or getattr(token, "text_id", None) is not None:
                        raise InputError(
                            f"field {name}: expected words, found {shown(token.text)}, a word "
                            "piece with its own id; give the reader a tokenizer that makes "
                            "words, which the task with ELMo also needs"
                        )
                    if token.text in (START_SYMBOL, END_SYMBOL):
                        continue
                    parts = token.text.split()
                    if len(parts) > 1 and not is_split:
                        is_split = True
                        logger.warning(
                            f"field {name}: the token {shown(token.text)} contains white space, "
                            "and becomes several words here, as other such tokens do"
                        )
                    words += parts
                yield " ".join(words)


def _text_fields(field: Field) -> Iterator[TextField]:
    """The text fields of a field: the field itself, or those of a list, in order."""
    if isinstance(field, TextField):
        yield field
    elif isinstance(field, ListField):
        for element in field.field_list:
            yield from _text_fields(element)
