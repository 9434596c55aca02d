"""
English text that is part of every installation, as `docs://train` and `docs://heldout`: Python's
documentation, and the docstrings of its library and of the installed scientific packages.

`cached_path` resolves these addresses, so a config that trains on them runs without a network.
Source files are parsed, never imported or run.
"""

import ast
import hashlib
import io
import re
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from importlib import metadata
from pathlib import Path

from allennlp.common import Tqdm
from cached_path import SchemeClient, add_scheme_client

EDITION = 3
"""The version of the extraction. Raise it if the same installation would give other text."""

PACKAGES = ("matplotlib", "networkx", "nltk", "numpy", "pandas", "scipy", "scikit-learn")
"""Dependencies of AllenNLP or of this plugin whose docstrings are mostly prose."""

SPLITS = ("train", "heldout")
HELDOUT_SHARE = 0.04
"""The held-out share of the documents, which is enough to compare perplexities."""

_TOKEN = re.compile(
    r"""
    n't\b | '(?:s|re|ve|ll|d|m)\b     # clitics, split as in the Penn Treebank
    | [A-Za-z]+(?=n't\b)
    | (?:[A-Za-z]\.){2,}(?!\w)        # abbreviations and initials keep their dots
    | (?:etc|cf|vs|al|[A-Z])\.(?=\s)
    | [a-z]+://\S*\w
    | \w+(?:[-./]\w+)*                # words; names and numbers with dots, hyphens or slashes
    | \.\.\.
    | [^\w\s]
    """,
    re.VERBOSE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])[\"')\]]*\s+(?![A-Z]\.\s)(?=[\"'(\[`*]*[A-Z])")
# An initial follows nothing, a name or another initial; "the matrix A." ends a sentence.
_ABBREVIATION = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|cf|vs|al|Fig|Eq|Sec|No|Dr)|(?:^|\b[A-Z]\w*\.? )[A-Z])\.$"
)
_MARKUP = re.compile(
    r"""
    (?::[a-z:]+:)?`+[~.]?([^`<>]*?)(?:\s*<[^>]*>)?`+_{0,2}  # literals, links and roles
    | \*\*?([^*\s][^*]*)\*\*?                              # emphasis
    | (\[\w+\])_                                          # citations
    """,
    re.VERBOSE,
)
_WORD = re.compile(r"[^\W\d_]?[^\W\d_A-Z]*(?:['-][^\W\d_A-Z]+)*")  # "Text", "well-known", "n't"
_OPERATORS = frozenset("\\=<>@^{}|*+~_$#")
_LIST_ITEM = re.compile(r"^(?:[-*+•]|\(?\d+[.)])\s+")
_FIELD = re.compile(r"^(?::\w[^:]*:|@\w+|\.\.\s|>>>|[\w`*'][\w`*', .-]*\s:(?:\s|$)|\|)")


class InstalledDocsClient(SchemeClient):
    """Resolves `docs://train` and `docs://heldout` for `cached_path`, which caches the text."""

    scheme = "docs"

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        self.split = resource.split("://", 1)[1]
        if self.split not in SPLITS:
            raise FileNotFoundError(
                f"{resource}: expected docs://{' or docs://'.join(SPLITS)}, found no such text"
            )

    def get_etag(self) -> str:
        """A hash of the installed versions; the cached text is replaced when it changes."""
        versions = [f"{package.name}=={package.version}" for package in _installed()]
        parts = [str(EDITION), sys.version, *versions]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def get_size(self) -> int | None:
        return None

    def get_resource(self, temp_file: io.BufferedWriter) -> None:
        temp_file.write(_texts()[self.split])


add_scheme_client(InstalledDocsClient)


@cache
def _texts() -> dict[str, bytes]:
    """Both splits in UTF-8, because training needs both."""
    return {
        split: "\n".join(
            "".join(" ".join(tokens) + "\n" for tokens in document) for document in documents
        ).encode()
        for split, documents in split_documents().items()
    }


def split_documents() -> dict[str, list[list[list[str]]]]:
    """
    Both splits: documents of sentences of tokens. A hash of its name decides the split of a
    document. No sentence occurs twice, so no sentence is in both splits.
    """
    parts: dict[str, list[list[list[str]]]] = {split: [] for split in SPLITS}
    seen: set[str] = set()
    for name, text in documents():
        digest = hashlib.sha256(name.encode()).digest()
        split = SPLITS[int.from_bytes(digest[:4], "big") < HELDOUT_SHARE * 2**32]
        document = []
        for tokens in sentences(text):
            key = " ".join(tokens).lower()
            if key not in seen:
                seen.add(key)
                document.append(tokens)
        if document:
            parts[split].append(document)
    return parts


def documents() -> Iterator[tuple[str, str]]:
    """
    The names and texts of all documents. A document is a topic of Python's documentation, or all
    docstrings of one source file. The order does not depend on the file system.
    """
    from pydoc_data.topics import topics

    for name, text in sorted(topics.items()):
        yield f"topics/{name}", text
    for name, path in Tqdm.tqdm(sorted(_source_files()), desc="reading docstrings"):
        text = docstrings(path)
        if text:
            yield name, text


def _source_files() -> Iterator[tuple[str, Path]]:
    """The source files of the library and the packages, without tests, each with its name."""
    library = Path(sysconfig.get_paths()["stdlib"])
    for path in library.rglob("*.py"):
        name = path.relative_to(library)
        if not {"site-packages", "test", "tests", "idlelib", "lib2to3"} & set(name.parts):
            yield f"python/{name.as_posix()}", path
    for package in _installed():
        for file in package.files or ():
            if file.suffix == ".py" and not {"tests", "_vendor", "externals"} & set(file.parts):
                yield file.as_posix(), Path(str(file.locate()))


def _installed() -> list[metadata.Distribution]:
    """The installed packages out of `PACKAGES`."""
    found = []
    for name in PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            found.append(metadata.distribution(name))
    return found


def docstrings(path: Path) -> str:
    """All docstrings of a Python file, separated by empty lines; empty if it can't be parsed."""
    try:
        source = path.read_bytes()
        if b'"""' not in source and b"'''" not in source:
            return ""
        tree = ast.parse(source)
    except (SyntaxError, ValueError, OSError, RecursionError):
        return ""
    return "\n\n".join(_docstrings(tree))


def _docstrings(node: ast.AST) -> Iterator[str]:
    """The docstrings in source order. Only statements are walked, which saves most of the time."""
    if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        if text := ast.get_docstring(node):
            yield text
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt | ast.ExceptHandler):
            yield from _docstrings(child)


def sentences(text: str) -> Iterator[list[str]]:
    """The sentences of a text in tokens, without code, tables and lists of names."""
    for paragraph in _paragraphs(text):
        plain = _MARKUP.sub(lambda match: match[match.lastindex or 0], paragraph)
        start = 0
        for end in [*_SENTENCE_END.finditer(plain), None]:
            stop = end.start() if end else len(plain)
            if end and _ABBREVIATION.search(plain[start:stop]):
                continue
            tokens = _TOKEN.findall(plain[start : end.end() if end else stop].rstrip())
            start = end.end() if end else stop
            if is_prose(tokens):
                yield tokens


def is_prose(tokens: list[str]) -> bool:
    """
    Whether this looks like an English sentence: it begins and ends like one, and consists mostly of
    words, some of them short, without operators of a programming language.
    """
    if not 5 <= len(tokens) <= 60 or tokens[-1] not in (".", "!", "?", ")", '"'):
        return False
    if not tokens[0][0].isupper() and tokens[0] not in ('"', "("):
        return False
    if not _OPERATORS.isdisjoint(tokens):
        return False
    spelled = sum(token[-1].isalnum() for token in tokens)
    words = sum(_WORD.fullmatch(token) is not None for token in tokens)
    return (
        spelled >= 0.65 * len(tokens)
        and words >= 0.8 * spelled
        and any(len(token) < 4 for token in tokens[:-1])
    )


def _paragraphs(text: str) -> Iterator[str]:
    """Joins lines of the same indentation. Fields, prompts and rulers end a paragraph."""
    kept: list[str] = []
    depth: int | None = None
    for line in [*text.splitlines(), ""]:
        stripped = line.strip()
        indent = len(line) - len(line.lstrip())
        item = _LIST_ITEM.match(stripped)
        is_text = bool(re.search(r"[a-z]{2}", stripped)) and not _FIELD.match(stripped)
        if kept and (not is_text or item or depth not in (None, indent)):
            yield " ".join(kept)
            kept = []
        if is_text:
            kept.append(stripped[item.end() :] if item else stripped)
            depth = None if item else indent  # lines after a list item may have any indentation
