"""
Values as R passes them through reticulate: every number is a float, and a vector of length one is a
single value and not a list. Expected: the result of the same call with integers and lists.
"""

import ast
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pytest

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.corpora.controls import control_words
from elmo_plugin.corpora.meanings import changes, clusters, nearest
from elmo_plugin.elmo.scores import regions
from elmo_plugin.options import BiLMOptions
from tests.conftest import ROOT
from tests.random_bilm import CHAR_CNN, LSTM

TEXT = ["the dog ran .", "the cat saw the dog .", "A dog ran to the cat ."] * 4
OTHER = ["a cat ran to the dog .", "The dog saw a cat .", "dogs ran ."] * 5
TOKENS = [text.split() for text in TEXT]


@pytest.fixture(scope="module")
def models() -> dict[str, Any]:
    return {"elmo": Elmo.from_pretrained("tiny"), "model": LanguageModel.from_pretrained("tiny")}


def words_of(elmo: Elmo, **options: Any) -> Any:
    found = elmo.uses(TEXT, ["dog", "cat"], **options)
    return found, dict(found.attrs)


def random_uses() -> tuple[Any, Any]:
    random = np.random.default_rng(0)
    vectors = [random.normal(k, 1, (20, 6)) for k in (0.1, 0.3)]
    text = [f"dog {k}" for k in range(20)]
    return tuple(
        pandas.DataFrame({"word": "dog", "vector": list(x), "text": text, "position": 0})
        for x in vectors
    )


def options_of(number: Callable[[int], Any]) -> BiLMOptions:
    def with_numbers(block: Any) -> Any:
        if isinstance(block, dict):
            return {key: with_numbers(value) for key, value in block.items()}
        if isinstance(block, list):
            return list(map(with_numbers, block))
        return number(block) if type(block) is int else block

    return BiLMOptions.from_dict(with_numbers({"lstm": LSTM, "char_cnn": CHAR_CNN}), source="R")


CALLS: dict[str, Callable[..., Any]] = {
    "layer": lambda n, elmo, **_: elmo.embed(TOKENS, n(1), max_tokens=n(20)),
    "spans": lambda n, elmo, **_: elmo.embed_spans(
        TEXT[:2], [n(4), n(8)], [n(7), n(11)], n(2), max_tokens=n(9)
    ),
    "stream": lambda n, elmo, **_: list(elmo.stream(TEXT, n(0), max_tokens=n(20))),
    "mixes": lambda n, elmo, **_: (
        Elmo(elmo.bilm, num_output_representations=n(2)).num_output_representations
    ),
    "uses": lambda n, elmo, **_: words_of(elmo, layer=n(1), most=n(2), seed=n(7)),
    "documents": lambda n, model, **_: [
        x.forward for x in model.score(TOKENS[:3], documents=[n(1), n(1), n(2)], base=n(2))
    ],
    "perplexity": lambda n, model, **_: model.perplexity(TOKENS[:2], documents=[n(3), n(3)]),
    "base": lambda n, model, **_: model.score_continuations("the dog", ["ran"], base=n(2)),
    "one place": lambda n, model, **_: model.substitutes(TEXT[0], n(1), k=n(3)),
    "places of several": lambda n, model, **_: model.substitutes(TOKENS[:2], [[n(1)], [n(0)]]),
    "places": lambda n, model, **_: model.substitutes(TEXT[0], [n(1), n(3)], n(2)),
    "regions": lambda n, model, **_: regions(
        model.score(TEXT[:2], raw=True), [n(4), n(8)], [n(7), n(11)], after=n(1)
    ),
    "region": lambda n, model, **_: model.score(TEXT[0], raw=True).region(n(4), n(7)),
    "clusters": lambda n, **_: clusters(np.stack(random_uses()[0]["vector"]), n(3), seed=n(1)),
    "control words": lambda n, **_: control_words(TEXT, OTHER, ["dog"], n(2), seed=n(3)),
    "changes": lambda n, **_: changes(
        *random_uses(), n(2), n(5), permutations=n(30), min_uses=n(2)
    ),
    "nearest": lambda n, **_: nearest(random_uses()[0], np.ones(6), k=n(4)),
    "options": lambda n, **_: repr(options_of(n)),
}


def assert_equal(found: Any, expected: Any) -> None:
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for x, y in zip(found, expected):
            assert_equal(x, y)
    elif isinstance(expected, pandas.DataFrame):
        assert_equal(found.to_dict("list"), expected.to_dict("list"))
    elif isinstance(expected, dict):
        assert_equal(list(found.items()), list(expected.items()))
    else:
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("call", CALLS)
def test_whole_floats(models: dict[str, Any], call: str) -> None:
    """The numbers are bit-identical, also what a DataFrame says its vectors are from."""
    assert_equal(CALLS[call](float, **models), CALLS[call](int, **models))


def test_other_floats(models: dict[str, Any]) -> None:
    """By definition, the error has the name of the parameter."""
    for call in ("layer", "uses", "places", "regions", "control words", "changes", "nearest"):
        with pytest.raises(InputError, match=r"expected .*(whole|number).*, found .*\.5"):
            CALLS[call](lambda x: x + 0.5, **models)


def test_one_string(models: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    """A phrase is one continuation, and a word one of a list."""
    model, elmo = models["model"], models["elmo"]
    continuations = partial(model.score_continuations, unknown_missing=True)
    for prefixes in ("the dog", ["the", "dog"], pandas.Series(TEXT[:3])):
        for given in ("ran", "ran to the cat"):
            assert_equal(continuations(prefixes, given), continuations(prefixes, [given]))
    monkeypatch.chdir(tmp_path)
    for word in ("dog", "the dog"):
        found = elmo.uses(TEXT, word)
        assert len(found)
        assert_equal(found, elmo.uses(TEXT, [word]))
        assert control_words(TEXT, OTHER, word, 1) == control_words(TEXT, OTHER, [word], 1)


def test_a_string_that_is_a_file(models: dict[str, Any], tmp_path: Path, monkeypatch: Any) -> None:
    """By definition: a file of this name, and otherwise what may be the path of one, is not a word;
    nor is a string that the text lacks, because the name of a file may be misspelled."""
    uses = models["elmo"].uses
    monkeypatch.chdir(tmp_path)
    Path("dog").write_text("cat\n")
    Path("folder").mkdir()
    assert_equal(uses(TEXT, "dog"), uses(TEXT, ["cat"]))
    for name in ("words.txt", "./words", "~words", "C:\\words"):
        with pytest.raises(FileNotFoundError, match="expected a file of words, found no such"):
            uses(TEXT, name)
    for name in ("folder", "WORDS"):
        with pytest.raises(InputError, match=r"^words: expected a file of words, or a word of the"):
            uses(TEXT, name)
    assert len(uses(TEXT, ["WORDS"])) == 0


def test_the_result_of_a_check_is_used() -> None:
    """By definition: a check of a whole number returns it as an integer, which is used instead of
    what was given. Options that are checked a second time are integers already."""
    for file in (ROOT / "elmo_plugin").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
                call = ast.unparse(node.value)
                is_check = call.startswith(("check_count(", "optional_count(", "check_max_"))
                assert not is_check or "options." in call or "n_code_points" in call, (file, call)
