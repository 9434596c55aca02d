"""
Warnings of words that a model reads as others: words that it cuts, and words that none of its
vocabulary is. Each comes once for a call or for the run of a command.
"""

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from allennlp.data import Token, Vocabulary

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.commands import arguments as command_arguments
from elmo_plugin.commands import runner, score
from elmo_plugin.corpora import pairs
from elmo_plugin.corpora import uses as uses_module
from elmo_plugin.elmo import elmo as elmo_module
from elmo_plugin.formats.format import FoundBiLM
from elmo_plugin.modules import BiLM
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data import token_indexer
from elmo_plugin.text import advice as advice_module
from elmo_plugin.text import raw_text
from elmo_plugin.text.advice import Advice, advised
from elmo_plugin.text.advice_kinds import MANY_UNKNOWN
from elmo_plugin.text.characters import WordLimit, words_to_characters
from tests.conftest import ROOT, Said, write_file
from tests.formats.test_elmoformanylangs import write_model
from tests.random_bilm import LSTM, random_bilm

LONG = "അന്താരാഷ്ട്രവിമാന"
"""17 code points, each of three bytes: three more than the 48 bytes between a word's marks."""
TWINS = [f"{LONG}ത്താവളം", f"{LONG}ത്താവളത്തിൽ"]


@pytest.fixture
def elmo(bilm_archive: str) -> Elmo:
    return Elmo.from_archive(bilm_archive)


@pytest.fixture
def cut(said: Said) -> Callable[[], list[str]]:
    return lambda: [x for x in said() if "have equal vectors" in x]


@pytest.fixture
def unknown(said: Said) -> Callable[[], list[str]]:
    return lambda: [x for x in said() if "are unknown to the model" in x]


@pytest.mark.parametrize(
    "words",
    [
        TWINS,
        ["a" * 49, "a" * 50],
        ["a" * 48, "a" * 49],  # the first one is not cut
        ["a" * 47 + "b", "a" * 47 + "c"],
        ["a" * 47 + "ä", "a" * 47 + "ö"],  # their first bytes are equal
        ["a" * 99, "a" * 99],
        ["dog", "cat"],
    ],
)
def test_words_are_equal_if_a_warning_says_so(elmo: Elmo, words: list[str], cut: Any) -> None:
    """The oracle is whether the word vectors of two different words are equal."""
    one, other = elmo.embed([[word] for word in words], 0)
    messages = cut()
    assert len(messages) == (words[0] != words[1] and np.array_equal(one, other))
    assert all(repr(word) in x for word in words for x in messages)


@pytest.mark.parametrize("n", range(3, 9))
def test_code_points(tmp_path: Path, n: int, cut: Any) -> None:
    """As above, for an encoder that reads six code points, with and without a table of words."""
    for word_dim in (0, 4):
        elmo = Elmo.from_archive(write_model(tmp_path / f"{word_dim}", word_dim=word_dim))
        for ends, is_cut in ((("本", "🙂"), n >= 6), (("本", "本the"), n >= 5)):
            words = [["日" * n + end] for end in ends]
            one, other = elmo.embed(words, 0)
            assert is_cut == np.array_equal(one, other) == len(cut())


def test_every_call_warns_once(elmo: Elmo, model: LanguageModel, cut: Any, monkeypatch) -> None:
    """By definition: once in each call, however many batches it has, and also if the words are not
    in the same one."""
    monkeypatch.setattr(elmo_module, "PART_TOKENS", 1)
    monkeypatch.setattr(elmo_module, "PART_BATCHES", 1)
    sentences = [[TWINS[0]], ["a", "dog"], [TWINS[1]], TWINS]
    calls: list[Callable[[], Any]] = [
        lambda: elmo.embed(sentences),
        lambda: elmo.embed(sentences, max_tokens=1),
        lambda: elmo.characters(sentences),
        lambda: elmo.warm_up(sentences),
        lambda: list(elmo.stream(sentences, max_tokens=1)),
        lambda: elmo.uses(sentences, TWINS),
        lambda: model.score(sentences),
        lambda: model.perplexity(sentences),
        lambda: model.substitutes(sentences, k=1),
    ]
    for call in calls:
        for _ in range(2):
            call()
            [message] = cut()
            assert f"; {TWINS[0]!r} and {TWINS[1]!r} have equal vectors" in message
    stream = elmo.stream(sentences, max_tokens=1)
    next(stream)
    elmo.embed([[TWINS[1]]])  # a call between two parts of a stream is another call
    assert not cut()


def test_the_memory_is_bounded(monkeypatch: pytest.MonkeyPatch, cut: Any) -> None:
    """By definition: at most so many words are compared."""
    monkeypatch.setattr(advice_module, "MOST_LONG", 3)
    with advised() as advice:
        for number in range(1000, 1100):
            advice.of_cut_words([f"{number}....."], 1, WordLimit(4))
            assert len(advice._long) <= 3
    assert not cut()


def test_the_indexer(cut: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Components of AllenNLP read words in the token indexer: one warning in a process."""
    monkeypatch.setattr(token_indexer, "OF_PROCESS", Advice())
    indexer = token_indexer.ElmoTokenIndexer()
    for _ in range(2):
        for word in TWINS:
            indexer.tokens_to_indices([Token(word), Token("a")], Vocabulary())
    assert len(cut()) == 1


@pytest.mark.parametrize(
    "words, length",
    [
        (["internationally", "internationalize"], 50),
        (["interna", "internat", "interna"], 50),
        (["internal", "internat"], 12),
        (["iiiiiié", "iiiiiiè"], 11),
    ],
)
def test_fewer_characters_than_the_indexer(words: list[str], length: int, cut, monkeypatch) -> None:
    """The oracle is whether the vectors of two words are equal in a model that reads eight bytes.
    One warning in a process."""
    monkeypatch.setattr(elmo_module, "OF_PROCESS", Advice())
    elmo = Elmo(random_bilm().bilm, initial_state="zero", scalar_mix_parameters=[99, 0, 0])
    rows = torch.from_numpy(words_to_characters(words, length)).long()
    for _ in range(2):
        one, other, *_ = elmo(rows[None])["elmo_representations"][0][0].tolist()
    assert len(cut()) == (one == other)


FINNISH = (
    "Kaikki ihmiset syntyvät vapaina ja tasavertaisina arvoltaan ja oikeuksiltaan .",
    "Heille on annettu järki ja omatunto .",
)
ENGLISH = ("The nurse drank the cold water .", "Jocasta read the letter from Kaikki .")


@pytest.fixture(scope="module")
def small() -> LanguageModel:
    return LanguageModel.from_pretrained("small")


def with_words(words: list[str]) -> Elmo:
    """A model without characters."""
    options = BiLMOptions.from_dict({"lstm": LSTM, "words": {"dim": 5}}, source="test")
    bilm = BiLM(options.of_words(words)).eval()
    bilm.token_encoder.words.fill(words)
    return Elmo(bilm, initial_state="zero")


def test_text_that_the_model_does_not_know(small: LanguageModel, unknown: Any) -> None:
    """By definition: a warning above 30 %, the share of the page, with the share, which is counted
    by hand in the words of `small`, and three examples. It names `raw` only if it was not given.
    Ordinary English has a few unknown names."""
    for sentences in (FINNISH, [x.upper() for x in ENGLISH]):
        words = [word for sentence in sentences for word in sentence.split()]
        new = [word for word in words if word not in set(small.words)]
        examples = ", ".join(map(repr, list(dict.fromkeys(new))[:3]))
        share = f"{100 * len(new) / len(words):.1f} %"
        for call in (small.score, small.perplexity, lambda x: small.substitutes(x, k=1)):
            call([sentence.split() for sentence in sentences])
            [message] = unknown()
            assert message.startswith(f"{share} of {len(words)} words, such as {examples}, are unk")
            assert "language" in message and "raw" in message
    for sentence in ([x.split() for x in ENGLISH], "Jocasta Kaikki", [[]], []):
        small.score(sentence)
    assert not unknown()
    small.score(list(FINNISH), raw=True)
    [message] = unknown()
    assert "raw" not in message
    page = (ROOT / "docs/surprisal.md").read_text("utf-8")
    assert f"more than {100 * MANY_UNKNOWN:.0f} % of" in page


def test_text_that_was_not_split(small: LanguageModel, said: Said) -> None:
    """By definition: none for tokens or with `raw`; a hint for sentences with their last period."""

    def unsplit() -> list[str]:
        return [x for x in said() if "end in a word together with its punctuation" in x]

    small.score(["He threw the dog.", "the dog ."], raw=True)
    small.score([["He", "met", "Sgt.", "Jones", "."], ["the", "dog", "."], ["Calif."]])
    assert not unsplit()
    tokens = [["the", "dog."], ["It", "ran!"], ["the", "dog"]]
    for sentences in ("He threw the dog.", tokens, [["the", 'dog."'], ["He", "ran.)"]]):
        small.score(sentences)
        [message] = unsplit()
        assert "'dog." in message and "raw=True" in message


def test_raw_text_for_another_language(said: Said) -> None:
    """By definition: one warning with `raw` if less than half of the listed English words are among
    the first 500 words of a model, wherever these come from, and none without `raw`."""
    others = [f"w{k}" for k in range(600)]
    english = [*"<S> </S> <UNK>".split(), *raw_text.ENGLISH, *others]
    finnish = [*"<S> </S> <UNK>".split(), *others, *raw_text.ENGLISH]
    calls: list[Callable[[Elmo], Any]] = [
        lambda elmo: elmo.embed(["w1 w2", "w3 w4"], raw=True, max_tokens=1),
        lambda elmo: list(elmo.stream(["w1 w2"], raw=True)),
        lambda elmo: elmo.embed_spans(["w1 w2"], [0], [2], raw=True),
        lambda elmo: elmo.uses(["w1 w2"], ["w1"], raw=True),
    ]
    for words, n_warnings in ((english, 0), (finnish, 1), (finnish[:300], 0)):
        found = Elmo.from_found(FoundBiLM(random_bilm().bilm, words=words), initial_state="zero")
        for elmo in (with_words(words), found):
            for call in calls:
                call(elmo)
                assert sum("rules of English" in x for x in said()) == n_warnings
            elmo.embed("w1 w2")
            assert not any("rules of English" in x for x in said())


@pytest.mark.parametrize("command", ["elmo {}/text {}/out --all", "uses {}/text {}/words {}/out"])
def test_commands_of_another_language(tmp_path, command, caplog, monkeypatch):
    """By definition: as in Python, one warning with `--raw`."""
    words = ["<S>", "</S>", "<UNK>", *(f"w{k}" for k in range(600))]
    found = FoundBiLM(random_bilm().bilm, words=words)
    monkeypatch.setattr(command_arguments, "find_bilm", lambda _: found)
    for name, text in (("text", "w1 w2\n"), ("words", "w1\n")):
        write_file(tmp_path / name, text)
    name, *others = command.replace("{}", str(tmp_path)).split()
    assert not runner.run_program(name, [*others, "--raw", "--pretrained", "any"])
    assert sum("rules of English" in x for x in caplog.messages) == 1


def test_raw_text_for_our_models(said: Any) -> None:
    """By definition: none, because their words are English."""
    for name in ("tiny", "small", "medium"):
        LanguageModel.from_pretrained(name).score("It isn't easy.", raw=True)
    assert not said()


def test_a_table_of_words(unknown: Any) -> None:
    """Vectors too are those of one word if a model without characters lacks the words."""
    elmo = with_words(["<S>", "</S>", "<UNK>", "the", "dog", "."])
    elmo.embed("the dog of the cat .")
    assert not unknown()
    elmo.embed("the cat , the owl , the eel .")
    [message] = unknown()
    assert message.startswith("55.6 % of 9 words, such as 'cat', ',', 'owl', are unknown")


@pytest.mark.parametrize(
    "command, n_unknown",
    [
        ("score {}/text --format jsonl --output-file {}/out", 1),
        ("score --pairs {}/pairs", 1),
        ("uses {}/text {}/words {}/out", 0),  # of a model whose vectors need no vocabulary
    ],
)
def test_commands_warn_once_a_run(tmp_path, command, n_unknown, caplog, monkeypatch):
    """By definition: once, although the text is read in groups of two sentences."""
    for module in (score, pairs, uses_module):
        monkeypatch.setattr(module, "AT_ONCE", 2)
    lines = [json.dumps(dict(zip(("sentence_good", "sentence_bad"), x))) for x in (FINNISH, TWINS)]
    for name, rows in (("text", [*FINNISH, *TWINS] * 3), ("words", TWINS), ("pairs", lines * 2)):
        write_file(tmp_path / name, "\n".join(rows))
    arguments = command.replace("{}", str(tmp_path)).split()
    caplog.set_level(logging.WARNING)
    assert not runner.run_program(arguments[0], [*arguments[1:], "--pretrained", "small"])
    assert sum("are unknown to the model" in x for x in caplog.messages) == n_unknown
    assert sum("have equal vectors" in x for x in caplog.messages) == 1
