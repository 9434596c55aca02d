"""
What a language model says about sentences, for `allennlp predict` and for `allennlp evaluate` with
`--predictions-output-file`. AllenNLP's evaluator would write one line per batch, with the input
tensors. Importing this makes it write one line per sentence of a language model.
"""

import json
from functools import wraps
from typing import Any

from allennlp.common import JsonDict
from allennlp.data import DataLoader
from allennlp.evaluation import SimpleEvaluator
from allennlp.evaluation.serializers import SimpleSerializer
from allennlp.models import Model

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader, check_order
from elmo_plugin.plugin.models.language_model import BiLMModel, exp

OPTION = "--predictions-output-file"
SENTENCES = """-o '{"validation_data_loader": {"type": "multiprocess", "batch_size": 32}}'"""

COLUMNS = ("tokens", "in_vocabulary", "forward_log_probabilities", "backward_log_probabilities")
"""What the readable output of a `BiLMModel` has for each sentence."""

_evaluate = SimpleEvaluator.__call__


def sentence_output(
    tokens: list[str], in_vocabulary: list[bool], forward: list[float], backward: list[float]
) -> JsonDict:
    """The output for a sentence: its `COLUMNS`, with the perplexity."""
    log_p = forward + backward
    return {
        "tokens": tokens,
        "in_vocabulary": in_vocabulary,
        "perplexity": exp(-sum(log_p) / len(log_p)),
        "forward_log_probabilities": forward,
        "backward_log_probabilities": backward,
    }


def json_line(outputs: JsonDict) -> str:
    """A line of JSON in UTF-8, which has no lone surrogates; JSON escapes them like this."""
    line = json.dumps(outputs, ensure_ascii=False)
    return line.encode("utf-8", "backslashreplace").decode("utf-8")


class _SentenceSerializer(SimpleSerializer):
    def __call__(
        self,
        batch: Any,
        output_dict: Any,
        data_loader: DataLoader,
        output_postprocess_function: Any = None,
    ) -> str:
        output = output_postprocess_function(output_dict)
        rows = zip(*(output[column] for column in COLUMNS))
        return "\n".join(json_line(sentence_output(*row)) for row in rows)


@wraps(_evaluate)
def _evaluate_sentences(
    self: SimpleEvaluator,
    model: Model,
    data_loader: DataLoader,
    batch_weight_key: str | None = None,
    metrics_output_file: Any = None,
    predictions_output_file: Any = None,
) -> Any:
    if predictions_output_file is not None and isinstance(model, BiLMModel):
        if isinstance(data_loader, BiLMDataLoader):
            raise InputError(
                f'{OPTION}: expected sentences, found the windows of a data_loader of type "bilm"; '
                f"add {SENTENCES}"
            )
        check_order(OPTION, data_loader)
        if type(self.batch_serializer) is SimpleSerializer:
            self.batch_serializer = _SentenceSerializer()
    files = metrics_output_file, predictions_output_file
    return _evaluate(self, model, data_loader, batch_weight_key, *files)  # type: ignore[arg-type]


SimpleEvaluator.__call__ = _evaluate_sentences  # type: ignore[method-assign]
