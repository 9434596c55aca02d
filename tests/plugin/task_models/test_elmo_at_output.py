import pytest
import torch
from torch import nn

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.task_models import elmo_at_output
from elmo_plugin.plugin.task_models.elmo_at_output import PassElmo


class Negate(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return -inputs[..., :2]


def test_columns():
    """By hand: the module reads columns 0, 3 and 6; the others follow its output in the order in
    which they were named."""
    layer = PassElmo(Negate(), [[4, 6], [1, 3]])
    assert layer(torch.arange(7.0)).tolist() == [-0.0, -3.0, 4.0, 5.0, 1.0, 2.0]


@pytest.mark.parametrize(
    "columns", [[], None, [[4]], [[4, 6], [5, 7]], [[4, 8]], [["4", "6"]], [[4.7, 6]], [[6, 4]]]
)
def test_columns_that_are_refused(columns):
    """Of seven columns, pairs of whole numbers that do not overlap are right."""
    elmo_at_output._check_columns([[4, 6], [1, 3]], 7)
    with pytest.raises(InputError, match="elmo_columns: expected pairs of a first column"):
        elmo_at_output._check_columns(columns, 7)


def test_columns_after_a_layer():
    """By hand: two columns of the module, and then the four of ELMo, which pass a second layer."""
    layer = nn.Sequential(PassElmo(Negate(), [[4, 6], [1, 3]]), PassElmo(Negate(), [[2, 6]]))
    assert layer(torch.arange(7.0)).tolist() == [0.0, 3.0, 4.0, 5.0, 1.0, 2.0]
