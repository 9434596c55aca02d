import json
from typing import Any

from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError


def load_line(line: str) -> JsonDict:
    """A line of input: JSON, or else a sentence as it stands."""
    if line.lstrip().startswith("{"):
        try:
            return json.loads(line)
        except json.JSONDecodeError:
            pass
    return {"sentence": line.strip()}


def tokens_of(inputs: JsonDict) -> list[str]:
    """
    The tokens of `{"tokens": [..]}`, or of `{"sentence": ".."}`, which are parted by white space.

    # Raises

    `ConfigurationError`
        For any other input.
    """
    tokens: Any = inputs.get("tokens")
    if tokens is None and isinstance(inputs.get("sentence"), str):
        tokens = inputs["sentence"].split()
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ConfigurationError(
            'expected {"sentence": "tokens parted by spaces"} or {"tokens": ["..."]}, '
            f"found {json.dumps(inputs)[:80]}"
        )
    return tokens
