"""The notebook of the documentation."""

import ast
import json
from pathlib import Path

import pytest

from tests.conftest import python, without
from tests.docs.pages import NOTEBOOK

CELLS = json.loads(NOTEBOOK.read_text("utf-8"))["cells"]
PART_2 = "## Part 2"
"""Begins the cell from which on the notebook needs AllenNLP."""
WITHOUT_ALLENNLP = without("allennlp", "allennlp_models")
WITH_ALLENNLP = "sys.meta_path.remove(absent)"


def test_cells_are_plain_python_without_outputs() -> None:
    """Python parses each cell, so there is no magic such as `%matplotlib` and no `!command`, which
    only Jupyter understands. Stored outputs could be those of an earlier version."""
    for cell in CELLS:
        if cell["cell_type"] == "code":
            ast.parse("".join(cell["source"]))
            assert (cell["outputs"], cell["execution_count"]) == ([], None), cell["source"][0]
        assert cell["metadata"] == {}, cell["source"][0]


@pytest.mark.docs
def test_notebook(tmp_path: Path) -> None:
    """
    The cells run in order in a Python process of their own, in the notebook's folder. Jupyter does
    the same with plain Python, and shows the values of last lines too. What the text claims is
    asserted in the cells. AllenNLP cannot be imported before part 2.
    """
    code = [WITHOUT_ALLENNLP]
    for cell in CELLS:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            code.append(text)
        elif text.startswith(PART_2):
            code.append(WITH_ALLENNLP)
    assert code.count(WITH_ALLENNLP) == 1
    script = tmp_path / "tutorial.py"
    script.write_text("\n".join(code), "utf-8")
    python(script, folder=NOTEBOOK.parent, MPLBACKEND="Agg", TMPDIR=str(tmp_path))
