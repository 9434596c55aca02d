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

COMMENT = re.compile(r"<!-- docs-test: (not run|file): (.+) -->\s*", re.DOTALL)
OUTPUT = 'text title="Output"'
"""The info string of a block that shows what the block before it prints."""


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


def links(page: Path) -> Iterator[str]:
    for token in parse(page):
        for child in token.children or ():
            if child.type == "link_open":
                yield str(child.attrGet("href"))


def anchors(page: Path) -> set[str]:
    """The headings' anchors: lower case, hyphens for spaces, and no punctuation."""
    tokens = parse(page)
    return {
        re.sub(r"[^\w\- ]", "", after.content.lower()).replace(" ", "-")
        for token, after in pairwise(tokens)
        if token.type == "heading_open"
    }


def parse(page: Path) -> list[Token]:
    text = page.read_text("utf-8")
    if page.suffix == ".ipynb":
        text = notebook_as_markdown(text)
    return MarkdownIt("commonmark").enable("table").parse(text)


ALL_BLOCKS = [block for page in PAGES for block in blocks(page)]
