"""
A model of AllenNLP that predicts for a text without tokens ends in an `IndexError` of its encoder.
If a longer text is in the same batch, the model predicts from the padding instead. Importing this
module makes such a text an error that says so. Remove it when AllenNLP refuses it.
"""

from typing import Any

from allennlp.data import Instance
from allennlp.data.fields import TextField
from allennlp.models import Model

from elmo_plugin.checks import InputError

_forward_on_instances = Model.forward_on_instances


def forward_on_instances(self: Model, instances: list[Instance]) -> list[dict[str, Any]]:
    """AllenNLP's method. A model with the attribute `reads_empty_text` gets all texts."""
    if not getattr(self, "reads_empty_text", False):
        for number, instance in enumerate(instances, start=1):
            for name, field in instance.fields.items():
                if isinstance(field, TextField) and not field.tokens:
                    raise InputError(
                        f"instance {number} of {len(instances)}: {name}: expected a text with "
                        "tokens, found none, for which there is nothing to predict"
                    )
    return _forward_on_instances(self, instances)


Model.forward_on_instances = forward_on_instances  # type: ignore[method-assign]
