"""The notebook of the documentation."""

import ast
import json
import re
from pathlib import Path
from typing import Any

import pytest

from docs.site.notebook import PART_2
from tests.conftest import ROOT, python
from tests.docs.pages import NOTEBOOK


def cells_of(file: Path) -> list[dict[str, Any]]:
    return json.loads(file.read_text("utf-8"))["cells"]


def shown(cells: list[dict[str, Any]]) -> list[list[str]]:
    """
    The texts and the kinds of the outputs of each cell of code. The numbers in part 2 depend on
    the documentation that is installed and on the processor, and are left out.
    """
    found, trained = [], False
    for cell in cells:
        trained = trained or "".join(cell["source"]).startswith(PART_2)
        if cell["cell_type"] == "code":
            texts = [
                "".join(output.get("text") or output["data"].get("text/plain", ["a picture"]))
                for output in cell["outputs"]
            ]
            found.append([re.sub(r"[\d.]+", "N", x) for x in texts] if trained else texts)
    return found


def test_cells_are_plain_python_and_have_run() -> None:
    """Python parses each cell, so there is no magic such as `%matplotlib` and no `!command`, which
    only Jupyter understands. All cells have run in their order, without a warning or an error."""
    code = [cell for cell in cells_of(NOTEBOOK) if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    for cell in code:
        ast.parse("".join(cell["source"]))
        kinds = {(x["output_type"], x.get("name")) for x in cell["outputs"]}
        expected = {("stream", "stdout"), ("display_data", None), ("execute_result", None)}
        assert kinds <= expected, cell["source"][0]
        assert cell["metadata"] == {}, cell["source"][0]
    assert NOTEBOOK.stat().st_size < 200_000


@pytest.mark.docs
def test_notebook(tmp_path: Path) -> None:
    """The stored outputs are those of a run in a Python process of its own, in which AllenNLP
    cannot be imported before part 2."""
    run, out = ROOT / "docs/site/notebook.py", tmp_path / "tutorial.ipynb"
    python(run, NOTEBOOK, out, folder=NOTEBOOK.parent, TMPDIR=str(tmp_path))
    assert shown(cells_of(out)) == shown(cells_of(NOTEBOOK))
