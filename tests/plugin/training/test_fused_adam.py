import torch
from allennlp.common import Params
from allennlp.training.optimizers import Optimizer

from tests.compare import assert_close


def test_numbers_are_those_of_adam():
    """The oracle is AllenNLP's `adam` with the same parameters and groups."""
    found, expected = train("fused_adam"), train("adam")
    for x, y in zip(found, expected):
        assert_close(x, y, atol=1e-6, what="weights")


def train(kind: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.Tanh(), torch.nn.Linear(7, 1))
    groups = [[["^2"], {"lr": 0.1}]]
    params = {"type": kind, "lr": 0.01, "betas": [0.8, 0.95], "parameter_groups": groups}
    optimizer = Optimizer.from_params(
        Params(params), model_parameters=list(model.named_parameters())
    )
    assert all(bool(group["fused"]) == (kind == "fused_adam") for group in optimizer.param_groups)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(3, 5)).square().mean().backward()
        optimizer.step()
    return [weight.detach() for weight in model.parameters()]
