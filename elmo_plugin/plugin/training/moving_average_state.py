"""
Saves and loads the state of AllenNLP's moving averages, which contains the model's parameters next
to their averages.
"""

import copy
from typing import Any

from allennlp.common.util import is_distributed
from allennlp.models.model import Model


def without_parameters(training_state: dict[str, Any]) -> dict[str, Any]:
    """The trainer's state with the names of a moving average's parameters in their place."""
    averages = training_state.get("moving_average")
    if averages is None:
        return training_state
    names = [name for name, _ in averages["parameters"]]
    return {**training_state, "moving_average": {**averages, "parameters": names}}


def attach(averages: dict[str, Any], model: Model) -> None:
    """
    Puts the model's parameters into a moving average's state, which averages them, and moves its
    values to their devices.
    """
    parameters = dict(model.named_parameters())
    if is_distributed():
        # AllenNLP's trainer wraps the model, which prefixes the names.
        parameters = {f"module.{name}": value for name, value in parameters.items()}
    averages["parameters"] = [(name, parameters[name]) for name in averages["parameters"]]
    for kind in ("shadows", "backups"):
        averages[kind] = {
            name: value.to(parameters[name].device) for name, value in averages[kind].items()
        }


def averaged(model: Model, model_state: dict[str, Any], averages: dict[str, Any]) -> dict[str, Any]:
    """`model_state` with the averages, after `attach`, in place of the weights."""
    shadows = {
        id(parameter): averages["shadows"][name] for name, parameter in averages["parameters"]
    }
    state = copy.copy(model_state)
    # Parameters are compared by identity, because tied ones have several names in the state.
    for name, parameter in model.state_dict(keep_vars=True).items():
        if id(parameter) in shadows:
            state[name] = shadows[id(parameter)]
    return state
