"""
Checks that each link, picture and anchor of the built site leads to a file in it:

    python docs/site/check.py
"""

import re
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parents[2] / "build" / "site"
PAGES = SITE.with_name("docs")
LINK = re.compile(r"\]\(([^)#\s]*)#?([^)]*)\)")


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


@cache
def read(file: Path) -> Page:
    page = Page()
    page.feed(file.read_text("utf-8"))
    return page


def faults(file: Path) -> list[str]:
    """The links of a page that lead nowhere. Those to other sites are not followed."""
    found = []
    for link in read(file).links:
        parts = urlsplit(link)
        if parts.scheme or parts.netloc:
            continue
        start = SITE if parts.path.startswith("/") else file.parent
        target = (start / unquote(parts.path).lstrip("/")).resolve() if parts.path else file
        target = target / "index.html" if target.is_dir() else target
        anchor = unquote(parts.fragment)
        has_anchors = anchor and target.suffix == ".html" and target.exists()
        if not target.exists() or (has_anchors and anchor not in read(target).anchors):
            found.append(f"{place(file, target, anchor)}: {link}")
    return found


def place(file: Path, target: Path, anchor: str) -> str:
    """
    The page that was written, with the line of its link to an anchor of a file, if there is one.
    The pages that stage.py writes have the lines of their sources.
    """
    page = source(file)
    name = "README.md" if page == PAGES / "index.md" else f"docs/{page.relative_to(PAGES)}"
    for number, line in enumerate(page.read_text("utf-8").splitlines(), start=1):
        for path, fragment in LINK.findall(line):
            linked = (page.parent / path).resolve() if path else page
            if fragment == anchor and linked in (source(target), PAGES / relative(target)):
                return f"{name}, line {number}"
    return name


def source(file: Path) -> Path:
    """The page from which a file of the site was made."""
    folder = relative(file).parent
    return PAGES / ("index.md" if folder == Path() else f"{folder}.md")


def relative(file: Path) -> Path:
    return file.relative_to(SITE) if file.is_relative_to(SITE) else file


def main() -> None:
    pages = [page for page in sorted(SITE.rglob("*.html")) if page.name != "404.html"]
    found = [fault for page in pages for fault in faults(page)]
    if found:
        sys.exit("links that lead nowhere:\n" + "\n".join(found))
    print(f"{len(pages)} pages, and no link that leads nowhere")


if __name__ == "__main__":
    main()
