"""
AllenNLP's command `predict` skips blank lines, so that the line numbers of its output are not those
of its input. It also opens the output first, so that an error leaves a part of it.

A predictor that has the methods `load_file` and `check_text`, as `bilm` and `elmo` have, reads the
input itself. For it, importing this module makes `predict` check a file before anything is
computed, and write the output completely or not at all. For all predictors, an `InputError` names
the input. Remove it when AllenNLP passes all lines to a predictor.
"""

import os
from collections.abc import Iterator
from typing import Any

from allennlp.commands import predict
from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor

from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import atomic_write


class PredictManager(predict._PredictManager):
    """AllenNLP's class, for which a predictor can read the lines of a file itself."""

    def __init__(
        self, predictor: Predictor, input_file: str, output_file: str | None, *rest: Any
    ) -> None:
        self._line_reader: Any = predictor if hasattr(predictor, "load_file") else None
        self._whole_file = None
        if self._line_reader is not None and output_file and not _is_pipe(output_file):
            self._whole_file = output_file
        super().__init__(predictor, input_file, None if self._whole_file else output_file, *rest)

    def _get_json_data(self) -> Iterator[JsonDict]:
        if self._line_reader is None:
            inputs = super()._get_json_data()
        else:
            inputs = self._line_reader.load_file(self._input_file)
        for self._n_read, found in enumerate(inputs, start=1):
            yield found

    def _predict_json(self, batch_data: list[JsonDict]) -> Iterator[str]:
        try:
            yield from super()._predict_json(batch_data)
        except InputError as error:
            name = "stdin" if self._input_file == "-" else self._input_file
            raise InputError(
                f"{name}, in the batch that ends with input {self._n_read}: {error}"
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
        if self._whole_file is None:
            super().run()
            return
        with atomic_write(self._whole_file) as temporary, temporary.open("w") as output:
            self._output_file = output
            super().run()


def _is_pipe(path: str) -> bool:
    """Whether a path can be read only once, or not be replaced. An address cannot exist."""
    return os.path.exists(path) and not os.path.isfile(path)


predict._PredictManager = PredictManager  # type: ignore[misc, assignment]
