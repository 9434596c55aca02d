"""These tests check the text of the installed documentation. Expected sentences are written by
hand."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from allennlp.common.file_utils import cached_path

from elmo_plugin.checks import InputError
from elmo_plugin.plugin.data import installed_docs
from elmo_plugin.plugin.data.installed_docs import InstalledDocsClient, docstrings, sentences

DOCSTRING = """
Fit the model to the data.  It isn't fast,
but it works.

This is *much* slower than `fit` or :meth:`predict`, as
the guide by E. W. Dijkstra once said (e.g. in Texas) and says.

Parameters
----------
matrix : array-like of shape (n, m)
    The values of the matrix may be of any type. None of them may be missing.
``mode`` : {'a', 'b'}
    - First the rows are sorted by their names.
    - Then the columns are counted!

>>> fit(matrix).A long result of the call is printed here
A long result of the call is printed here
+------+------+
| Name | Unit |
"""

SENTENCES = """Fit the model to the data .
It is n't fast , but it works .
This is much slower than fit or predict , as the guide by E. W. Dijkstra once said ( e.g. in Texas \
) and says .
The values of the matrix may be of any type .
None of them may be missing .
First the rows are sorted by their names .
Then the columns are counted !"""


def test_sentences_of_a_docstring():
    """Prose in sections and lists is found across lines, without fields, code, tables and
    headings."""
    assert list(sentences(DOCSTRING)) == SENTENCES.splitlines()


@pytest.mark.parametrize(
    "text",
    [
        *("", "Too short.", "there is no capital at the beginning of this."),
        *("There is no mark at the end of this line", "Alice Bob Carol Dave Eve."),
        *("X = np.arange(10) + self.foo_bar[0] * 2.", "This goes on" + " and on" * 60 + "."),
    ],
)
def test_values_that_are_not_sentences(text):
    """Each example breaks one rule of `sentences`."""
    assert list(sentences(text)) == []


MODULE = '''"""One."""
raise SystemExit
try:
    class A:
        """Two."""
        def f(self):
            """Three."""
except ImportError:
    async def f():
        """Four."""
def g():
    x = """Not a docstring."""
'''


@pytest.mark.parametrize(
    "content, expected",
    [
        (MODULE.encode(), {"One.", "Two.", "Three.", "Four."}),
        (b'"""Unclosed', {""}),
        (b'"""Null\x00byte"""', {""}),
        (b'"""Not UTF-8: \xff"""', {""}),
        (b'"""Nested too deeply for the parser."""\nx = 1' + b"+1" * 20_000, {""}),
        (b"x = 1", {""}),
        (None, {""}),
    ],
    ids=["any depth", "unclosed", "null", "encoding", "nesting", "none", "missing"],
)
def test_docstrings_of_a_file(tmp_path, content, expected):
    """The docstrings of modules, classes and functions are found, and nothing else. A file that
    raises when it is imported has them too, since nothing is run. Templates and test data of other
    packages end in .py too, and a listed file may be missing."""
    file = tmp_path / "module.py"
    if content is not None:
        file.write_bytes(content)
    assert set(docstrings(file).split("\n\n")) == expected


@pytest.fixture
def texts(monkeypatch) -> Iterator[Callable[[int], dict[str, str]]]:
    """The splits of every STEPth of 300 documents with three sentences: one of their own, one
    shared by ten, and one shared by all in any case."""
    documents = [
        (
            f"package/{n}.py",
            f"This is what document {n} says of itself. This is what all of group {n // 10} will "
            f"say. This is in every {'Document' if n % 2 else 'document'} here.",
        )
        for n in range(300)
    ]

    def make(step: int) -> dict[str, str]:
        monkeypatch.setattr(installed_docs, "documents", lambda: iter(documents[::step]))
        installed_docs._texts.cache_clear()
        return installed_docs._texts()

    yield make
    installed_docs._texts.cache_clear()


def test_splits_share_neither_sentences_nor_documents(texts, tmp_path, capfd):
    """Of 900 sentences 300 of single documents, 30 of groups and 1 of all documents remain, each
    once, on a line of its own with spaces between its tokens. The first of the three tells the
    documents apart, which are separated by empty lines. Nothing says that it downloads the text, as
    `cached_path` says for other schemes."""
    found = texts(1)
    for split, text in found.items():
        assert Path(cached_path(f"docs://{split}", cache_dir=tmp_path)).read_text() == text
    assert "".join(capfd.readouterr()).strip() == ""
    documents = [block for text in found.values() for block in text.split("\n\n")]
    lines = [line for block in documents for line in block.splitlines()]
    assert len(lines) == len({line.lower() for line in lines}) == 331
    own = {f"This is what document {n} says of itself ." for n in range(300)}
    assert {block.splitlines()[0] for block in documents} == own
    assert len(documents) == 300
    assert 0 < found["heldout"].count("\n\n") < 30


def test_a_document_keeps_its_split_when_others_come_and_go(texts):
    """The split depends only on a document's name."""
    before, after = (set(texts(step)["heldout"].splitlines()) for step in (1, 2))
    own = {f"This is what document {n} says of itself ." for n in range(0, 300, 2)}
    assert after & own == before & own != set()


@pytest.mark.parametrize("resource", ["docs://test", "docs://", "docs://train/x"])
def test_unknown_name(resource, tmp_path):
    """The error names the two splits."""
    with pytest.raises(InputError, match=f"{resource}.* expected one of 'train', 'heldout', found"):
        cached_path(resource, cache_dir=tmp_path)


def test_etag_changes_with_the_installation(monkeypatch):
    """The hash is the same for both splits, and changes with the packages and with the rules."""

    def etag(split: str) -> str | None:
        return InstalledDocsClient(f"docs://{split}").get_etag()

    found = {etag("train"), etag("heldout")}
    assert len(found) == 1
    for name, value in (("EDITION", 0), ("PACKAGES", installed_docs.PACKAGES[1:])):
        with monkeypatch.context() as patch:
            patch.setattr(installed_docs, name, value)
            found.add(etag("train"))
    assert len(found) == 3


def test_documents_of_this_installation(monkeypatch):
    """Python's topics come first and then source files without tests, each with a name of its own,
    in the order of their names and not that of the file system. A package that is not installed is
    left out."""
    monkeypatch.setattr(installed_docs, "docstrings", lambda path: path.name)
    monkeypatch.setattr(installed_docs, "PACKAGES", ("nltk", "numpy", "no_such_package"))
    names = [name for name, _ in installed_docs.documents()]
    files = [name for name in names if not name.startswith("topics/")]
    assert len(names) == len(set(names))
    assert names[-len(files) :] == files == sorted(files)
    assert {"topics/yield", "python/argparse.py", "nltk/probability.py"} <= set(names)
    assert not any("tests" in name.split("/") or "site-packages" in name for name in names)
