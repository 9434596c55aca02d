"""
The predictors `bilm` and `elmo`, and a patch of AllenNLP's command `predict` for them.

The command skips blank lines, so that the line numbers of its output are not those of its input.
Here a predictor with the method `check_text`, as these two have, gets each line. For all
predictors, only a line feed ends a line, a byte order mark is left out, and errors name the line:
`commands.py` takes it from the attribute `place` of AllenNLP's manager.
"""

import json
from collections.abc import Iterator
from contextlib import nullcontext
from copy import deepcopy
from functools import cached_property
from pathlib import Path
from typing import Any

from allennlp.commands.predict import _PredictManager
from allennlp.common import JsonDict
from allennlp.common.file_utils import open_compressed
from allennlp.data import Instance
from allennlp.models import Model
from allennlp.predictors import Predictor

from elmo_plugin.checks import InputError, named, shown
from elmo_plugin.commands.streams import printable, standard_input
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.language_model import LanguageModel, Substitute
from elmo_plugin.elmo.scores import SentenceScores
from elmo_plugin.files.local_path import local_path
from elmo_plugin.plugin.data.vocabulary import vocabulary_words
from elmo_plugin.plugin.models.bilm_model import BiLMModel, exp
from elmo_plugin.text.advice import Advice, advised, collected
from elmo_plugin.text.corpus import is_corpus
from elmo_plugin.text.forms import tokens_of
from elmo_plugin.text.lines import BYTE_ORDER_MARK, decode, read_lines, refuse_table
from elmo_plugin.text.text_files import find_files

EMPTY = "expected a sentence, found an empty line"
FORMS = '{"sentence": "tokens separated by whitespace"} or {"tokens": ["..."]}'


@Predictor.register("bilm")
class BiLMPredictor(Predictor):
    """
    Predicts token probabilities, perplexity and lexical substitutes with a language model. The
    input is one sentence per line with whitespace between its tokens, or JSON:
    `{"sentence": "He threw the stick ."}` or `{"tokens": ["He", ..]}`. A sentence is split at all
    whitespace, such as a no-break space, which is read as `_` inside one of the `tokens`. A blank
    line, or a sentence without tokens, is an error.

    The output contains, in the order of the text:

    * `tokens`,
    * `in_vocabulary`: for each token whether the model's vocabulary has it; one that it lacks has
      the probability of `<UNK>`, which stands for all such words and is often high;
    * `forward_log_probabilities`: the natural logarithm of the probability of each token given
      those before it, and of the end;
    * `backward_log_probabilities` of the beginning, and of each token given those after it;
    * `perplexity` of both directions together;
    * `substitutes`: for each token the five most probable words in its place according to both
      directions, with their probabilities; see `elmo_plugin.LanguageModel.substitutes`.

    Registered as a `Predictor` with name "bilm".
    """

    _model: BiLMModel

    def __init__(self, model: Model, *args: Any, **kwargs: Any) -> None:
        if not isinstance(model, BiLMModel):
            raise InputError(
                "predictors bilm and elmo: expected a model of type bilm, found "
                f"{type(model).__name__}; python -m elmo_plugin elmo gives the vectors of a task's "
                "biLM"
            )
        super().__init__(model, *args, **kwargs)
        self._advice = Advice()  # so that a warning comes once, and not for each batch

    def load_line(self, line: str) -> JsonDict:
        line = line.strip()
        if not line:
            raise InputError(EMPTY)
        found = {"sentence": line}
        if line.startswith("{"):
            try:
                found = json.loads(line)
            except (json.JSONDecodeError, RecursionError) as error:
                if line.startswith('{"'):  # other braces may be text
                    raise InputError(f"expected JSON, found {shown(line)} ({error})") from error
        _tokens(found)  # here, where the line's number is known
        return found

    def check_text(self, path: str) -> None:
        """
        Raise an `InputError` if a text that the dataset reader is about to read has a blank line,
        which the reader skips.
        """
        for file in [] if is_corpus(path) else find_files(path):
            for number, line in enumerate(read_lines(file), start=1):
                if not line.strip():
                    raise InputError(f"{file}, line {number}: {EMPTY}")

    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        return self._dataset_reader.text_to_instance(_tokens(json_dict))

    def dump_line(self, outputs: JsonDict) -> str:
        return printable(json.dumps(outputs, ensure_ascii=False)) + "\n"

    def predict_instance(self, instance: Instance) -> JsonDict:
        return self.predict_batch_instance([instance])[0]

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        sentences = [instance["metadata"].metadata for instance in instances]  # type: ignore[attr-defined]
        with advised(self._advice):
            with collected(Advice()):  # of the same sentences
                words = self._scorer.substitutes(sentences)
            scores = self._scorer.score(sentences, base="e")
        return [_output(*sentence) for sentence in zip(scores, words)]

    @cached_property
    def _scorer(self) -> LanguageModel:
        """The model as it is used without AllenNLP, with a copy of the biLM, which it freezes."""
        model = self._model
        return LanguageModel(
            deepcopy(model.bilm),
            model.softmax,
            vocabulary_words(model.vocab),
            initial_state=model.initial_state,
            precision=model.precision,
        )


def _tokens(json_dict: JsonDict) -> list[str]:
    """The tokens of a JSON object. Raises an `InputError` if there are none."""
    tokens: Any = json_dict.get("tokens")
    if tokens is None and isinstance(json_dict.get("sentence"), str):
        tokens = json_dict["sentence"].split()
    has_form = isinstance(tokens, list) and all(isinstance(token, str) for token in tokens)
    if not has_form or not tokens:
        expected = "at least one token" if has_form else FORMS
        raise InputError(f"expected {expected}, found {json.dumps(json_dict)[:80]}")
    return tokens_of("tokens", tokens)


def _output(scores: SentenceScores, substitutes: list[list[Substitute]]) -> JsonDict:
    """The output for a sentence."""
    forward, backward = scores.forward.tolist(), scores.backward.tolist()
    return {
        "tokens": scores.tokens,
        "in_vocabulary": scores.in_vocabulary.tolist(),
        "perplexity": exp(-sum(forward + backward) / (2 * scores.n_predictions)),
        "forward_log_probabilities": forward,
        "backward_log_probabilities": backward,
        "substitutes": [[word._asdict() for word in best] for best in substitutes],
    }


@Predictor.register("elmo")
class ElmoPredictor(BiLMPredictor):
    """
    Computes ELMo vectors with the archive of a `bilm`. The input is that of the predictor "bilm".
    The output contains `tokens` and `layers`: L + 1 lists, for the words and each LSTM layer, with
    a vector of size 2P for each token, with the `initial_state` and `precision` of the model.

    Registered as a `Predictor` with name "elmo".
    """

    def predict_batch_instance(self, instances: list[Instance]) -> list[JsonDict]:
        sentences = [instance["metadata"].metadata for instance in instances]  # type: ignore[attr-defined]
        with advised(self._advice):
            vectors = self._elmo.embed(sentences, layer="all")
        return [
            {"tokens": tokens, "layers": layers.tolist()}
            for tokens, layers in zip(sentences, vectors)
        ]

    @cached_property
    def _elmo(self) -> Elmo:
        """`Elmo` with a copy of the biLM, which it freezes."""
        model = self._model
        return Elmo(
            deepcopy(model.bilm), initial_state=model.initial_state, precision=model.precision
        ).eval()


_get_instance_data = _PredictManager._get_instance_data


def _json_data_of_all_lines(self: _PredictManager) -> Iterator[JsonDict]:
    name = "stdin" if self._input_file == "-" else self._input_file
    is_own = hasattr(self._predictor, "check_text")
    for number, line in enumerate(_lines(self._input_file, name, is_own), start=1):
        if not is_own and not line.strip():
            continue
        self.place = f"{name}, line {number}"  # type: ignore[attr-defined]
        with named(f"{name}, line {number}"):
            try:
                json_dict = self._predictor.load_line(line)
            except json.JSONDecodeError as error:
                raise InputError(f"expected JSON, found {shown(line.strip())} ({error})") from error
        if self._batch_size > 1:
            self.place = f"{name}, up to line {number}"  # type: ignore[attr-defined]
        yield json_dict
        self.place = name  # type: ignore[attr-defined]


def _lines(input_file: str, name: str, is_own: bool) -> Iterator[str]:
    """The lines of a file, or of standard input as they come."""
    if is_own and input_file != "-":
        refuse_table(name)
        yield from read_lines(Path(local_path(input_file, "a file")), name, is_text=False)
        return
    if input_file == "-":
        opened: Any = nullcontext(standard_input("input_file").buffer)
    else:
        opened = open_compressed(input_file, "rb", None)
    with opened as file:
        for number, line in enumerate(file):
            text = decode(line, name, number).replace("\r\n", "\n")
            yield text if number else text.removeprefix(BYTE_ORDER_MARK)


def _instance_data_of_all_lines(self: _PredictManager) -> Iterator[Instance]:
    if hasattr(self._predictor, "check_text") and self._input_file != "-":  # which AllenNLP rejects
        self._predictor.check_text(self._input_file)
    return _get_instance_data(self)


_PredictManager._get_json_data = _json_data_of_all_lines  # type: ignore[method-assign]
_PredictManager._get_instance_data = _instance_data_of_all_lines  # type: ignore[method-assign]
