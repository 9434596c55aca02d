"""The command `uses`; tests/elmo/test_uses.py compares what it writes with an oracle."""

import json
import shutil
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import h5py
import numpy as np
import pandas
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.corpora import uses as module
from elmo_plugin.corpora.controls import control_words
from elmo_plugin.corpora.meanings import changes
from elmo_plugin.corpora.uses import read_uses
from elmo_plugin.files.digest import append_checksum
from tests.commands.test_score import WITHOUT_ALLENNLP
from tests.conftest import allennlp, python, threads
from tests.ending import ends

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
def test_uses(
    folder: Path, bilm_archive: str, options: tuple, capsys: pytest.CaptureFixture
) -> None:
    """Expected: those of `Elmo.uses`, and by hand their number."""
    uses(
        folder / "text", folder / "words", folder / "out", "--archive-file", bilm_archive, *options
    )
    known = dict(zip(options[::2], options[1::2]))
    elmo, layer, most = (
        Elmo.from_archive(bilm_archive, precision=known.get("--precision", "fp32")),
        known.get("--layer", "top"),
        known.get("--most"),
    )
    expected = elmo.uses(
        folder / "text", folder / "words", layer, most=most, seed=known.get("--seed", 0)
    )
    found = read_uses(folder / "out")
    assert found.astype(str).equals(expected.astype(str))
    assert len(found) == (2 if options else 4)
    assert f"out: {len(found)} uses\n" in capsys.readouterr().out


def test_words_without_uses(folder: Path, bilm_archive: str, capsys: pytest.CaptureFixture) -> None:
    """By hand: of raw text too, whose punctuation is not part of a word."""
    (folder / "text").write_text("A dog.\n")
    uses(folder / "text", folder / "words", folder / "o", "--raw", "--archive-file", bilm_archive)
    assert "o: 1 uses; none of stick\n" in capsys.readouterr().out
    (folder / "words").write_text("dog\nice  cream\n".replace("  ", " "))
    uses(folder / "text", folder / "words", folder / "p", "--raw", "--archive-file", bilm_archive)
    hint = "'ice cream' is one phrase, as only tabs divide forms from it"
    assert f"p: 1 uses; none of ice cream; {hint}\n" in capsys.readouterr().out


@pytest.mark.parametrize("options", [(), ("--controls", 2, "--compared-with", "text")])
def test_the_words_are_a_file(
    folder: Path, bilm_archive: str, options: tuple, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By definition: in Python a string may be a word, but in the command it names a file, also
    one that is missing."""
    monkeypatch.chdir(folder)
    with pytest.raises(FileNotFoundError, match=r"^dog: expected a file of words, found no such"):
        uses("text", "dog", "out", "--archive-file", bilm_archive, *options)
    assert not (folder / "out").exists()


@pytest.fixture
def two_texts(folder: Path) -> Path:
    """Texts in which random words are more or less frequent, among them those of the list."""
    random = Random(0)
    words = ["dog", "Dogs", "stick", ".", *(chr(k) * 2 for k in range(97, 113))]
    for name in ("text", "other"):
        chosen = (random.choices(words, range(1, 21), k=7) for _ in range(60))
        (folder / name).write_text("\n".join(map(" ".join, chosen)) + "\n")
    return folder


def test_controls(two_texts: Path, bilm_archive: str) -> None:
    """Expected: the words of `control_words`, in both directions the same, whose uses are those of
    a list of them. The uses of the listed words do not depend on them, and all words have ranks. A
    file with other control words is not compared."""
    text, other, words = (two_texts / name for name in ("text", "other", "words"))
    options = "--archive-file", bilm_archive, "--most", 4, "--seed", 3
    first, second, alone, listed = (two_texts / name for name in "abcd")
    uses(text, words, first, "--controls", 3, "--compared-with", other, *options)
    uses(other, words, second, "--controls", 3, "--compared-with", text, *options)
    uses(text, words, alone, *options)
    controls = control_words(text, other, words, 3, 3)
    found = read_uses(first), read_uses(second)
    for uses_of_text in found:
        of = dict(zip(uses_of_text["word"], uses_of_text["control_of"]))
        expected = {word: word_of for word_of, own in controls.items() for word in own}
        assert of == {"dog": "", "stick": "", **expected} and len(of) == 8
    is_listed = found[0]["control_of"] == ""
    assert (
        found[0][is_listed].reset_index(drop=True).astype(str).equals(read_uses(alone).astype(str))
    )
    words.write_text("".join(f"{word}\n" for own in controls.values() for word in own))
    uses(text, words, listed, *options)
    of_controls = found[0][~is_listed].reset_index(drop=True).assign(control_of="")
    assert of_controls.astype(str).equals(read_uses(listed).astype(str))
    ranks = changes(*found).set_index("word").loc[["dog", "stick"]]
    assert (ranks["controls"] == 3).all() and ranks["apd_control_p"].between(1 / 4, 1).all()
    words.write_text("dog\tdog Dogs\nstick\n")
    uses(other, words, two_texts / "e", "--controls", 2, "--compared-with", text, *options)
    with pytest.raises(InputError, match=r"^second: expected .*'control words'"):
        changes(found[0], read_uses(two_texts / "e"))


def test_controls_of_a_resumed_run(
    two_texts: Path, bilm_archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is that of an uninterrupted run. Other control words are refused, also if they are
    others because the other text is."""
    monkeypatch.setattr(module, "PART_SENTENCES", 20)
    text, other, words = (two_texts / name for name in ("text", "other", "words"))
    arguments = "--archive-file", bilm_archive, "--compared-with", other, "--controls"
    uses(text, words, two_texts / "whole", *arguments, 3)
    tables, calls = module._tables, []

    def killed(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > 1:
            raise KeyboardInterrupt
        return tables(*given)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "_tables", killed)
        uses(text, words, two_texts / "out", *arguments, 3)
    with pytest.raises(InputError, match="expected the control words of the interrupted run"):
        uses(text, words, two_texts / "out", *arguments, 2)
    with pytest.raises(InputError, match="expected the words of the interrupted run"):
        uses(text, words, two_texts / "out", *arguments[:2])
    before = other.read_text()
    other.write_text(before.replace("pp", "aa"))
    with pytest.raises(InputError, match="expected the control words of the interrupted run"):
        uses(text, words, two_texts / "out", *arguments, 3)
    other.write_text(before)
    uses(text, words, two_texts / "out", *arguments, 3)
    assert (two_texts / "out").read_bytes() == (two_texts / "whole").read_bytes()


def test_a_file_of_an_earlier_version(folder: Path, bilm_archive: str) -> None:
    """By hand: without the columns that were added, it is read with those of listed words."""
    uses(folder / "text", folder / "words", folder / "out", "--archive-file", bilm_archive)
    expected = read_uses(folder / "out")
    shutil.copy(folder / "out", folder / "earlier")
    with h5py.File(folder / "earlier", "r+") as file:
        del file["control_of"], file["line"], file["sentence_in_row"]
    append_checksum(folder / "earlier")
    assert read_uses(folder / "earlier").astype(str).equals(expected.astype(str))


def test_without_allennlp(folder: Path, bilm_archive: str) -> None:
    """Expected: the file that the command of AllenNLP writes. test_score.py has an error in one
    line."""
    model = "--archive-file", bilm_archive
    uses(folder / "text", folder / "words", folder / "expected", *model)
    arguments = "uses", folder / "text", folder / "words", folder / "out", *model
    python("-c", WITHOUT_ALLENNLP, *arguments)
    found, expected = (read_uses(folder / name).astype(str) for name in ("out", "expected"))
    assert found.equals(expected)


def test_killed_and_resumed(
    folder: Path, bilm_archive: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is that of an uninterrupted run, no part is computed twice, and nothing is left. A
    run with other settings or of another text is refused."""
    monkeypatch.setattr(module, "PART_SENTENCES", 1)
    text = folder / "text"
    text.write_text("He threw the stick to the dog .\n\nDogs run .\nthe dog\nthe dog\n")
    arguments = text, folder / "words", folder / "out", "--archive-file", bilm_archive
    uses(*arguments[:2], folder / "whole", *arguments[3:])
    tables, calls = module._tables, []

    def killed(*given: Any) -> Any:
        calls.append(given)
        if len(calls) > 2:
            raise KeyboardInterrupt
        return tables(*given)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(module, "_tables", killed)
        uses(*arguments)
    assert not (folder / "out").exists()
    for option, name in (
        (["--layer", 0], "layer"),
        (["--most", 1], "most"),
        (["--seed", 1], "seed"),
        (["--raw"], "raw"),
        (["--pretrained", "tiny"], "biLM"),
    ):
        model = [] if option[0] == "--pretrained" else arguments[3:]
        with pytest.raises(InputError, match=f"expected the {name} of the interrupted run"):
            uses(*arguments[:3], *model, *option)
    (folder / "other").write_text("a dog\n")
    with pytest.raises(InputError, match="expected the text of sentences 1 to 1 of the int"):
        uses(folder / "other", *arguments[1:])
    with pytest.raises(InputError, match="expected the words of the interrupted run"):
        (folder / "other").write_text("dog\n")
        uses(text, folder / "other", *arguments[2:])
    (folder / "other").unlink()
    shutil.copytree(folder / ".out.parts", folder / ".mixed.parts")
    embed, calls = Elmo.embed_rows, []
    with monkeypatch.context() as patch:
        patch.setattr(Elmo, "embed_rows", lambda *a, **k: calls.append(a) or embed(*a, **k))
        uses(*arguments)
    assert len(calls) == 2
    assert (folder / "out").read_bytes() == (folder / "whole").read_bytes()
    # With another number of threads, the file records it.
    n_threads = torch.get_num_threads()
    with threads(n_threads + 1):
        uses(*arguments[:2], folder / "mixed", *arguments[3:])
    whole, mixed = (read_uses(folder / name) for name in ("whole", "mixed"))
    assert mixed.drop(columns="vector").equals(whole.drop(columns="vector"))
    np.testing.assert_allclose(np.stack(mixed["vector"]), np.stack(whole["vector"]), atol=1e-5)
    recorded = json.loads(mixed.attrs["computed_with"])
    assert [x["number of threads (OMP_NUM_THREADS)"] - n_threads for x in recorded] == [0, 1]
    assert changes(mixed, whole)["apd"].notna().any()
    names = {"text", "words", "whole", "out", "mixed"}
    assert {file.name for file in folder.iterdir()} == names


@pytest.mark.parametrize("options", [(), ("--most", 2)])
def test_shards_are_the_whole(folder: Path, bilm_archive: str, options: tuple) -> None:
    """All shards together have each use once; a sample is that of the whole text."""
    arguments = "--archive-file", bilm_archive, *options
    uses(folder / "text", folder / "words", folder / "whole", *arguments)
    expected = read_uses(folder / "whole")
    frames = []
    for shard in ("1/2", "2/2"):
        out = folder / shard.replace("/", "_")
        uses(folder / "text", folder / "words", out, *arguments, "--shard", shard)
        frames.append(read_uses(out))
        assert frames[-1].attrs == expected.attrs and len(frames[-1]) < len(expected)
    found = pandas.concat(frames).sort_values(["sentence", "position"], ignore_index=True)
    vectors = found.pop("vector"), expected.pop("vector")
    assert found.equals(expected)
    np.testing.assert_allclose(*map(np.stack, vectors), atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layer", "9" * 5000], r"^--layer: expected top, average or"),
        (["--layer", "3"], r"^--layer: expected top, average or .* found '3'$"),
        (["--layer", "-1"], r"^--layer: expected top, average or .* found '-1'$"),
        (["--most", 0], r"^most: expected a whole number from 1"),
        (["--seed", -1], r"^seed: expected a whole number from 0"),
        (["--controls", 2], "^--compared-with: expected a path, found null$"),
        (["--compared-with", "x"], "^--controls: expected a whole number from 1 .*, found null$"),
        (["--compared-with", "x", "--controls", 0], "^--controls: expected a whole number from 1"),
    ],
)
@ends
def test_bad_arguments(folder: Path, bilm_archive: str, arguments: list, message: str) -> None:
    with pytest.raises(InputError, match=message):
        uses(
            folder / "text",
            folder / "words",
            folder / "out",
            *arguments,
            "--archive-file",
            bilm_archive,
        )
    assert not (folder / "out").exists()


def test_no_model_and_no_text(folder: Path, bilm_archive: str) -> None:
    words, out, model = folder / "words", folder / "out", ("--archive-file", bilm_archive)
    with pytest.raises(InputError, match=r"^expected one of --pretrained, .*, found none$"):
        uses(folder / "text", words, out)
    with pytest.raises(FileNotFoundError, match="gone"):
        uses(folder / "gone", words, out, *model)
    with pytest.raises(FileNotFoundError, match="gone"):
        uses(folder / "text", folder / "gone", out, *model)
    with pytest.raises(InputError, match=r"text: expected to write a new file, found one"):
        uses(folder / "text", words, folder / "text", *model)


@pytest.mark.parametrize("options", [(), ("--most", 1), ("--shard", "2/2")])
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
    arguments = "characters", folder / "out", "--pretrained", "tiny", "--raw", *options
    uses(folder / name, *arguments)
    found = read_uses(folder / "out")
    elmo = Elmo.from_pretrained("tiny")
    joined = found.join(table, on="sentence", rsuffix="_of_table")
    places = (joined[column] for column in ("sentence_of_table", "start", "end"))
    expected = elmo.embed_spans(*places, raw=True)
    np.testing.assert_allclose(np.stack(found["vector"]), expected, atol=1e-5)
    columns = ["word", "token", "sentence", "position", "text", "line"]
    by_hand = [
        ("bank", "bank", 0, 2, "On the bank , they sat .", 0),
        ("shore", "On the bank", 1, 0, "On the bank , they sat .", 1),
        ("bank", "a bank", 2, 3, 'He said " a bank " .', 2),
    ]
    if "--shard" in options:
        by_hand = by_hand[1:2]
    given = list(found[columns].itertuples(index=False, name=None))
    assert given == by_hand or "--most" in options
    if "--most" in options:
        assert len(given) == 2 and set(given) < set(by_hand)
    if not options:
        in_memory = elmo.uses(folder / name, "characters", raw=True)
        assert in_memory.drop(columns="vector").equals(found.drop(columns="vector"))
        table.drop(columns="word").to_csv(folder / name, sep=separator, index=False)
        without_words = elmo.uses(folder / name, "characters", raw=True)
        assert without_words["word"].tolist() == ["bank", "On the bank", "a bank"]


@pytest.mark.parametrize(
    ("table", "unit", "message"),
    [
        (
            "sentence,start\na,0\n",
            "characters",
            r"t.csv: expected a table with one column end, found \['sentence', 'start'\]$",
        ),
        ("", "characters", r"t.csv: expected a table with one column sentence, found \[\]$"),
        (
            "sentence,start,end\na,0\n",
            "characters",
            r"t.csv, line 2: expected 3 fields, as in the header, found \['a', '0'\]$",
        ),
        (
            "start,end,sentence\n0,5,Hello, world is big\n",
            "characters",
            r"t.csv, line 2: expected 3 fields, .* found \['0', '5', 'Hello', ' world is big'\]$",
        ),
        (
            "start,end,sentence,start\n0,5,Hello,9\n",
            "characters",
            r"t.csv: expected a table with one column start, found \['start', 'end', 'sen.*",
        ),
        (
            "word,sentence,start,end\nbank,The bank,4,8\n,The dog,4,7\n",
            "characters",
            r"t.csv, line 3: expected a value in the column word, found ''$",
        ),
        (
            "sentence,start,end\na,0,1\nb,0,5\n",
            "characters",
            r"t.csv, line 3: .* end <= 1, found \(0, 5\)$",
        ),
        (
            "sentence,start,end\na,0.0,1.0\nb,,1.0\n",
            "characters",
            r"t.csv, line 3: expected a value in the column start, found ''$",
        ),
        ("sentence,start,end\na,0,x\n", "characters", r"t.csv, line 2: .* found \(0, 'x'\)$"),
        (
            f"sentence,start,end\na,0,{'9' * 5000}\n",
            "characters",
            r"t.csv, line 2: .* found \(0, '999",
        ),
        (
            'sentence,start,end\n"a,0,1\n',
            "characters",
            r"t.csv, line 2: expected quotes as in CSV, ",
        ),
        ("sentence,start,end\na,0,1\n", "words", "^unit of the spans: expected .* found 'words'$"),
    ],
)
def test_bad_tables(folder: Path, table: str, unit: str, message: str) -> None:
    """By definition: the error names the file and the line of the row."""
    (folder / "t.csv").write_text(table)
    with pytest.raises(InputError, match=message):
        uses(folder / "t.csv", unit, folder / "out", "--pretrained", "tiny")
    assert not (folder / "out").exists() and not (folder / ".out.parts").exists()


def test_a_table_is_no_running_text(folder: Path) -> None:
    """By definition: an option that would do nothing is an error."""
    (folder / "t.csv").write_text("sentence,start,end\nThe dog .,4,7\n")
    arguments = (folder / "t.csv", "characters", folder / "out", "--pretrained", "tiny")
    with pytest.raises(InputError, match="--running-text: expected a text, not a table, found"):
        uses(*arguments, "--running-text")
