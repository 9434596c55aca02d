"""The command `uses`; tests/corpora/test_uses.py compares what it writes with an oracle."""

import os
from functools import partial
from pathlib import Path
from random import Random
from string import ascii_lowercase

import numpy as np
import pandas
import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.corpora.controls import control_words
from elmo_plugin.corpora.meanings import changes
from elmo_plugin.corpora.uses import read_uses
from tests.conftest import allennlp

uses = partial(allennlp, "uses")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "text").write_text("He threw the stick to the dog .\n\nDogs run .\nthe dog\n")
    (tmp_path / "words").write_text("dog\tdog Dogs\nstick\n")
    return tmp_path


@pytest.mark.usefixtures("native_bf16")
@pytest.mark.parametrize(
    "options", [(), ("--most", 1, "--seed", 3, "--layer", 1, "--precision", "bf16")]
)
def test_uses(folder, bilm_archive, options, capsys):
    """Expected: those of `Elmo.uses`, and by hand their number."""
    text, words = folder / "text", folder / "words"
    uses(text, words, folder / "out", "--archive-file", bilm_archive, *options)
    elmo = Elmo.from_archive(bilm_archive, precision="bf16" if options else "fp32")
    given = {"layer": 1, "most": 1, "seed": 3} if options else {"layer": "top"}
    expected = elmo.uses(text, words, **given)
    found = read_uses(folder / "out")
    assert found.astype(str).equals(expected.astype(str))
    assert len(found) == (2 if options else 4)
    assert f"out: {len(found)} uses\n" in capsys.readouterr().out


def test_words_without_uses(folder: Path, bilm_archive: str, capsys: pytest.CaptureFixture) -> None:
    """By hand: of raw text too, whose punctuation is not part of a word."""
    text, words, model = folder / "text", folder / "words", ("--archive-file", bilm_archive)
    text.write_text("A dog.\n")
    uses(text, words, folder / "o", "--raw", *model)
    assert "o: 1 uses; none of stick\n" in capsys.readouterr().out
    words.write_text("dog\nice cream\n")
    uses(text, words, folder / "p", "--raw", *model)
    hint = "'ice cream' is one phrase, as only tabs divide forms from it"
    assert f"p: 1 uses; none of ice cream; {hint}\n" in capsys.readouterr().out


@pytest.mark.parametrize("options", [(), ("--controls", 2, "--compared-with", "text")])
def test_the_words_are_a_file(folder, bilm_archive, options, monkeypatch):
    """By definition: in Python a string may be a word, but in the command it names a file, also
    one that is missing."""
    monkeypatch.chdir(folder)
    with pytest.raises(FileNotFoundError, match=r"^dog: expected a file of words, found no such"):
        uses("text", "dog", "out", "--archive-file", bilm_archive, *options)
    assert not (folder / "out").exists()


def test_controls(folder: Path, bilm_archive: str) -> None:
    """Expected: the words of `control_words`, in both directions the same, whose uses are those of
    a list of them. The uses of the listed words do not depend on them, and all words have ranks. A
    file says that it has control words, so that it is not compared with one that has others. In the
    texts, random words are more or less frequent, among them those of the list."""
    text, other, words = (folder / name for name in ("text", "other", "words"))
    random = Random(0)
    vocabulary = ["dog", "Dogs", "stick", ".", *(2 * x for x in ascii_lowercase[:16])]
    for file in (text, other):
        chosen = (random.choices(vocabulary, range(1, 21), k=7) for _ in range(60))
        file.write_text("\n".join(map(" ".join, chosen)) + "\n")
    options = "--archive-file", bilm_archive, "--most", 4, "--seed", 3
    first, second, alone, listed = (folder / name for name in "abcd")
    uses(text, words, first, "--controls", 3, "--compared-with", other, *options)
    uses(other, words, second, "--controls", 3, "--compared-with", text, *options)
    uses(text, words, alone, *options)
    controls = control_words(text, other, words, 3, 3)
    found = read_uses(first), read_uses(second)
    for uses_of_text in found:
        of = dict(zip(uses_of_text["word"], uses_of_text["control_of"]))
        expected = {word: word_of for word_of, own in controls.items() for word in own}
        assert of == {"dog": "", "stick": "", **expected} and len(of) == 8
    words.write_text("".join(f"{word}\n" for own in controls.values() for word in own))
    uses(text, words, listed, *options)
    is_control = found[0]["control_of"] != ""
    for file, which in ((alone, ~is_control), (listed, is_control)):
        own = found[0][which].reset_index(drop=True).assign(control_of="")
        assert own.astype(str).equals(read_uses(file).astype(str))
    ranks = changes(*found).set_index("word").loc[["dog", "stick"]]
    assert (ranks["controls"] == 3).all() and ranks["apd_control_p"].between(1 / 4, 1).all()
    assert found[0].attrs.keys() - read_uses(alone).attrs.keys() == {"control words"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layer", "3"], r"^--layer: expected top, average or .* found '3'$"),
        (["--controls", 2], "^--compared-with: expected a path, found null$"),
        (["--compared-with", "x"], "^--controls: expected a whole number from 1 .*, found null$"),
        (["--compared-with", "text", "--controls", 1], "^words: expected a file, because --contr"),
    ],
)
def test_bad_arguments(folder: Path, bilm_archive: str, arguments: list, message: str) -> None:
    """By definition: the error names the argument, and nothing is written. Numbers of another kind
    are in tests/corpora/test_uses.py."""
    os.mkfifo(folder / "pipe")
    paths = (folder / name for name in ("text", "pipe", "out"))
    with pytest.raises(InputError, match=message):
        uses(*paths, *arguments, "--archive-file", bilm_archive)
    assert not (folder / "out").exists()


@pytest.mark.parametrize("options", [(), ("--shard", "2/2")])
@pytest.mark.parametrize(("name", "separator"), [("table.csv", ","), ("table.TSV", "\t")])
def test_a_table_of_spans(folder: Path, name: str, separator: str, options: tuple) -> None:
    """The vectors are those of `embed_spans`, and pandas writes the table. By hand: without a
    column of words, that of a use is its text, and shards divide the rows."""
    rows = [
        ("bank", "On the bank, they\tsat.", 7, 11, 1),
        ("shore", "On the bank, they\tsat.", 0, 11, 2),
        ("bank", 'He said "a\nbank".', 9, 15, 3),
    ]
    table = pandas.DataFrame(rows, columns=["word", "sentence", "start", "end", "label"])
    table.to_csv(folder / name, sep=separator, index=False)
    arguments = "characters", folder / "out", "--pretrained", "tiny", "--raw"
    uses(folder / name, *arguments, *options)
    found, elmo = read_uses(folder / "out"), Elmo.from_pretrained("tiny")
    expected = elmo.embed_spans(table["sentence"], table["start"], table["end"], raw=True)
    by_hand = [
        ("bank", "bank", 0, 2, "On the bank , they sat .", 0),
        ("shore", "On the bank", 1, 0, "On the bank , they sat .", 1),
        ("bank", "a bank", 2, 3, 'He said " a bank " .', 2),
    ]
    numbers = [1] if options else [0, 1, 2]
    columns = ["word", "token", "sentence", "position", "text", "line"]
    given = [*found[columns].itertuples(index=False, name=None)]
    assert given == [by_hand[n] for n in numbers]
    np.testing.assert_allclose(np.stack(found["vector"]), expected[numbers], atol=1e-5)
    if not options:
        in_memory = elmo.uses(folder / name, "characters", raw=True)
        assert in_memory.drop(columns="vector").equals(found.drop(columns="vector"))
        table.drop(columns="word").to_csv(folder / name, sep=separator, index=False)
        without_words = elmo.uses(folder / name, "characters", raw=True)
        assert without_words["word"].tolist() == ["bank", "On the bank", "a bank"]


def test_a_shard_without_uses(folder: Path) -> None:
    """By definition: more shards than sentences with uses leave one without a row, whose columns
    are of the types of the others'."""
    (folder / "text").write_text("a dog\n")
    for k in "12":
        uses(*map(folder.joinpath, ("text", "words", k)), "--pretrained=tiny", f"--shard={k}/2")
    one, none = (read_uses(folder / k) for k in "12")
    assert none.shape == (0, 10) and none.dtypes.equals(one.dtypes)


@pytest.mark.parametrize(
    ("table", "arguments", "message"),
    [
        ("a,0,1\nb,0,5\n", "characters", r"line 3: .* end <= 1, found \(0, 5\)$"),
        ("a,0,x\n", "characters", r"line 2: .* found \(0, 'x'\)$"),
        (f"a,0,{'9' * 5000}\n", "characters", r"line 2: .* found \(0, '999"),
        ("a,0,1\n", "words", "^unit of the spans: expected .* found 'words'$"),
        ("a,0,1\n", "characters --running-text", "^--running-text: expected a text, not a table"),
    ],
)
def test_bad_tables(folder: Path, table: str, arguments: str, message: str) -> None:
    """By definition: the error names the file and the line of the row. The other errors are in
    tests/text/test_tables.py and tests/corpora/test_spans.py."""
    message = message if message[0] == "^" else f"^{folder}/t.csv, {message}"
    (folder / "t.csv").write_text(f"sentence,start,end\n{table}")
    with pytest.raises(InputError, match=message):
        uses(folder / "t.csv", *arguments.split(), folder / "out", "--pretrained", "tiny")
    assert not (folder / "out").exists() and not (folder / ".out.parts").exists()
