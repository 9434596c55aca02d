"""A link to a missing file ends `make docs` with its page and its line. Zensical names those of a
link to a missing anchor."""

import inspect
import re
from pathlib import Path

import pytest

from docs.site import stage
from elmo_plugin import Elmo
from elmo_plugin.plugin.token_embedders.elmo_token_embedder import ElmoEmbedder
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


def test_parameters_that_are_passed_on_are_described() -> None:
    """Expected: the entries of the docstring of `Elmo`, whose types lose their backticks, and
    nothing in place of them that says where they are."""
    pytest.importorskip("griffe")
    from docs.site.docstrings import converted

    text = converted(inspect.getdoc(ElmoEmbedder) or "")
    for name in ("num_output_representations", "initial_state", "cache_size_gb"):
        (entry,) = re.findall(rf"^{name} : (.+)\n    \S", text, re.MULTILINE)
        assert not entry.startswith("`") and f"{name} : `{entry.partition(',')[0]}`" in elmo_doc()
    assert "kwargs" not in text and "see `Elmo`" not in text


def elmo_doc() -> str:
    return inspect.getdoc(Elmo) or ""
