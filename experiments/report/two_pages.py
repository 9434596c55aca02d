"""Splits the page of results into the main results and their details."""

import re
from os.path import relpath
from pathlib import Path

from experiments.report.page import MAIN

TITLE = "# Results in detail\n\nThe tables, methods and costs behind the [results]({})."
LINK = re.compile(r"\]\((?!https?:)([^)#\s]*)(#[^)\s]*)?\)")
HEADING = re.compile(r"^##? (.*)$", re.MULTILINE)


def two_pages(content: str, main: Path, details: Path) -> tuple[str, str]:
    """
    The contents of the two files, out of a page whose links are those of `main`. A link to a
    section leads to the file that has it.
    """
    parts = re.split(r"^(?=##? )", content, flags=re.MULTILINE)[1:]
    sections: dict[Path, list[str]] = {main: [], details: []}
    for part in parts:
        title = HEADING.match(part)[1]  # type: ignore[index]
        sections[main if title in MAIN else details].append(part)
    where = {
        f"#{anchor(title)}": file
        for file, found in sections.items()
        for title in HEADING.findall("".join(found))
    }

    def relinked(file: Path) -> str:
        def link(match: re.Match[str]) -> str:
            path, fragment = match[1], match[2] or ""
            target = main.parent / path if path else where.get(fragment, main)
            shown = "" if target == file else relpath(target, file.parent)
            return f"]({shown}{fragment})"

        return LINK.sub(link, "".join(sections[file])).strip("\n") + "\n"

    head = TITLE.format(relpath(main, details.parent))
    return relinked(main), f"{head}\n\n{relinked(details)}"


def anchor(title: str) -> str:
    """The anchor of a heading, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")
