"""
AllenNLP's command `predict` skips blank lines, so that the line numbers of its output are not those
of its input; opens the output before it predicts, so that an error leaves a part of it; fails with
an error about `NoneType` if standard input or output is closed; predicts nothing for `--batch-size
0`; and does not say which line or argument is not JSON, or which argument has no such GPU.

Importing this makes the output appear whole or not at all, and these clear errors, which name the
input and its line. A file is checked before anything is computed. A predictor with the method
`check_text`, as `bilm` and `elmo` have, gets blank lines too. Remove it when AllenNLP does so.
"""

import os
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from json import JSONDecodeError
from pathlib import Path
from typing import Any, TextIO

from allennlp.commands import predict
from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.models import load_archive
from allennlp.predictors import Predictor

from elmo_plugin.checks import InputError, check_count, device_named, named, shown
from elmo_plugin.commands.streams import check_standard_output, piped_output, standard_input
from elmo_plugin.files.atomic_write import atomic_write, check_can_write
from elmo_plugin.files.local_path import local_path
from elmo_plugin.formats.small_files import parse_json
from elmo_plugin.text.lines import decode, read_blocks


def _get_predictor(args: Namespace) -> Predictor:
    """AllenNLP's function, with errors that name the argument, if possible before it loads."""
    device_named("--cuda-device", args.cuda_device)
    if args.output_file is not None:
        check_can_write("--output-file", args.output_file)
    given = parse_json(args.predictor_args.strip() or "{}", "--predictor-args", "parameters")
    archive = load_archive(
        args.archive_file,
        weights_file=args.weights_file,
        cuda_device=args.cuda_device,
        overrides=args.overrides,
    )
    try:
        return Predictor.from_archive(
            archive,
            args.predictor,
            dataset_reader_to_load=args.dataset_reader_choice,
            extra_args=given,
        )
    except TypeError as error:
        if not given:
            raise
        raise InputError(
            f"--predictor-args: expected parameters of the predictor, found {shown(given)}: {error}"
        ) from error


class PredictManager(predict._PredictManager):
    """AllenNLP's class, which names the line of an error."""

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
        self._check_text = getattr(predictor, "check_text", None)
        self._output_path = output_file
        super().__init__(predictor, input_file, None, batch_size, *rest)

    def _get_json_data(self) -> Iterator[JsonDict]:
        for number, line in enumerate(_lines(self._input_file, self._input_name), start=1):
            self._n_read = number
            if self._check_text is not None or line.strip():
                with named(f"{self._input_name}, line {number}"):
                    try:
                        found = self._predictor.load_line(line)
                    except JSONDecodeError as error:
                        raise InputError(f"expected JSON, found {shown(line)} ({error})") from error
                yield found

    def _predict_json(self, batch_data: list[JsonDict]) -> Iterator[str]:
        with named(f"{self._input_name}, in the batch that ends with line {self._n_read}"):
            try:
                yield from super()._predict_json(batch_data)
            except (KeyError, TypeError) as error:
                raise InputError(repr(error)) from error

    def _get_instance_data(self) -> Iterator[Instance]:
        if self._check_text is not None and self._input_file != "-":  # which AllenNLP refuses
            self._check_text(self._input_file)
        return super()._get_instance_data()

    def run(self) -> None:
        is_file = self._input_file != "-" and not _is_pipe(self._input_file)
        if self._dataset_reader is None and is_file:
            for _ in self._get_json_data():
                pass
        with piped_output(), _opened(self._output_path) as file:
            self._output_file: Any = file
            super().run()


def _lines(input_file: str, name: str) -> Iterable[str]:
    """The lines of a file, or of standard input as they come. Only a line feed ends a line."""
    if input_file == "-":
        return (decode(line, name, number) for number, line in enumerate(sys.stdin.buffer))
    file = Path(local_path(input_file, "a file"))
    return chain.from_iterable(read_blocks(file, name=name, is_text=False))


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


predict._get_predictor = _get_predictor
predict._PredictManager = PredictManager  # type: ignore[misc, assignment]
