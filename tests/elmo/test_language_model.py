"""`LanguageModel`, compared with the oracle in NumPy, which reads each sentence alone."""

import itertools
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest
import torch
from allennlp.models import load_archive

from elmo_plugin import LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.corpora.score_table import score_columns
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.modules import SampledSoftmax
from elmo_plugin.ops.softmax import torch_ops
from tests import conftest, oracle
from tests.conftest import BiLMFiles, allennlp
from tests.random_bilm import arrays_of, oracle_state, random_bilm, randomize

WORDS = ["<S>", "</S>", "<UNK>", "the", "dog", "ran", "."]
SENTENCES = [["the", "dog", "ran", "."], ["dog"], ["the", "犬", "ran", "zyx", "the"], [], ["."]]


def language_model(**settings: str) -> LanguageModel:
    bilm = random_bilm().bilm
    bilm.warm_up()
    softmax = SampledSoftmax(n_words=len(WORDS), dim=5, n_negative_samples=None)
    randomize(softmax)
    return LanguageModel(bilm, softmax, WORDS, **settings)


def distributions(
    model: LanguageModel, folder: Path, sentence: list[str], state: oracle.State
) -> tuple[list[np.ndarray], oracle.State]:
    """The oracle's log probabilities of all words in both directions, each of shape `(n + 1, V)`,
    and the state after the sentence."""
    arrays = arrays_of(model.bilm, folder, model.softmax)
    tokens = ["<S>", *sentence, "</S>"]
    return oracle.distributions(arrays, random_bilm().options, tokens, state)


def start(model: LanguageModel) -> oracle.State:
    bilm = model.bilm
    return oracle_state(bilm.initial_state(model.initial_state, 1), 0)


@pytest.mark.parametrize(
    "initial_state, base, chunk", [("zero", 2, 15), ("warm", "e", 2**24), ("warm", 2, 2**24)]
)
def test_scores_are_the_oracles(initial_state, base, chunk, tmp_path, lstm_path, monkeypatch):
    """The oracle's log probabilities and entropies, in the base that is named, and the ranks among
    those of all words. A word that the softmax lacks has the probability of `<UNK>`. Chunks have
    one row or all."""
    monkeypatch.setattr("elmo_plugin.modules.sampled_softmax.CHUNK_NUMBERS", chunk)
    model = language_model(initial_state=initial_state)
    scale = math.log(2) if base == 2 else 1
    scores = model.score(SENTENCES, True, base, rank=True, max_tokens=12)
    for found, sentence in zip(scores, SENTENCES, strict=True):
        ids = [WORDS.index(w) if w in WORDS else 2 for w in sentence]
        of_all, _ = distributions(model, tmp_path, sentence, start(model))
        for name, log_p, targets in zip(
            ("forward", "backward"), of_all, ([*ids, 1], [0, *ids]), strict=True
        ):
            own = log_p[np.arange(len(targets)), targets]
            np.testing.assert_allclose(getattr(found, name), own / scale, atol=1e-6, rtol=1e-6)
            entropy = -(np.exp(log_p) * log_p).sum(axis=1) / scale
            of_entropy = getattr(found, f"{name}_entropy")
            np.testing.assert_allclose(of_entropy, entropy, atol=1e-6, rtol=1e-6)
            ranks = (log_p > own[:, None]).sum(axis=1) + 1
            assert getattr(found, f"{name}_rank").tolist() == ranks.tolist()
            if name == "forward":
                bits = -own[:-1] / np.log(2)
                np.testing.assert_allclose(found.surprisal, bits, rtol=1e-5, atol=1e-6)
        assert found.tokens == sentence
        assert found.in_vocabulary.tolist() == [w in WORDS for w in sentence]


def test_a_precision(native_bf16: None) -> None:
    """Property: bf16 has 8 bits, so that the scores are nearly those in fp32, and weights in
    float64 give the same."""
    exact, rounded = (language_model(precision=x).score(SENTENCES[0]) for x in ("fp32", "bf16"))
    assert not np.array_equal(exact.forward, rounded.forward)
    np.testing.assert_allclose(rounded.forward, exact.forward, rtol=0.05)
    double = language_model().double().score(SENTENCES[0])
    np.testing.assert_allclose(double.backward, exact.backward, rtol=1e-5)


def test_carry_continues_from_the_row_above(tmp_path: Path, monkeypatch) -> None:
    """The oracle reads the two sentences one after another; substitutes change no state, whatever
    happens in the call."""
    model = language_model(initial_state="carry")
    state = oracle.zero_state(random_bilm().options)
    for sentence in SENTENCES[:1], SENTENCES[2:3]:
        (log_p, _), after = distributions(model, tmp_path, sentence[0], state)
        model.substitutes(sentence)
        [found] = model.score(sentence, base="e")
        assert found.forward[-1] == pytest.approx(log_p[-1, 1], rel=1e-5)
        state = after
    before = model.carried.state
    monkeypatch.setattr(model.softmax, "logits", None)
    with pytest.raises(TypeError):
        model.substitutes(SENTENCES[2])
    assert model.carried.state is before


def test_a_blank_line_under_carry() -> None:
    """By definition: it is no sentence, so the perplexity is that of the text without it."""
    with_blank, without = (language_model(initial_state="carry") for _ in range(2))
    for one, other in itertools.pairwise(SENTENCES):
        assert with_blank.perplexity([one, [], other]) == without.perplexity([one, other])


def test_the_table_has_a_row_for_each_word() -> None:
    """By hand: a word's own two log probabilities, without the end and the beginning."""
    model = language_model()
    scores = model.score(SENTENCES, entropy=True)
    table = pandas.DataFrame(score_columns(scores, range(10, 15)))
    assert table.token.tolist() == list(itertools.chain.from_iterable(SENTENCES))
    row = table[(table.sentence == 12) & (table.position == 1)].iloc[0]
    assert row.token == "犬" and not row.in_vocabulary
    for name in ("forward", "backward", "forward_entropy", "backward_entropy"):
        assert row[name] == getattr(scores[2], name)[1 + name.startswith("backward")]
    assert list(score_columns(model.score("the dog")))[-2:] == ["backward", "surprisal"]
    # Labels that are repeated are those of two DataFrames in one. A DataFrame would give the names
    # of its columns, a set has no order, and lists cannot be compared.
    for labels in ([7], [0, 1, 0, 1, 2], range(9), 1, "12345", table.T[:5], {*range(5)}, [[7]] * 5):
        with pytest.raises(InputError, match=r"^numbers: expected 5 different labels"):
            score_columns(scores, labels)  # type: ignore[arg-type]
    # Log probabilities of two bases would be one column.
    for other in {"base": "e"}, {"rank": True}:
        with pytest.raises(InputError, match=r"^scores: expected the same base"):
            score_columns([*model.score(SENTENCES[:1]), *model.score(SENTENCES[1:], **other)])


def test_labels_of_arrow() -> None:
    """By definition: labels are numbers, which compare and join, and not scalars of Arrow."""
    scores = language_model().score(SENTENCES[:2])
    labels = pytest.importorskip("pyarrow").array([5, 6])
    assert score_columns(scores, labels) == score_columns(scores, [5, 6])


def test_the_numbers_of_evaluate(bilm_archive: str, tmp_path: Path) -> None:
    """The expected perplexities are those of `allennlp evaluate`, and the log probabilities those
    of the model that it evaluates, which computes with the modules and not the frozen biLM. A blank
    line is no sentence."""
    sentences = ["he threw the stick to the dog .", "He", "the unheard-of dog ."]
    (tmp_path / "text").write_text("\n\n".join(sentences))
    loader = {"validation_data_loader": {"type": "multiprocess", "batch_size": 2}}
    arguments = ["--output-file", tmp_path / "metrics", "-o", json.dumps(loader)]
    allennlp("evaluate", bilm_archive, tmp_path / "text", *arguments)
    model = LanguageModel.from_archive(bilm_archive)
    batch = [s.split() for s in sentences]
    metrics = json.loads((tmp_path / "metrics").read_text())
    for name, value in model.perplexity([*batch, []]).items():
        assert value == pytest.approx(metrics[name], rel=1e-6)
    archive = load_archive(bilm_archive)
    instances = [*archive.validation_dataset_reader.read(tmp_path / "text")]
    outputs = archive.model.eval().forward_on_instances(instances)
    for found, output in zip(model.score(batch, base="e"), outputs, strict=True):
        assert found.in_vocabulary.tolist() == [word in conftest.WORDS for word in output["tokens"]]
        for name in ("forward", "backward"):
            expected = output[f"{name}_log_probabilities"]
            np.testing.assert_allclose(getattr(found, name), expected, rtol=1e-6)


def test_substitutes_are_the_oracles(tmp_path: Path) -> None:
    """Expected: the oracle's distributions at a place, times each other and divided by the
    log-uniform distribution of ranks for both directions, over the words of the softmax without
    the boundaries and `<UNK>`."""
    model, sentence = language_model(), SENTENCES[2]
    (forward, backward), _ = distributions(model, tmp_path, sentence, start(model))
    ranks = np.arange(len(WORDS))
    prior = np.log(np.log((ranks + 2) / (ranks + 1)))
    for place in range(len(sentence)):
        scores = {
            "forward": forward[place],
            "backward": backward[place + 1],
            "both": forward[place] + backward[place + 1] - prior,
        }
        for direction, log_p in scores.items():
            p = np.exp(log_p[3:]) / np.exp(log_p[3:]).sum()
            found = model.substitutes(sentence, place, k=3, direction=direction)
            assert [x.word for x in found] == [WORDS[3 + i] for i in (-p).argsort()[:3]]
            np.testing.assert_allclose([x.probability for x in found], -np.sort(-p)[:3], rtol=1e-4)
    assert sum(x.probability for x in model.substitutes(sentence, 0, k=50)) == pytest.approx(1)


def test_substitutes_of_chosen_places(monkeypatch: pytest.MonkeyPatch) -> None:
    """Property: those of all places of each sentence alone, also if one is computed at a time."""
    model = language_model()
    everywhere = model.substitutes(SENTENCES, k=2)
    assert [len(x) for x in everywhere] == [len(s) for s in SENTENCES]
    targets = [[3, 1], [], [4], [], [0]]
    monkeypatch.setattr("elmo_plugin.elmo.language_model.CHUNK_NUMBERS", 1)
    expected = [[[x.word for x in e[i]] for i in t] for e, t in zip(everywhere, targets)]
    for given in (targets, pandas.Series(targets), map(iter, targets)):
        found = model.substitutes(SENTENCES, given, k=2)
        words = [[[x.word for x in place] for place in of_sentence] for of_sentence in found]
        assert words == expected
    assert model.substitutes(SENTENCES[0], pandas.Series([3, 1]), k=2) == found[0]
    nothing: list[Any] = [[], [], [], []]
    for wrong in ([[0]], [0] * 5, [[4], *nothing], [[-1], *nothing], "01234"):
        with pytest.raises(InputError, match=r"^targets"):
            model.substitutes(SENTENCES, wrong)
    with pytest.raises(InputError, match=r"^direction: expected one of 'both'"):
        model.substitutes(SENTENCES, direction="left")


@pytest.mark.parametrize(
    "dtype, top, atol",
    [(torch.float32, 60, 1e-5), (torch.float16, 40, 0.05), (torch.bfloat16, 40, 0.05)],
)
def test_many_words_are_read_in_blocks(dtype, top, atol, monkeypatch):
    """Expected: PyTorch's `log_softmax` of all words at once in float64, within the rounding of the
    type. Blocks have three rows and 17 words, and the largest logits come late; in half precision
    beside the least number of float16, -65504."""
    monkeypatch.setattr(torch_ops, "BLOCK_NUMBERS", 51)
    monkeypatch.setattr(torch_ops, "isqrt", lambda _: 3)
    torch.manual_seed(0)
    arguments = torch.randn(10, 8), torch.randn(100, 8), torch.linspace(-top, top, 100)
    hidden, weight, bias = (x.to(dtype) for x in arguments)
    logits = hidden.double() @ weight.double().T + bias.double()
    log_p = logits.log_softmax(dim=1)
    found = torch_ops.log_normalizers_and_entropies(hidden, weight, bias)
    for x, y in zip(found, (logits.logsumexp(dim=1), -(log_p.exp() * log_p).sum(dim=1))):
        assert x.dtype == dtype
        torch.testing.assert_close(x.double(), y, rtol=atol, atol=atol)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_digest_in_half_precision(dtype: torch.dtype) -> None:
    """By definition: it is the same for the same weights and words, and another for others."""
    model = language_model().to(dtype)
    before = model.fingerprint()
    assert model.fingerprint() == before
    for x in (model.softmax.bias, model.softmax.weight):
        x.data[3] += 1
        assert model.fingerprint() != before
        before = model.fingerprint()
    model.words[3:5] = model.words[4:2:-1]
    assert model.fingerprint() != before


def test_loading(bilm_files: BiLMFiles, tmp_path: Path) -> None:
    """Expected: the same scores from bilm-tf's files as from the modules that wrote them. A biLM
    without a softmax is named."""
    model = language_model()
    write_model_files(tmp_path, model.bilm, softmax=model.softmax, words=WORDS)
    files = [tmp_path / name for name in ("options.json", "weights.hdf5", "vocabulary.txt")]
    expected = model.score(SENTENCES[0]).forward
    for loaded in (LanguageModel.from_files(*files), LanguageModel.from_archive(tmp_path)):
        np.testing.assert_allclose(loaded.score(SENTENCES[0]).forward, expected, rtol=1e-6)
    with pytest.raises(InputError, match=r"expected a softmax, of the words in .*, found none"):
        LanguageModel.from_files(*bilm_files, files[2])
    with pytest.raises(InputError, match=r"^.*: expected the softmax of a language model and its "):
        LanguageModel.from_archive(Path(bilm_files.weight_file).parent)
    with pytest.raises(InputError, match=r"^words: expected <S>, </S>, <UNK>, .., 7 in total"):
        LanguageModel(model.bilm, model.softmax, WORDS[:-1])
