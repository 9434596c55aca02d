from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from elmo_plugin.checks import InputError
from elmo_plugin.text.lines import read_sentences
from elmo_plugin.text.text_files import find_files
from tests.conftest import write_file
from tests.ordinary_user import as_ordinary_user


def test_files_of_a_folder_a_glob_and_an_address(tmp_path: Path) -> None:
    """The files are sorted, those of folders below are included, and hidden files are left out. The
    name of an existing file is not read as a glob."""
    for name in ("b.txt", "a.txt", "sub/c.txt", ".hidden", ".git/d.txt", "[1].text"):
        write_file(tmp_path / name, "x\n")

    def found(path: str) -> str:
        return " ".join(str(file.relative_to(tmp_path)) for file in find_files(path))

    assert found(str(tmp_path)) == "[1].text a.txt b.txt sub/c.txt"
    (tmp_path / "link").symlink_to("sub")
    assert found(str(tmp_path)) == "[1].text a.txt b.txt link/c.txt sub/c.txt"
    (tmp_path / "link").unlink()
    for path, expected in {
        "*.txt": "a.txt b.txt",
        "**/*.txt": "a.txt b.txt sub/c.txt",
        "**/**/*.txt": "a.txt b.txt sub/c.txt",
        "b.txt": "b.txt",
        "[1].text": "[1].text",
    }.items():
        assert found(f"{tmp_path}/{path}") == expected
    assert found(f"file://{tmp_path}/b.txt") == "b.txt"


@pytest.mark.parametrize("links", [{"a/up": ".."}, {"a/to_b": "../b", "b/to_a": "../a"}])
def test_folders_that_contain_themselves_are_an_error(tmp_path: Path, links: dict) -> None:
    """Following such links would read the same text some forty times, until the system stops."""
    for name in ("a/text.txt", "b/text.txt"):
        write_file(tmp_path / name, "x\n")
    for link, target in links.items():
        (tmp_path / link).symlink_to(target)
    for path in (tmp_path, f"{tmp_path}/**/*.txt"):
        with pytest.raises(InputError, match=r"a/(up|to_b.*): expected a folder of text"):
            find_files(path)


def test_a_path_that_goes_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above the folder that is read, the same folder may come twice, by `..` or by a link."""
    write_file(tmp_path / "sub/text.txt", "x\n")
    (tmp_path / "link").symlink_to(".")
    monkeypatch.chdir(tmp_path / "sub")
    for path in ("../sub", "../sub/**/*.txt", "../../" + tmp_path.name + "/sub", "../link/sub"):
        assert [file.resolve() for file in find_files(path)] == [tmp_path / "sub/text.txt"]
    assert find_files("../link/sub/**/*.txt") == [Path("../link/sub/text.txt")]


def test_a_broken_link_that_a_glob_matches(tmp_path: Path) -> None:
    """It is an error, as in a folder."""
    (tmp_path / "gone.txt").symlink_to("nowhere")
    with pytest.raises(FileNotFoundError, match=r"gone\.txt"):
        list(read_sentences(f"{tmp_path}/*.txt"))


def _words(path: Path) -> list[list[str]]:
    return list(read_sentences(path))


@pytest.mark.parametrize("name", ["closed", "closed/below", "a.txt", "no_entry", "dangling"])
def test_what_cannot_be_read_in_a_folder_is_named(name: str) -> None:
    """The folder has a subfolder or a file without permission, or a broken link."""
    with TemporaryDirectory() as temporary:  # other users may not enter pytest's own
        folder = Path(temporary)
        unreadable = folder / name
        write_file(folder / "a.txt", "a\n")
        write_file(folder / "closed/below/b.txt", "b\n")
        write_file(folder / "no_entry/c.txt", "c\n")
        folder.chmod(0o755)
        assert as_ordinary_user(_words, folder) == [["a"], ["b"], ["c"]]
        if name == "dangling":
            unreadable.symlink_to(folder / "nowhere")
        else:
            unreadable.chmod(0o444 if name == "no_entry" else 0)
        found = as_ordinary_user(_words, folder)
        if name != "dangling":
            unreadable.chmod(0o755)
    assert str(unreadable) in found


def test_nothing_to_read_is_an_error(tmp_path: Path) -> None:
    """Each error names the path as it was given."""
    (tmp_path / "empty").mkdir()
    for name, message in (
        ("nothing.txt", "expected a file, a folder, a glob or a URL"),
        ("*.txt", "found none for this glob"),
        ("empty", "found an empty folder"),
    ):
        with pytest.raises(FileNotFoundError, match=message) as error:
            find_files(tmp_path / name)
        assert str(tmp_path / name) in str(error.value)
