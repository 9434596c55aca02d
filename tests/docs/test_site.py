"""A link that leads nowhere ends `make docs` with its page and its line."""

import re
from pathlib import Path

import pytest

from docs.site import check, stage


def test_a_link_to_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: the line on which the link ends, counted by hand."""
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("# Page\n\nA [link of two\nlines](gone.md#there) .\n")
    monkeypatch.setattr(stage, "ROOT", tmp_path)
    monkeypatch.setattr(stage, "OUT", tmp_path / "build" / "docs")
    with pytest.raises(SystemExit, match=r"^docs/page.md, line 4: the link to gone.md leads"):
        stage.stage(page)


@pytest.mark.parametrize(
    ("name", "site", "link", "expected"),
    [
        ("page", "page/index.html", "../other/#gone", "docs/page.md, line 3: "),
        ("index", "index.html", "other/#gone", "README.md, line 3: "),
        ("page", "page/index.html", "../other/#from-html", "docs/page.md: "),
    ],
)
def test_a_link_to_a_missing_anchor(
    name: str, site: str, link: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Expected: the line of the link in the page from which the site was made, if it is there."""
    monkeypatch.setattr(check, "SITE", tmp_path / "site")
    monkeypatch.setattr(check, "PAGES", tmp_path / "docs")
    files = {
        f"docs/{name}.md": "# Page\n\nA [link](other.md#gone) and [another](other.md#here) .\n",
        f"site/{site}": f'<a href="{link}"></a>',
        "site/other/index.html": '<h2 id="here"></h2>',
    }
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    (fault,) = check.faults(tmp_path / "site" / site)
    assert re.match(re.escape(expected + link) + "$", fault), fault
