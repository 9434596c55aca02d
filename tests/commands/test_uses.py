"""The command `uses`; tests/elmo/test_uses.py compares what it writes with an oracle."""

from functools import partial
from pathlib import Path

import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.elmo.uses import read_uses
from tests.commands.test_score import WITHOUT_ALLENNLP
from tests.conftest import allennlp, python
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


def test_without_allennlp(folder: Path, bilm_archive: str) -> None:
    """Expected: the file that the command of AllenNLP writes. test_score.py has an error in one
    line."""
    model = "--archive-file", bilm_archive
    uses(folder / "text", folder / "words", folder / "expected", *model)
    arguments = "uses", folder / "text", folder / "words", folder / "out", *model
    python("-c", WITHOUT_ALLENNLP, *arguments)
    found, expected = (read_uses(folder / name).astype(str) for name in ("out", "expected"))
    assert found.equals(expected)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layer", "9" * 5000], r"^--layer: expected top, average or"),
        (["--layer", "3"], r"^--layer: expected top, average or .* found '3'$"),
        (["--layer", "-1"], r"^--layer: expected top, average or .* found '-1'$"),
        (["--most", 0], r"^most: expected a whole number from 1"),
        (["--seed", -1], r"^seed: expected a whole number from 0"),
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
