"""The blocks of code, links and headings of the documentation's pages, as CommonMark reads them."""

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

from markdown_it import MarkdownIt
from markdown_it.token import Token

from docs.site.stage import notebook_as_markdown
from tests.conftest import ROOT

DOCS = sorted((ROOT / "docs").glob("*.md"))
PAGES = [ROOT / "README.md", *DOCS]
"""The pages whose commands are run."""
NOTEBOOK = ROOT / "docs" / "tutorial.ipynb"
SOURCES = sorted(
    file
    for folder in (
        *("elmo_plugin", "allennlp_today", "demo", "experiments", "benchmarks", "recipes"),
        *("models", "training_configs"),
    )
    for file in (ROOT / folder).rglob("*.*")
    if file.suffix in (".py", ".cpp", ".h", ".jsonnet", ".libsonnet", ".toml")
)
SOURCES += [*ROOT.glob("*.py"), ROOT / "pyproject.toml"]
"""Programs and configs, whose messages, docstrings and comments name pages."""

COMMENT = re.compile(r"<!-- docs-test: (not run|file): (.+) -->\s*", re.DOTALL)
OUTPUT = 'text title="Output"'
"""The info string of a block that shows what the block before it prints."""


POINTER = re.compile(
    r"""(?<![\w/.-])((?:[\w.-]+/)*[\w-]+\.md)(?:\#([\w-]+)|,?\ ['"“]([^'"“”]+)['"”])?"""
)
"""The name of a page in a source, with an anchor or with the title of a section in quotes."""


class Block(NamedTuple):
    """A block of code. `not_run`: the reason of the comment `<!-- docs-test: not run: REASON -->`
    before it. `file`: the name of the comment `<!-- docs-test: file: NAME -->`, under which a
    reader saves it. `output`: the block of `OUTPUT` that follows."""

    page: str
    line: int
    language: str
    code: str
    not_run: str | None = None
    file: str | None = None
    output: str | None = None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks(page: Path) -> Iterator[Block]:
    tokens = parse(page)
    before: Token | None = None
    for token, after in pairwise([*tokens, None]):
        assert token is not None
        if token.type == "fence":
            assert token.map is not None
            comment = COMMENT.fullmatch(before.content) if before is not None else None
            kind, value = comment.groups() if comment else (None, None)
            yield Block(
                str(page.relative_to(ROOT)),
                token.map[0] + 1,
                token.info,
                token.content,
                not_run=value if kind == "not run" else None,
                file=value if kind == "file" else None,
                output=after.content if after is not None and after.info == OUTPUT else None,
            )
        before = token if token.type == "html_block" else None


class Link(NamedTuple):
    """A link: the file and the anchor that it leads to, or an address, and its text."""

    target: str
    text: str


def links(page: Path) -> Iterator[Link]:
    """The links of a page, or the pages that a source names."""
    if page.suffix not in (".md", ".ipynb"):
        text = re.sub(r"\s*\n\s*(//|#)?\s*", " ", page.read_text("utf-8"))  # a name may be wrapped
        for name, anchor, title in POINTER.findall(text):
            anchor = anchor or anchor_of(title)
            yield Link(f"{name}#{anchor}" if anchor else name, title)
        return
    for token in parse(page):
        children = token.children or []
        for k, child in enumerate(children):
            if child.type == "link_open":
                end = next(i for i, x in enumerate(children[k:], k) if x.type == "link_close")
                text = "".join(x.content or " " for x in children[k + 1 : end])
                yield Link(str(child.attrGet("href")), text)


def anchors(page: Path) -> set[str]:
    pairs = pairwise(parse(page))
    return {anchor_of(title.content) for head, title in pairs if head.type == "heading_open"}


def anchor_of(title: str) -> str:
    """The anchor of a heading: lower case, hyphens for spaces, and no punctuation."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def parse(page: Path) -> list[Token]:
    text = page.read_text("utf-8")
    if page.suffix == ".ipynb":
        text = notebook_as_markdown(text)
    return MarkdownIt("commonmark").enable("table").parse(text)


ALL_BLOCKS = [block for page in PAGES for block in blocks(page)]
