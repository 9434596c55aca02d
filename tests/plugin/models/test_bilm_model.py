"""These tests run the language model on windows of running text and on batches of sentences."""

import json
import math
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Batch, Instance, Vocabulary

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.models import bilm_model
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.text.characters import words_to_characters
from tests import oracle
from tests.as_on_a_gpu import as_on_a_gpu
from tests.compare import assert_close
from tests.conftest import WORDS, Reads, allennlp
from tests.plugin.models.running_text import (
    IGNORE,
    OPTIONS,
    TEXT,
    UNHEARD_OF,
    batch,
    language_model,
    log_probabilities,
    windows,
)
from tests.random_bilm import CHAR_CNN, LSTM, arrays_of, oracle_state

N_STEPS = 4
SENTENCES = [*TEXT[0], [], *TEXT[1]]
READER = BiLMDatasetReader(max_characters_per_token=CHAR_CNN["max_characters_per_token"])


def oracle_of(initial_state: str, folder: Path) -> tuple[BiLMModel, oracle.Arrays, oracle.State]:
    """A model in evaluation mode, its weights for the oracle, and the state in which it starts."""
    model = language_model(initial_state=initial_state).eval()
    start = oracle.zero_state(OPTIONS)
    if initial_state == "warm":
        start = oracle_state(model.bilm.warm_state(1), 0)
    return model, arrays_of(model.bilm, folder, model.softmax), start


def check_perplexities(model: BiLMModel, rows: list[list[np.ndarray]]) -> None:
    """Compare the metrics with the mean of all tokens' log probabilities, forwards and
    backwards."""
    forward, backward = (np.concatenate(log_p) for log_p in zip(*rows))
    both = np.concatenate([forward, backward])
    metrics = model.get_metrics(reset=True)
    for name, log_p in (("", both), ("forward_", forward), ("backward_", backward)):
        found = metrics.pop(f"{name}perplexity")
        assert_close(found, np.exp(-log_p.mean()), atol=0, rtol=1e-6, what=name)
    assert not metrics


@pytest.mark.parametrize("initial_state", ["zero", "warm", "carry"])
def test_windows_are_the_oracles_running_text(initial_state, tmp_path):
    """The oracle reads each row from its first word to its last, step by step. Compared are every
    window's loss, and perplexities that weigh each token the same over windows of unequal numbers
    of tokens. A row starts from the warm state or from zeros. The text is read twice, as `starts`
    says."""
    model, arrays, start = oracle_of(initial_state, tmp_path)
    rows = [log_probabilities(arrays, OPTIONS, row, start)[0] for row in TEXT]
    for _ in range(2):
        for k, window in enumerate(windows(TEXT, N_STEPS)):
            losses = [-p[d][k * N_STEPS : (k + 1) * N_STEPS] for p in rows for d in (0, 1)]
            found = model(**batch(window))["loss"]
            expected = np.concatenate(losses).mean()
            assert_close(found, expected, atol=1e-10, what=f"loss of window {k}")
    check_perplexities(model, rows)


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
    monkeypatch.setattr(bilm_model.TokenAverage, "__call__", lambda *_: 1.0)
    with Reads() as reads:
        model(**window)["loss"].backward()
    assert reads.names == ["tolist"]


@pytest.mark.parametrize(("rows", "k"), [(TEXT, 1), (TEXT[:2], 0)])
def test_gradient_is_that_of_the_loss_times_tokens_a_row(rows, k):
    """The expected slope is that of the reported loss, by differences along a random direction,
    times 8 tokens over 3 rows, one of which has ended, or 2. bilm-tf multiplies by the window's
    length, which is the same if rows are full."""
    model, window = language_model(), windows(rows, N_STEPS)[k]
    window["starts"][:] = True
    model(**batch(window))["loss"].backward()
    parameters = list(model.parameters())
    direction = [torch.randn_like(parameter) for parameter in parameters]
    direction[0][0] = 0  # "no word"
    found = sum((p.grad * d).sum() for p, d in zip(parameters, direction))
    losses = []
    for step in (1e-6, -2e-6):
        with torch.no_grad():
            for parameter, d in zip(parameters, direction):
                parameter.add_(d, alpha=step)
            losses.append(model(**batch(window))["loss"].item())
    slope = (losses[0] - losses[1]) / 2e-6
    assert_close(found, slope * 8 / len(rows), atol=0, rtol=1e-5, what="slope")


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
        empty[f"{direction}_targets"].fill_(IGNORE)
    model(**batch(window))
    expected = model.get_metrics()
    model.zero_grad()
    loss = model(**batch(empty))["loss"]
    loss.backward()
    assert loss.item() == 0.0
    assert not [name for name, x in model.named_parameters() if x.grad is not None and x.grad.any()]
    assert model.get_metrics() == expected


def test_sampled_loss_is_not_a_perplexity():
    """Training with samples reports only `sampled_loss`, the mean of both directions over all
    tokens. Perplexities come only from evaluation, and `reset` clears the metrics."""
    model = language_model(n_negative_samples=4)
    text = windows(TEXT, N_STEPS)
    losses = [model(**batch(window))["loss"].item() for window in text]
    counts = [int((window["forward_targets"] != IGNORE).sum()) for window in text]
    assert len(set(counts)) > 1
    expected = np.average(losses, weights=counts)
    assert model.get_metrics(reset=True) == {"sampled_loss": pytest.approx(expected, rel=1e-6)}
    model(**batch(text[0]))
    assert model.get_metrics() == {"sampled_loss": pytest.approx(losses[0], rel=0.5)}
    few_words = language_model(n_negative_samples=8192)  # which need no samples
    for x in (model.eval(), few_words):
        x(**batch(text[0]))
        assert set(x.get_metrics()) == {"perplexity", "forward_perplexity", "backward_perplexity"}


def test_memory_can_be_made_anew():
    """PyTorch's `to_empty`, by which a model is made without memory first, as any module can."""
    model = language_model().to("meta").to_empty(device="cpu")
    assert {x.device.type for x in (*model.parameters(), *model.buffers())} == {"cpu"}


@pytest.mark.parametrize(
    ("bias", "is_number"), [(1e6, lambda x: x == math.inf), (math.nan, math.isnan)]
)
def test_perplexities_beyond_numbers(bias, is_number):
    """As IEEE 754 has the exponential of NaN and of more than a float can hold, so that it is not
    taken for a result, and nothing is raised."""
    model = language_model().eval()
    model.softmax.bias.data[0] = bias
    model(**batch(windows(TEXT, N_STEPS)[0]))
    assert is_number(model.get_metrics()["forward_perplexity"])


SPARSE = {"sparse_gradients": True, "n_negative_samples": 3}
L2 = {"regexes": [[".*weight", {"type": "l2"}]]}


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"lstm": {**LSTM, "dims": 3}}, "model: lstm: unknown key dims"),
        ({**SPARSE, "regularizer": L2}, r"regularizer: expected no pattern for softmax\.weight"),
        ({"words": {"dim": 3}}, "expected one of the blocks char_cnn and words"),
        ({"char_cnn": None}, "expected a block char_cnn or words"),
        ({"char_cnn": {**CHAR_CNN, "n_code_points": 7}}, "n_code_points: expected none"),
        ({**SPARSE, "n_negative_samples": None}, "sparse_gradients: expected n_negative_samples"),
        ({"vocab": Vocabulary()}, 'vocabulary, namespace "words": .* vocabulary of type "bilm"'),
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


def instances(sentences: list[list[str]]) -> list[Instance]:
    found = [READER.text_to_instance(sentence) for sentence in sentences]
    for instance in found:
        READER.apply_token_indexers(instance)
    return found


def batch_of(model: BiLMModel, sentences: list[list[str]]) -> dict[str, Any]:
    batch = Batch(instances(sentences))
    batch.index_instances(model.vocab)
    return batch.as_tensor_dict()


def check_row(output: dict[str, torch.Tensor], row: int, expected: list[np.ndarray]) -> None:
    """Compare a row with the oracle's log probabilities; backwards they are in the order of the
    text. After the sentence there are zeros."""
    n = len(expected[0])
    assert output["mask"][row].sum() == n and output["mask"][row, :n].all()
    for name, log_p in (("forward", expected[0]), ("backward", expected[1][::-1])):
        found = output[f"{name}_log_probabilities"][row]
        assert_close(found[:n], log_p, atol=1e-10, what=f"{name}, row {row}")
        assert not found[n:].any()


@pytest.mark.parametrize("initial_state", ["zero", "warm"])
def test_sentences_are_the_oracles(initial_state, tmp_path):
    """The oracle reads each sentence alone, step by step: `w_1 .. w_n </S>` forwards and, in the
    order of the text, `<S> w_1 .. w_n` backwards. The loss is the mean over both, and perplexities
    weigh each token the same over batches of 2, 3, 1 and 2 sentences. No tensor of the model
    changes."""
    model, arrays, start = oracle_of(initial_state, tmp_path)
    before = {name: x.clone() for name, x in model.state_dict().items()}
    expected = [log_probabilities(arrays, OPTIONS, [s], start)[0] for s in SENTENCES]
    for begin, end in ((0, 2), (2, 5), (5, 6), (6, 8)):
        output = model(**batch_of(model, SENTENCES[begin:end]))
        for row, log_p in enumerate(expected[begin:end]):
            check_row(output, row, log_p)
        loss = -np.concatenate([p for both in expected[begin:end] for p in both]).mean()
        assert_close(output["loss"], loss, atol=1e-10, what="loss")
    check_perplexities(model, expected)
    assert all(torch.equal(x, before[name]) for name, x in model.state_dict().items())


def test_carry_continues_from_the_row_above(tmp_path):
    """The oracle's state of each row is carried through batches of 3, 1, 2 and 3 sentences. Rows
    that are missing in a batch keep their state, and a new row starts from zeros."""
    model, arrays, start = oracle_of("carry", tmp_path)
    states = [start] * 4
    rest = iter([*SENTENCES, SENTENCES[0]])
    for n in (3, 1, 2, 3):
        sentences = [next(rest) for _ in range(n)]
        output = model(**batch_of(model, sentences))
        for row, sentence in enumerate(sentences):
            expected, _ = log_probabilities(arrays, OPTIONS, [sentence], states[row])
            check_row(output, row, expected)
            # The last boundary is read too, which windows of running text read at the beginning of
            # the next sentence.
            bounded = ["<S>", *sentence, "</S>"]
            _, states[row] = oracle.sentence(arrays, OPTIONS, bounded, states[row])


def test_human_readable_output():
    """AllenNLP's own method of prediction returns lists that are as long as each sentence with its
    end or its beginning."""
    model = language_model().eval()
    for sentence, output in zip(SENTENCES, model.forward_on_instances(instances(SENTENCES))):
        assert output["tokens"] == sentence and "mask" not in output
        for name in ("forward_log_probabilities", "backward_log_probabilities"):
            assert isinstance(output[name], list) and len(output[name]) == len(sentence) + 1
            assert max(output[name]) < 0


@pytest.mark.parametrize("kind", ["bilm", "multiprocess"])
def test_an_evaluation_writes_each_batch(bilm_archive, tmp_path, kind):
    """AllenNLP's file of predictions has a line for each of the batches, whose mean loss is that of
    the metrics."""
    (text := tmp_path / "text").write_text("the dog .\nhe threw the stick to the dog .\n. .\n")
    files = metrics, lines = tmp_path / "metrics", tmp_path / "lines"
    names = dict(zip(("--output-file", "--predictions-output-file"), files)).items()
    loader = json.dumps({"validation_data_loader": {"type": kind, "batch_size": 2}})
    allennlp("evaluate", bilm_archive, text, *chain(*names), "-o", loader)
    losses = [json.loads(line)["loss"] for line in lines.read_text().splitlines()]
    assert np.mean(losses) == pytest.approx(json.loads(metrics.read_text())["loss"])


def test_sentences_can_be_trained_on():
    """Training returns only a loss, whose gradient is that of the loss times the batch's tokens
    over its rows: 3 + 1 targets in 2 rows."""
    model = language_model()
    batch = batch_of(model, [["the", "dog"], []])
    output = model(**batch)
    assert set(output) == {"loss"}
    (found,) = torch.autograd.grad(output["loss"], model.softmax.bias)
    loss = model.eval()(**batch)["forward_log_probabilities"].sum()
    loss = -(loss + model(**batch)["backward_log_probabilities"].sum()) / (2 * 4)
    (expected,) = torch.autograd.grad(loss, model.softmax.bias)
    assert_close(found, expected * 4 / 2, atol=1e-12, what="gradient of the softmax's bias")


def test_an_evaluation_starts_afresh():
    """Under `carry` the same sentences have the same loss in each evaluation, which ends when the
    trainer asks for its metrics and resets them. Within one, a batch starts in the state after the
    batch before."""
    model = language_model(initial_state="carry").eval()
    losses = []
    for _ in range(2):
        losses.append([model(**batch_of(model, SENTENCES))["loss"].item() for _ in range(2)])
        model.get_metrics(reset=True)
    assert losses[0] == losses[1]
    assert losses[0][0] != losses[0][1]


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("kind", ["sentences", "windows"])
def test_words_of_another_length(kind, training):
    """The expected loss is that of words of the model's length. Words that were cut to fewer
    characters are an error, because the model would read others in their place; windows of words
    with fewer characters are one at once, before a longer word comes."""
    losses = []
    for length in (10, 12):
        model = language_model().train(training)
        losses.append(model(**_of_length(model, kind, length))["loss"].item())
    assert losses[0] == losses[1]
    message = r"up to 8 bytes.*cut to 3.*max_characters_per_token"
    if kind == "windows":
        message = "validation_dataset_reader: max_characters_per_token: expected at least 10, .* 5$"
    with pytest.raises(ValueError, match=message):
        model(**_of_length(model, kind, 5))


def _of_length(model: BiLMModel, kind: str, length: int) -> dict[str, Any]:
    """The inputs of a model with words of another number of characters, in the form of ids."""
    if kind == "windows":
        words = torch.from_numpy(words_to_characters([*WORDS, *UNHEARD_OF], length))
        return batch({**windows(TEXT, 5)[0], "words": words})
    inputs = batch_of(model, SENTENCES)
    rows = [torch.from_numpy(words_to_characters(words, length)) for words in SENTENCES]
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).long()
    inputs["source"]["elmo"]["elmo_tokens"] = tokens
    return inputs


def test_an_indexer_of_another_type():
    """The error names the key and what was found."""
    model = language_model()
    inputs = batch_of(model, SENTENCES) | {"source": {"elmo": {"tokens": None}}}
    with pytest.raises(InputError, match=r"token_indexers: .* found elmo, which gives tokens$"):
        model(**inputs)
