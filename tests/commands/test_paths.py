"""The paths of all commands: those that are empty, and outputs that are symbolic links."""

from pathlib import Path

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.commands.runner import NAMES, PROGRAM, run_program
from tests.conftest import allennlp


@pytest.mark.parametrize(
    ("argument", "arguments"),
    [
        ("input_file", ["elmo", "", "out", "--top", "--pretrained", "tiny"]),
        ("output_file", ["elmo", "text", "", "--top", "--pretrained", "tiny"]),
        ("archive_file", ["elmo", "text", "out", "--top", "--archive-file", ""]),
        (
            "options_file",
            ["elmo", "text", "out", "--top", "--options-file", "", "--weight-file", "text"],
        ),
        (
            "weight_file",
            ["elmo", "text", "out", "--top", "--options-file", "text", "--weight-file", ""],
        ),
        ("text", ["score", "", "--pretrained", "tiny"]),
        ("output_file", ["score", "text", "--pretrained", "tiny", "--output-file", ""]),
        ("text", ["uses", "", "text", "out"]),
        ("words", ["uses", "text", "", "out"]),
        ("out", ["uses", "text", "text", ""]),
        ("archives", ["elmo-mix", ""]),
        ("folder", ["elmo-configs", ""]),
        ("text", ["bilm-encode", "", "out"]),
        ("out", ["bilm-encode", "text", ""]),
        ("archive", ["bilm-export", "", "out"]),
        ("folder", ["bilm-export", "text", ""]),
        ("files", ["bilm-import", "", "text", "text", "out"]),
        ("files", ["bilm-import", "text", "", "text", "out"]),
        ("files", ["bilm-import", "text", "text", "", "out"]),
        ("files", ["bilm-import", "text", "text", "text", ""]),
    ],
)
def test_an_empty_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, argument: str, arguments: list[str]
) -> None:
    """The error names the argument. To most programs, an empty path is the current folder."""
    monkeypatch.chdir(tmp_path)
    Path("text").write_text("the dog\n")
    message = f"{argument}: expected a value, found an empty one"
    with pytest.raises(InputError, match=f"^{message}$"):
        allennlp(*arguments)
    if arguments[0] in NAMES:
        assert run_program(arguments[0], arguments[1:]) == f"{PROGRAM}: {message}"
    assert [file.name for file in tmp_path.iterdir()] == ["text"]


@pytest.mark.parametrize("exists", [True, False])
def test_an_output_that_is_a_link(tmp_path: Path, bilm_archive: str, exists: bool) -> None:
    """As with `cp` and with a shell's `>`, the link stays, and what it names is written. The oracle
    is the same command with a name that is no link."""
    text, plain, links, files = (tmp_path / name for name in ("text", "plain", "links", "files"))
    text.write_text("the dog\n")
    names = ["vectors", "options.json", "weights.hdf5", "vocabulary.txt", "model.tar.gz"]
    for folder in (plain, links, files):
        folder.mkdir()
    for name in names:
        (links / name).symlink_to(f"../files/{name}")
        if exists and name not in ("vectors", "model.tar.gz"):  # which are never replaced
            (files / name).write_text("old")
    for out in (plain, links):
        allennlp("elmo", text, out / "vectors", "--top", "--archive-file", bilm_archive)
        allennlp("bilm-export", bilm_archive, out, "--softmax")
        allennlp("bilm-import", *(out / name for name in names[1:4]), out / "model.tar.gz")
    for name in names:
        assert (links / name).is_symlink()
        if name != "model.tar.gz":  # which has the time in it
            assert (files / name).read_bytes() == (plain / name).read_bytes()
    assert (files / "model.tar.gz").stat().st_size > 1000
    for folder in (plain, links, files):
        assert sorted(file.name for file in folder.iterdir()) == sorted(names)


def test_a_link_into_no_folder(tmp_path: Path) -> None:
    """The error names the link and the folder that is missing."""
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "gone" / "vectors")
    message = f"^output_file: {link}: .* the folder {tmp_path}/gone, found: No such file"
    with pytest.raises(InputError, match=message):
        allennlp("elmo", tmp_path / "text", link, "--top", "--pretrained", "tiny")
    assert link.is_symlink()
