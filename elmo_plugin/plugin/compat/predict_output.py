"""
`allennlp predict` with a closed standard input or output fails with an error about `NoneType`, and
leaves an empty or partial `--output-file`; `--batch-size 0` predicts nothing without an error.
Importing this makes these clear errors, and the file appear whole or not at all.
"""

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, TextIO

from allennlp.commands.predict import _PredictManager

from elmo_plugin.checks import InputError, check_count
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.standard_streams import check_standard_output, piped_output, standard_input

_init, _run = _PredictManager.__init__, _PredictManager.run


def _init_with_checks(
    self: Any,
    predictor: Any,
    input_file: str,
    output_file: str | None,
    batch_size: int,
    *args: Any,
    **kwargs: Any,
) -> None:
    check_count("--batch-size", batch_size)
    if input_file == "-":
        standard_input("input_file")
    if output_file is None:
        check_standard_output()
    _init(self, predictor, input_file, None, batch_size, *args, **kwargs)
    self._output_path = output_file


def _run_with_whole_output(self: Any) -> None:
    with piped_output(), ExitStack() as stack:
        if self._output_path is not None:
            try:
                self._output_file = stack.enter_context(_opened(self._output_path))
            except OSError as error:
                raise InputError(
                    f"--output-file: {self._output_path}: expected a place to write to, found: "
                    f"{error.strerror}"
                ) from None
        _run(self)


@contextmanager
def _opened(path: str) -> Iterator[TextIO]:
    if os.path.exists(path) and not os.path.isfile(path):  # such as a pipe
        with open(path, "w") as file:
            yield file
    else:
        with atomic_write(path) as temporary, temporary.open("w") as file:
            yield file


_PredictManager.__init__ = _init_with_checks  # type: ignore[method-assign, assignment]
_PredictManager.run = _run_with_whole_output  # type: ignore[method-assign]
