"""These tests check the text of the installed documentation. Expected sentences are written by
hand."""

from importlib import metadata
from pathlib import Path

import pytest
from allennlp.common.file_utils import cached_path

from elmo_plugin.plugin.data import installed_docs
from elmo_plugin.plugin.data.installed_docs import InstalledDocsClient, docstrings, sentences

DOCSTRING = """
Fit the model to the data.  It isn't fast,
but it works.

This is *much* slower than `fit` or :meth:`~sklearn.Base.predict`, as
`the guide <https://example.org>`_ by E. W. Dijkstra once said (e.g. in Texas, see [3]_) and says.

Parameters
----------
matrix : array-like of shape (n, m)
    The values of the matrix A. None of them may be missing.
``mode`` : {'a', 'b'}
    - First the rows are sorted by
      their names.
    - Then the columns are counted!

Returns
-------
Series
    Same index as the caller has.

>>> fit(matrix).A long result of the call is printed here
A long result of the call is printed here
+------+------+
| Name | Unit |
"""

SENTENCES = [
    "Fit the model to the data .",
    "It is n't fast , but it works .",
    "This is much slower than fit or sklearn.Base.predict , "
    "as the guide by E. W. Dijkstra once said ( e.g. in Texas , see [ 3 ] ) and says .",
    "The values of the matrix A .",
    "None of them may be missing .",
    "First the rows are sorted by their names .",
    "Then the columns are counted !",
    "Same index as the caller has .",
]


def test_sentences_of_a_docstring():
    """Prose in sections and lists is found across lines, without fields, code, tables and
    headings."""
    assert [" ".join(tokens) for tokens in sentences(DOCSTRING)] == SENTENCES


@pytest.mark.parametrize(
    "text",
    [
        "Too short.",
        "there is no capital at the beginning of this.",
        "There is no mark at the end of this line",
        "X = np.arange(10) + self.foo_bar[0] * 2.",
        "This goes on" + " and on" * 60 + ".",
        "",
    ],
)
def test_values_that_are_not_sentences(text):
    """Each example breaks one rule of `is_prose`."""
    assert list(sentences(text)) == []


def test_docstrings_in_the_order_of_the_source(tmp_path):
    """The docstrings of modules, classes and functions at any depth are found, and nothing else."""
    file = tmp_path / "module.py"
    file.write_text(
        '"""One."""\n'
        "try:\n"
        "    class A:\n"
        '        """Two."""\n'
        "        def f(self):\n"
        '            """Three."""\n'
        "except ImportError:\n"
        "    def f():\n"
        '        """Four."""\n'
        "def g():\n"
        '    x = """Not a docstring."""\n'
        "async def h():\n"
        '    """Five."""\n'
    )
    assert docstrings(file) == "One.\n\nTwo.\n\nThree.\n\nFour.\n\nFive."


@pytest.mark.parametrize(
    "content",
    [
        b'"""Unclosed',
        b'"""Null\x00byte"""',
        b'"""Not UTF-8: \xff"""',
        b'"""Nested too deeply for the parser."""\nx = 1' + b"+1" * 20_000,
        b"x = 1",
        None,
    ],
    ids=["unclosed", "null", "encoding", "nesting", "none", "missing"],
)
def test_docstrings_of_files_that_cannot_be_parsed(tmp_path, content):
    """Templates and test data of other packages end in .py too, and a listed file may be
    missing."""
    file = tmp_path / "module.py"
    if content is not None:
        file.write_bytes(content)
    assert docstrings(file) == ""


def test_nothing_is_run(tmp_path):
    """A file that raises when imported still has its docstring."""
    file = tmp_path / "module.py"
    file.write_text('"""Quiet."""\nraise SystemExit\n')
    assert docstrings(file) == "Quiet."


@pytest.fixture
def small_corpus(monkeypatch):
    """Returns 300 documents of three sentences: one of their own, one shared by ten, and one shared
    by all."""
    texts = [
        (
            f"package/{n}.py",
            f"This is what document {n} says of itself. "
            f"This is what all of group {n // 10} will say. This is in every document here.",
        )
        for n in range(300)
    ]
    monkeypatch.setattr(installed_docs, "documents", lambda: iter(texts))
    installed_docs._texts.cache_clear()
    yield texts
    installed_docs._texts.cache_clear()


def test_splits_share_neither_sentences_nor_documents(small_corpus):
    """Of 900 sentences 300 of single documents, 30 of groups and 1 of all documents remain, each
    once."""
    parts = installed_docs.split_documents()
    sets = {
        split: [" ".join(s) for document in documents for s in document]
        for split, documents in parts.items()
    }
    everything = sets["train"] + sets["heldout"]
    assert len(everything) == len(set(everything)) == 331
    assert len(parts["train"]) + len(parts["heldout"]) == 300
    assert 0 < len(parts["heldout"]) < 30


def test_a_document_keeps_its_split_when_others_come_and_go(small_corpus, monkeypatch):
    """The split follows from a document's name alone."""
    before = installed_docs.split_documents()["heldout"]
    own = {" ".join(document[0]) for document in before}
    monkeypatch.setattr(installed_docs, "documents", lambda: iter(small_corpus[::2]))
    after = {" ".join(d[0]) for d in installed_docs.split_documents()["heldout"]}
    kept = {f"This is what document {n} says of itself ." for n in range(0, 300, 2)}
    assert after == own & kept


def test_repetitions_are_found_in_any_case(monkeypatch):
    """A sentence that differs by capitals only is the same one."""
    texts = [("a", "Return the Name of it."), ("b", "Return the name of it.")]
    monkeypatch.setattr(installed_docs, "documents", lambda: iter(texts))
    parts = installed_docs.split_documents()
    assert sum(len(documents) for documents in parts.values()) == 1


def test_cached_path_gives_text_as_the_reader_wants_it(small_corpus, tmp_path):
    """The text has one sentence a line, spaces between tokens, and an empty line between
    documents."""
    parts = installed_docs.split_documents()
    for split in installed_docs.SPLITS:
        text = Path(cached_path(f"docs://{split}", cache_dir=tmp_path)).read_text("utf-8")
        found = [[line.split(" ") for line in block.splitlines()] for block in text.split("\n\n")]
        assert found == parts[split]


def test_the_text_is_made_once_for_both_splits(small_corpus, tmp_path, monkeypatch):
    """Both splits are made at once; the second time, both come from the cache."""
    calls: list[None] = []

    def documents():
        calls.append(None)
        return iter(small_corpus)

    monkeypatch.setattr(installed_docs, "documents", documents)
    for split in (*installed_docs.SPLITS, *installed_docs.SPLITS):
        cached_path(f"docs://{split}", cache_dir=tmp_path)
    assert len(calls) == 1


@pytest.mark.parametrize("resource", ["docs://test", "docs://", "docs://train/x"])
def test_unknown_name(resource, tmp_path):
    """The error names the two splits."""
    with pytest.raises(FileNotFoundError, match="docs://train or docs://heldout") as error:
        cached_path(resource, cache_dir=tmp_path)
    assert resource in str(error.value)


def test_etag_changes_with_the_installation(monkeypatch):
    """The hash is stable, and changes with the packages and with the rules."""
    etag = InstalledDocsClient("docs://train").get_etag()
    assert InstalledDocsClient("docs://heldout").get_etag() == etag
    with monkeypatch.context() as patch:
        patch.setattr(installed_docs, "EDITION", installed_docs.EDITION + 1)
        assert InstalledDocsClient("docs://train").get_etag() != etag
    present = metadata.distribution

    def distribution(name):
        if name == "nltk":
            raise metadata.PackageNotFoundError(name)
        return present(name)

    monkeypatch.setattr(metadata, "distribution", distribution)
    assert InstalledDocsClient("docs://train").get_etag() != etag


def test_documents_of_this_installation(monkeypatch):
    """Python's topics come first and then source files without tests, each with a name of its
    own."""
    monkeypatch.setattr(installed_docs, "docstrings", lambda path: path.name)
    names = [name for name, _ in installed_docs.documents()]
    assert len(names) == len(set(names))
    assert names[0].startswith("topics/")
    assert {"topics/yield", "python/argparse.py", "nltk/probability.py"} <= set(names)
    assert not any("tests" in name.split("/") or "site-packages" in name for name in names)


def test_the_order_of_the_file_system_does_not_matter(monkeypatch, tmp_path):
    """Files that are listed in reverse give the same documents in the same order."""
    files = []
    for name in ("a", "b", "c"):
        file = tmp_path / f"{name}.py"
        file.write_text(f'"""This is file {name}."""')
        files.append((f"package/{name}.py", file))
    found = []
    for listing in (files, files[::-1]):
        monkeypatch.setattr(installed_docs, "_source_files", lambda listing=listing: iter(listing))
        found.append([d for d in installed_docs.documents() if d[0].startswith("package/")])
    assert found[0] == found[1] == [(f"package/{n}.py", f"This is file {n}.") for n in "abc"]
