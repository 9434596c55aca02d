"""These tests run the language model on windows of running text, and check what both kinds of
batches share."""

import copy
import math

import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.models import bilm_model
from elmo_plugin.plugin.models.bilm_model import exp
from tests import oracle
from tests.compare import assert_close
from tests.conftest import Reads, as_on_a_gpu
from tests.plugin.models.running_text import (
    IGNORE,
    OPTIONS,
    TEXT,
    batch,
    language_model,
    log_probabilities,
    windows,
)
from tests.random_bilm import CHAR_CNN, LSTM, arrays_of, oracle_state

N_STEPS = 4


def n_tokens(window: dict[str, torch.Tensor]) -> int:
    return int((window["forward_targets"] != IGNORE).sum())


@pytest.mark.parametrize("initial_state", ["zero", "warm", "carry"])
def test_windows_are_the_oracles_running_text(initial_state, tmp_path):
    """The oracle reads each row from its first word to its last, step by step. Compared are every
    window's loss, and perplexities that weigh each token the same over windows of unequal numbers
    of tokens. A row starts from the warm state or from zeros. The text is read twice, as `starts`
    says."""
    model = language_model(initial_state=initial_state).eval()
    arrays = arrays_of(model.bilm, tmp_path, model.softmax)
    start = oracle.zero_state(OPTIONS)
    if initial_state == "warm":
        start = oracle_state(model.bilm.warm_state(1), 0)
    rows = [log_probabilities(arrays, OPTIONS, row, start)[0] for row in TEXT]
    for _ in range(2):
        for k, window in enumerate(windows(TEXT, N_STEPS)):
            losses = [-p[d][k * N_STEPS : (k + 1) * N_STEPS] for p in rows for d in (0, 1)]
            found = model(**batch(window))["loss"]
            expected = np.concatenate(losses).mean()
            assert_close(found, expected, atol=1e-10, what=f"loss of window {k}")
    metrics = model.get_metrics(reset=True)
    forward, backward = (np.concatenate([p[d] for p in rows]) for d in (0, 1))
    expected_metrics = {
        "perplexity": np.exp(-np.concatenate([forward, backward]).mean()),
        "forward_perplexity": np.exp(-forward.mean()),
        "backward_perplexity": np.exp(-backward.mean()),
    }
    assert metrics.keys() == expected_metrics.keys()
    for name, expected in expected_metrics.items():
        assert_close(metrics[name], expected, atol=0, rtol=1e-6, what=name)


@pytest.mark.parametrize("is_sampled", [False, True])
def test_a_training_step_reads_once(is_sampled, monkeypatch):
    """By definition: the number of tokens, the loss and the metrics are read from a GPU together.
    The CPU stands in for it."""
    as_on_a_gpu(monkeypatch)
    model = language_model(n_negative_samples=5 if is_sampled else None)
    window = batch(windows(TEXT, N_STEPS)[0])
    if not is_sampled:  # PyTorch's operators for a GPU choose the rows with a prediction
        monkeypatch.setattr(model.softmax, "forward", lambda h, _: h.sum())
    # What the metrics add up has been read.
    monkeypatch.setattr(bilm_model.TokenAverage, "__call__", lambda *_: None)
    with Reads() as reads:
        model(**window)["loss"].backward()
    assert reads.names == ["tolist"]


def test_gradient_is_that_of_the_loss_times_tokens_a_row():
    """The expected slope is that of the reported loss, by differences along a random direction,
    times 8 tokens over 3 rows, one of which has ended. bilm-tf multiplies by the window's length,
    which is the same if rows are full."""
    model = language_model()
    for n_rows, window in ((3, windows(TEXT, N_STEPS)[1]), (2, windows(TEXT[:2], N_STEPS)[0])):
        window["starts"][:] = True
        model.zero_grad()
        model(**batch(window))["loss"].backward()
        parameters = list(model.parameters())
        direction = [torch.randn_like(parameter) for parameter in parameters]
        direction[0][0] = 0  # "no word"
        losses = []
        for step in (1e-6, -2e-6):
            with torch.no_grad():
                for parameter, d in zip(parameters, direction):
                    parameter.add_(d, alpha=step)
                losses.append(model(**batch(window))["loss"].item())
        with torch.no_grad():
            for parameter, d in zip(parameters, direction):
                parameter.add_(d, alpha=1e-6)
        slope = (losses[0] - losses[1]) / 2e-6
        found = sum((p.grad * d).sum() for p, d in zip(parameters, direction))
        assert_close(found, slope * 8 / n_rows, atol=0, rtol=1e-5, what=f"{n_rows} rows")


def test_evaluation_in_between_leaves_training_as_it_was():
    """The losses of a training run are bit-identical with and without an evaluation in the middle.
    The state of evaluation is not that of training."""
    first, second, *_ = windows(TEXT, N_STEPS)
    losses, evaluated = [], []
    for evaluate in (False, True):
        model = language_model(initial_state="warm")
        model(**batch(first))
        warm = copy.deepcopy(model.bilm.warm_state.state_dict())
        if evaluate:
            for window in windows(TEXT[::-1][:2], N_STEPS):
                evaluated.append(model.eval()(**batch(window))["loss"])
        assert all(map(torch.equal, warm.values(), model.bilm.warm_state.state_dict().values()))
        losses.append(model.train()(**batch(second))["loss"])
    assert torch.equal(*losses)
    alone = language_model(initial_state="warm")
    alone.bilm.warm_state.load_state_dict(warm)
    expected = [
        alone.eval()(**batch(window))["loss"] for window in windows(TEXT[::-1][:2], N_STEPS)
    ]
    assert all(map(torch.equal, evaluated, expected))


def test_resume_is_exact():
    """Another process that loads the weights and `resume_state` continues with a bit-identical loss
    if dropout and samples are drawn from the same seed. Without `resume_state` the loss differs.
    The loaded dictionaries do not change."""
    first, second, third, _ = windows(TEXT, N_STEPS)
    config = {"initial_state": "warm", "dropout": 0.3, "n_negative_samples": 4}
    model = language_model(**config)
    assert model.resume_state() == {}
    model(**batch(first))
    model(**batch(second))
    weights = copy.deepcopy(model.state_dict())
    rows = copy.deepcopy(model.resume_state())
    losses = []
    for resumed, saved in (
        (model, None),
        (language_model(**config, seed=1), {**weights, "resume_state": rows}),
        (language_model(**config, seed=1), weights),
    ):
        if saved:
            resumed.load_state_dict(saved)
        torch.manual_seed(5)
        losses.append(resumed(**batch(third))["loss"])
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])
    assert all(map(torch.equal, weights.values(), saved.values()))


def test_row_states_move_with_the_weights():
    """By the definition of `Module.to`, a window after it is read from the states before it."""
    model = language_model(dropout=0.0).train()
    reference = language_model(dropout=0.0).train().double()
    for window in windows(TEXT, N_STEPS)[:2]:
        loss, expected = model(**batch(window))["loss"], reference(**batch(window))["loss"]
        model = model.double()
    assert loss.dtype == torch.float64
    assert_close(loss, expected, atol=1e-6, what="loss")


def test_warm_state_is_the_mean_at_the_starts_of_sentences(tmp_path):
    """The expected mean is over the oracle's states after those sentences of each row that end with
    a window, except the row's last one, because no sentence follows it. These are sentences 0 and 1
    of the first row, and 1 and 2 of the second."""
    model = language_model(initial_state="warm")
    start = oracle_state(model.bilm.bilstm.zero_state(1), 0)  # where training starts
    arrays = arrays_of(model.bilm, tmp_path, model.softmax)
    for window in windows(TEXT, 2):
        model(**batch(window))
    states = [
        log_probabilities(arrays, OPTIONS, TEXT[row][: sentence + 1], start)[1]
        for row, sentence in ((0, 0), (0, 1), (1, 1), (1, 2))
    ]
    assert model.bilm.warm_state.count == len(states)
    for key, found in oracle_state(model.bilm.warm_state(1), 0).items():
        for name, x, seen in zip("ch", found, zip(*(state[key] for state in states))):
            assert_close(x, np.mean(seen, axis=0), atol=1e-7, what=f"{name} {key}")


def test_dropout_on_the_last_output():
    """If dropout removes everything, only the softmax's bias predicts."""
    model = language_model()
    model.dropout.p = 1.0
    window = windows(TEXT, N_STEPS)[0]
    log_p = torch.log_softmax(model.softmax.bias, dim=0)
    targets = torch.cat([window["forward_targets"], window["backward_targets"]])
    expected = -log_p[targets[targets != IGNORE]].mean()
    assert_close(model(**batch(window))["loss"], expected, atol=1e-10, what="loss")


@pytest.mark.parametrize("n_negative_samples", [None, 4])
def test_a_window_without_any_target_costs_nothing(n_negative_samples):
    """The loss is 0, the gradient is zeros without NaN, and the metrics do not change."""
    model = language_model(n_negative_samples=n_negative_samples)
    window, empty = windows(TEXT, N_STEPS)[:2]
    for direction in ("forward", "backward"):
        empty[f"{direction}_targets"] = torch.full_like(empty[f"{direction}_targets"], IGNORE)
    torch.manual_seed(5)
    model(**batch(window))
    expected = model.get_metrics(reset=True)
    model.zero_grad()
    loss = model(**batch(empty))["loss"]
    loss.backward()
    assert loss.item() == 0.0
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or not parameter.grad.any(), name
    torch.manual_seed(5)
    model(**batch(window))
    assert model.get_metrics() == expected


def test_sampled_loss_is_not_a_perplexity():
    """Training with samples reports only `sampled_loss`, the mean of both directions over all
    tokens. Perplexities come only from evaluation, and `reset` clears the metrics."""
    model = language_model(n_negative_samples=4)
    text = windows(TEXT, N_STEPS)
    losses = [model(**batch(window))["loss"].item() for window in text]
    counts = [n_tokens(window) for window in text]
    assert len(set(counts)) > 1
    expected = np.average(losses, weights=counts)
    assert model.get_metrics(reset=True) == {"sampled_loss": pytest.approx(expected, rel=1e-6)}
    model(**batch(text[0]))
    assert model.get_metrics() == {"sampled_loss": pytest.approx(losses[0], rel=0.5)}
    model.eval()(**batch(text[0]))
    assert set(model.get_metrics()) == {"perplexity", "forward_perplexity", "backward_perplexity"}


def test_a_perplexity_of_no_number_is_none():
    """NaN, as IEEE 754 has the exponential of NaN, so that it is not taken for a result."""
    assert math.isnan(exp(math.nan))


def test_memory_can_be_made_anew():
    """PyTorch's `to_empty`, by which a model is made without memory first, as any module can."""
    model = language_model().to("meta").to_empty(device="cpu")
    assert {x.device.type for x in (*model.parameters(), *model.buffers())} == {"cpu"}


def test_a_perplexity_beyond_numbers_is_infinite():
    """The exponential of more than a float can hold is infinite, and nothing is raised."""
    model = language_model().eval()
    with torch.no_grad():
        model.softmax.bias[0] = 1e6
    model(**batch(windows(TEXT, N_STEPS)[0]))
    assert model.get_metrics()["forward_perplexity"] == math.inf


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"lstm": {**LSTM, "dims": 3}}, "model: lstm: unknown key dims"),
        ({"n_negative_sample": 3}, "Extra parameters .*n_negative_sample"),
        (
            {
                "sparse_gradients": True,
                "n_negative_samples": 3,
                "regularizer": {"regexes": [[".*weight", {"type": "l2"}]]},
            },
            r"regularizer: expected no pattern for softmax\.weight with sparse_gradients",
        ),
        ({"initial_state": "cold"}, "initial_state: expected one of 'carry', 'zero', 'warm'"),
        ({"n_negative_samples": 0}, "n_negative_samples: .* from 1 to .*, found 0"),
        ({"vocab": Vocabulary()}, 'vocabulary, namespace "words": .* vocabulary of type "bilm"'),
        ({"char_cnn": {**CHAR_CNN, "filters": 3}}, "model: char_cnn.filters: expected .* found 3"),
    ],
)
def test_errors_in_a_config_are_named(params, message):
    """The message names the key, what was expected and what was found."""
    with pytest.raises((InputError, ConfigurationError), match=message):
        language_model(**params)


def test_a_vocabulary_that_was_extended_is_refused():
    """`model: { type: 'from_archive' }` adds the words of a new text, which have no rows."""
    model = language_model()
    model.extend_embedder_vocab()
    model.vocab.add_token_to_namespace("new", "words")
    with pytest.raises(InputError, match=r"expected the 10 words of the archive, found 11; .*file"):
        model.extend_embedder_vocab()
