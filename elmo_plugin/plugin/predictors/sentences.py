import json
from typing import Any

from allennlp.common import JsonDict
from allennlp.data import Instance
from allennlp.predictors import Predictor
from overrides import overrides

from elmo_plugin.checks import InputError


class SentencePredictor(Predictor):
    """
    A predictor whose input is a sentence: a line with white space between its tokens, or JSON with
    such a line as `"sentence"` or a list as `"tokens"`. Subclasses have `predict_batch_instance`.
    """

    @overrides
    def load_line(self, line: str) -> JsonDict:
        if line.lstrip().startswith("{"):
            try:
                return json.loads(line)
            except json.JSONDecodeError:
                pass
        return {"sentence": line.strip()}

    @overrides
    def _json_to_instance(self, json_dict: JsonDict) -> Instance:
        return self._dataset_reader.text_to_instance(_tokens(json_dict))

    @overrides
    def dump_line(self, outputs: JsonDict) -> str:
        line = json.dumps(outputs, ensure_ascii=False)
        # UTF-8 has no lone surrogates, and JSON writes them as this escape.
        return line.encode("utf-8", "backslashreplace").decode("utf-8") + "\n"

    @overrides
    def predict_instance(self, instance: Instance) -> JsonDict:
        return self.predict_batch_instance([instance])[0]


def _tokens(inputs: JsonDict) -> list[str]:
    tokens: Any = inputs.get("tokens")
    if tokens is None and isinstance(inputs.get("sentence"), str):
        tokens = inputs["sentence"].split()
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise InputError(
            'expected {"sentence": "tokens separated by spaces"} or {"tokens": ["..."]}, '
            f"found {json.dumps(inputs)[:80]}"
        )
    return tokens
