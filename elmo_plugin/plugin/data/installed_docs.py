"""
English text from any installation, as `docs://train` and `docs://heldout`: Python's documentation,
and the docstrings of its library and of the installed scientific packages. `cached_path` resolves
these addresses, so a config that trains on them works offline. Source files are parsed, never
executed. spaCy splits sentences and tokens.
"""

import ast
import hashlib
import json
import re
import sysconfig
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from pydoc_data.topics import topics

import spacy
from allennlp.common import Tqdm
from cached_path import add_scheme_client

from allennlp_today.spacy_models import blank
from elmo_plugin.checks import check_choice
from elmo_plugin.plugin.data.local_scheme import LocalSchemeClient

EDITION = 4
"""Version of the extraction. Increase it when the same installation would yield different text."""

PACKAGES = ("matplotlib", "networkx", "nltk", "numpy", "pandas", "scipy", "sklearn")
"""Dependencies of AllenNLP or of this plugin whose docstrings are mostly prose."""
LEFT_OUT = {"site-packages", "test", "tests", "idlelib", "lib2to3", "_vendor", "externals"}

SPLITS = ("train", "heldout")
HELDOUT_SHARE = 0.04
"""Share of held-out documents, enough to compare perplexities."""

MARKUP = re.compile(r":[a-z:]+:`|[`*]")
"""Markup of roles, literals and emphasis in reStructuredText."""
INDENTATION = " \t-+*•"
"""Characters that count as indentation, including list markers."""

_pipeline = cache(blank)


class InstalledDocsClient(LocalSchemeClient):
    """Resolves `docs://train` and `docs://heldout` for `cached_path`, which caches the text."""

    scheme = "docs"

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.split = resource.split("://", 1)[1]
        check_choice(f"{resource}: the text after docs://", self.split, SPLITS)

    def get_etag(self) -> str:
        """A digest of the installed packages; the cached text is replaced when it changes."""
        sizes = [(name, path.stat().st_size) for name, path in source_files()]
        installed = json.dumps([EDITION, spacy.__version__, sizes])
        return hashlib.sha256(installed.encode()).hexdigest()

    def content(self) -> bytes:
        return _texts()[self.split].encode()


add_scheme_client(InstalledDocsClient)


@cache
def _texts() -> dict[str, str]:
    """
    The text of both splits. A hash of a document's name determines its split. Sentences are unique,
    so no sentence is in both splits.
    """
    texts: dict[str, list[str]] = {split: [] for split in SPLITS}
    seen: set[str] = set()
    for name, text in documents():
        number = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
        split = SPLITS[number < HELDOUT_SHARE * 2**32]
        lines = []
        for line in sentences(text):
            if line.lower() not in seen:
                seen.add(line.lower())
                lines.append(line + "\n")
        if lines:
            texts[split].append("".join(lines))
    return {split: "\n".join(documents) for split, documents in texts.items()}


def documents() -> Iterator[tuple[str, str]]:
    """
    The names and texts of all documents, in a fixed order. A document is a topic of Python's
    documentation, or all docstrings of one source file.
    """
    yield from ((f"topics/{name}", text) for name, text in sorted(topics.items()))
    for name, path in Tqdm.tqdm(source_files(), desc="reading docstrings"):
        yield name, docstrings(path)


def source_files() -> list[tuple[str, Path]]:
    """The source files of Python's library and the packages, without tests, each with its name."""
    folders = {"python": Path(sysconfig.get_path("stdlib"))}
    for package in PACKAGES:
        if (spec := find_spec(package)) and spec.origin:
            folders[package] = Path(spec.origin).parent
    return sorted(
        (f"{package}/{path.relative_to(folder).as_posix()}", path)
        for package, folder in folders.items()
        for path in folder.rglob("*.py")
        if LEFT_OUT.isdisjoint(path.relative_to(folder).parts) and path.is_file()
    )


def docstrings(path: Path) -> str:
    """All docstrings of a Python file, separated by empty lines; empty if it cannot be parsed."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError, OSError, RecursionError):
        return ""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = (node for node in ast.walk(tree) if isinstance(node, documented))
    return "\n\n".join(text for node in nodes if (text := ast.get_docstring(node)))


def sentences(text: str) -> Iterator[str]:
    """
    The English sentences of a text, with spaces between tokens. Consecutive lines with the same
    indentation form a paragraph. Code, tables and lists of names are skipped: a sentence must begin
    and end like one and consist mostly of words, with at least one function word.
    """
    paragraphs = []
    for _, lines in groupby(text.splitlines(), _indentation):
        paragraph = " ".join(line.lstrip(INDENTATION) for line in lines)
        paragraphs.append(" ".join(MARKUP.sub("", paragraph).split()))
    # spaCy's rules for English tokens and sentence ends, which need no model.
    for parsed in _pipeline("en").pipe(paragraphs):
        for sentence in parsed.sents:
            if (
                5 <= len(sentence) <= 60
                and sentence[0].is_title
                and sentence[-1].text in {".", "!", "?"}
                and any(token.is_stop for token in sentence)
                and sum(token.is_alpha for token in sentence) >= 0.65 * len(sentence)
            ):
                yield " ".join(token.text for token in sentence)


def _indentation(line: str) -> int | None:
    """The column where the text of a line begins; `None` for blank lines and rulers."""
    text = line.lstrip(INDENTATION)
    return len(line) - len(text) if text else None
