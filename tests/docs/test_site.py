"""A link to a missing file ends `make docs` with its page and its line. Zensical names those of a
link to a missing anchor."""

from pathlib import Path

import pytest

from docs.site import stage
from tests.docs.test_reference import STABLE


def test_a_link_to_a_missing_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Expected: the line on which the link ends, counted by hand."""
    page = tmp_path / "docs" / "page.md"
    page.parent.mkdir()
    page.write_text("# Page\n\nA [link of two\nlines](gone.md#there) .\n")
    monkeypatch.setattr(stage, "ROOT", tmp_path)
    monkeypatch.setattr(stage, "OUT", tmp_path / "build" / "docs")
    with pytest.raises(SystemExit, match=r"^docs/page.md, line 4: the link to gone.md leads"):
        stage.stage(page)


def test_the_stable_names_of_the_reference() -> None:
    """Expected: those that another reading of the same page finds."""
    found = {(module, name) for module, names in stage.stable_names().items() for name in names}
    assert found == STABLE
