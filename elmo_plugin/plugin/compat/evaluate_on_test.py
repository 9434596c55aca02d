"""
After a distributed training, AllenNLP evaluates on the test data (`evaluate_on_test`) in one
process alone. Metrics are exchanged with the other processes, which have ended, so that the run
fails without a `model.tar.gz`. Importing this makes it an error before training. Remove it when
AllenNLP evaluates in all processes.
"""

from functools import wraps
from typing import Any

from allennlp.commands import train
from allennlp.common import Params
from allennlp.models import Model

from elmo_plugin.checks import fail

_train_model = train.train_model


@wraps(_train_model)
def _train_model_without_test(params: Params, *args: Any, **kwargs: Any) -> Model | None:
    if params.params.get("distributed") and params.params.get("evaluate_on_test"):
        expected = "false with distributed (allennlp evaluate does it afterwards)"
        fail("evaluate_on_test", expected, True)
    return _train_model(params, *args, **kwargs)


train.train_model = _train_model_without_test
