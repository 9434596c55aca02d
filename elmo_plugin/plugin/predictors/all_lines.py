"""
AllenNLP's command `predict` skips blank lines, so that the line numbers of its output are not those
of its input, and ends a line also at a carriage return. Importing this gives each line to a
predictor with the method `check_text`, as `bilm` and `elmo` have; only a line feed ends one, and
errors name the line.
"""

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from allennlp.commands.predict import _PredictManager
from allennlp.common import JsonDict
from allennlp.data import Instance

from elmo_plugin.checks import named
from elmo_plugin.files.local_path import local_path
from elmo_plugin.text.lines import decode, read_lines

_get_json_data = _PredictManager._get_json_data
_get_instance_data = _PredictManager._get_instance_data


def _json_data_of_all_lines(self: _PredictManager) -> Iterator[JsonDict]:
    if not hasattr(self._predictor, "check_text"):
        yield from _get_json_data(self)
        return
    name = "stdin" if self._input_file == "-" else self._input_file
    for number, line in enumerate(_lines(self._input_file, name), start=1):
        with named(f"{name}, line {number}"):
            json_dict = self._predictor.load_line(line)
        yield json_dict


def _lines(input_file: str, name: str) -> Iterable[str]:
    """The lines of a file, or of standard input as they come."""
    if input_file == "-":
        return (decode(line, name, number) for number, line in enumerate(sys.stdin.buffer))
    file = Path(local_path(input_file, "a file"))
    return read_lines(file, name, is_text=False)


def _instance_data_of_all_lines(self: _PredictManager) -> Iterator[Instance]:
    if hasattr(self._predictor, "check_text") and self._input_file != "-":  # AllenNLP refuses it
        self._predictor.check_text(self._input_file)
    return _get_instance_data(self)


_PredictManager._get_json_data = _json_data_of_all_lines  # type: ignore[method-assign]
_PredictManager._get_instance_data = _instance_data_of_all_lines  # type: ignore[method-assign]
