"""
AllenNLP's command `predict` skips blank lines, so that the line numbers of its output are not those
of its input; opens the output before it predicts, so that an error leaves a part of it; fails with
an error about `NoneType` if standard input or output is closed; and predicts nothing for
`--batch-size 0`. What a line lacks is an error that does not name the input.

Importing this makes the output appear whole or not at all, and these clear errors. An `InputError`
names the input. A predictor that has the methods `load_file` and `check_text`, as `bilm` and `elmo`
have, reads the input itself, and a file is checked before anything is computed. Remove it when
AllenNLP passes all lines to a predictor.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from json import JSONDecodeError
from typing import Any, TextIO

from allennlp.commands import predict
from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_plugin.checks import InputError, check_count, shown
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.standard_streams import check_standard_output, piped_output, standard_input


class PredictManager(predict._PredictManager):
    """AllenNLP's class, for which a predictor can read the lines of a file itself."""

    def __init__(
        self,
        predictor: Predictor,
        input_file: str,
        output_file: str | None,
        batch_size: int,
        *rest: Any,
    ) -> None:
        check_count("--batch-size", batch_size)
        if input_file == "-":
            standard_input("input_file")
        if output_file is None:
            check_standard_output()
        self._input_name = "stdin" if input_file == "-" else input_file
        self._line_reader: Any = predictor if hasattr(predictor, "load_file") else None
        self._output_path = output_file
        super().__init__(predictor, input_file, None, batch_size, *rest)

    def _get_json_data(self) -> Iterator[JsonDict]:
        if self._line_reader is None:
            inputs = super()._get_json_data()
        else:
            inputs = self._line_reader.load_file(self._input_file)
        try:
            for self._n_read, found in enumerate(inputs, start=1):
                yield found
        except JSONDecodeError as error:
            raise InputError(
                f'{self._input_name}: expected a JSON object per line, as {{"sentence": "…"}}, '
                f"found {shown(error.doc)}"
            ) from error
        except UnicodeDecodeError as error:
            raise InputError(
                f"{self._input_name}: expected a text in UTF-8, found {error}"
            ) from error

    def _predict_json(self, batch_data: list[JsonDict]) -> Iterator[str]:
        try:
            yield from super()._predict_json(batch_data)
        except (InputError, KeyError, TypeError) as error:
            found = str(error) if isinstance(error, InputError) else repr(error)
            raise InputError(
                f"{self._input_name}, in the batch that ends with input {self._n_read}: {found}"
            ) from error

    def _get_instance_data(self) -> Iterator[Instance]:
        if self._line_reader is not None and self._input_file != "-":  # which AllenNLP refuses
            self._line_reader.check_text(self._input_file)
        return super()._get_instance_data()

    def run(self) -> None:
        if self._line_reader is not None and self._dataset_reader is None:
            if self._input_file != "-" and not _is_pipe(self._input_file):
                for _ in self._get_json_data():
                    pass
        with piped_output(), _opened(self._output_path) as file:
            self._output_file: Any = file
            super().run()


@contextmanager
def _opened(path: str | None) -> Iterator[TextIO | None]:
    if path is None:
        yield None
        return
    with nullcontext(path) if _is_pipe(path) else atomic_write(path) as target:
        with open(target, "w", encoding="utf-8") as file:
            yield file


def _is_pipe(path: str) -> bool:
    """Whether a path can be read only once, or not be replaced. An address cannot exist."""
    return os.path.exists(path) and not os.path.isfile(path)


predict._PredictManager = PredictManager  # type: ignore[misc, assignment]
