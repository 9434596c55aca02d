"""
Checks that each link, picture and anchor of the built site leads to a file in it:

    python docs/site/check.py
"""

import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

SITE = Path(__file__).parents[2] / "build" / "site"


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
            found.append(f"{file.relative_to(SITE)}: {link}")
    return found


def main() -> None:
    pages = [page for page in sorted(SITE.rglob("*.html")) if page.name != "404.html"]
    found = [fault for page in pages for fault in faults(page)]
    if found:
        sys.exit("links that lead nowhere:\n" + "\n".join(found))
    print(f"{len(pages)} pages, and no link that leads nowhere")


if __name__ == "__main__":
    main()
