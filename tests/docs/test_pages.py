"""The documentation's links, blocks and quotations, which take only seconds to check."""

import re
import tomllib
from pathlib import Path

import pytest

from tests.docs.configs import evaluate, registered_names, types
from tests.docs.folder import prepare
from tests.docs.pages import ALL_BLOCKS, DOCS, PAGES, ROOT, Block, anchors, links

CHECKED = [*PAGES, ROOT / "CONTRIBUTING.md"]


@pytest.mark.parametrize("page", CHECKED, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    """A link names a file or a folder of the repository, and a heading if it has an anchor. Links
    to other sites are not followed."""
    for link in links(page):
        if link.startswith("https://"):
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), f"{page.name}: {link}"
        assert not anchor or anchor in anchors(target), f"{page.name}: {link}"


def test_each_block_is_run_or_says_why_not() -> None:
    """`make docs-test` runs bash, Python and jsonnet; `text` is what a program prints."""
    for block in ALL_BLOCKS:
        assert block.language in ("bash", "python", "jsonnet", "text"), block


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    prepare(folder)
    return folder


@pytest.mark.parametrize(
    "block", [b for b in ALL_BLOCKS if b.language == "jsonnet" and not b.not_run], ids=str
)
def test_jsonnet(block: Block, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jsonnet evaluates, and each `type` in it is a name that AllenNLP knows."""
    monkeypatch.setenv("BILM_ARCHIVE", "pretrained://small")
    unknown = set(types(evaluate(block.code, folder))) - registered_names()
    assert not unknown


def test_navigation_has_each_page_once() -> None:
    """The navigation is that of the site; the pages are the files of `docs/`."""
    site = tomllib.loads((ROOT / "zensical.toml").read_text())
    named = re.findall(r"'(\w+\.md)'", str(site["project"]["nav"]))
    assert sorted(named) == sorted(["index.md", "api.md", *(page.name for page in DOCS)])
