"""
The state of AllenNLP's moving averages, which holds the model's parameters themselves beside their
averages: out of a checkpoint, and in again.
"""

import copy
from typing import Any

from allennlp.common.util import is_distributed
from allennlp.models.model import Model


def without_parameters(training_state: dict[str, Any]) -> dict[str, Any]:
    """The trainer's state, in which a moving average keeps the parameters' names alone."""
    averages = training_state.get("moving_average")
    if averages is None:
        return training_state
    names = [name for name, _ in averages["parameters"]]
    return {**training_state, "moving_average": {**averages, "parameters": names}}


def attach(averages: dict[str, Any], model: Model) -> None:
    """
    Gives a moving average's state the model's own parameters, which it is to follow, and moves its
    values to where they are.
    """
    parameters = dict(model.named_parameters())
    if is_distributed():
        # As the model is called where AllenNLP's trainer has wrapped it.
        parameters = {f"module.{name}": value for name, value in parameters.items()}
    averages["parameters"] = [(name, parameters[name]) for name in averages["parameters"]]
    for kind in ("shadows", "backups"):
        averages[kind] = {
            name: value.to(parameters[name].device) for name, value in averages[kind].items()
        }


def averaged(model: Model, model_state: dict[str, Any], averages: dict[str, Any]) -> dict[str, Any]:
    """`model_state` with the averages, as `attach` leaves them, in place of the weights."""
    shadows = {
        id(parameter): averages["shadows"][name] for name, parameter in averages["parameters"]
    }
    state = copy.copy(model_state)
    # By identity, because tied parameters have several names in a model's state.
    for name, parameter in model.state_dict(keep_vars=True).items():
        if id(parameter) in shadows:
            state[name] = shadows[id(parameter)]
    return state
