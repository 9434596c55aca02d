"""
Runs the notebook docs/tutorial.ipynb and stores its outputs, which GitHub and the site show:

    python docs/site/notebook.py docs/tutorial.ipynb

Until part 2, AllenNLP cannot be imported, so that the notebook is right about what needs it.
"""

import ast
import base64
import io
import json
import os
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

PART_2 = "## Part 2"
"""Begins the cell from which on the notebook needs AllenNLP."""


class Absent:
    """Finds no AllenNLP."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> None:
        if name.partition(".")[0] in ("allennlp", "allennlp_models"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def main(file: Path, out: Path) -> None:
    notebook = json.loads(file.read_text("utf-8"))
    absent = Absent()
    sys.meta_path.insert(0, absent)  # type: ignore[arg-type]
    names: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"], cell["outputs"] = count, run_cell(source, names, count)
        elif source.startswith(PART_2):
            sys.meta_path.remove(absent)  # type: ignore[arg-type]
    out.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", "utf-8")


def run_cell(source: str, names: dict[str, Any], count: int) -> list[dict[str, Any]]:
    """What Jupyter shows below a cell: what it prints, its figures, and its last value."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, f"cell {count}", "exec"), names)
        value = None
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {count}", "eval"), names)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"name": "stdout", "output_type": "stream", "text": text.splitlines(True)})
    outputs += [
        {"data": {"image/png": image}, "metadata": {}, "output_type": "display_data"}
        for image in figures()
    ]
    if value is not None:
        data = {"text/plain": [repr(value)]}
        outputs.append(
            {
                "data": data,
                "execution_count": count,
                "metadata": {},
                "output_type": "execute_result",
            }
        )
    return outputs


def figures() -> list[str]:
    """The open figures of pyplot as PNG in base64. They are closed."""
    from matplotlib import pyplot

    images = []
    for number in pyplot.get_fignums():
        image = io.BytesIO()
        pyplot.figure(number).savefig(image, format="png", dpi=72, metadata={"Software": None})
        images.append(base64.b64encode(image.getvalue()).decode() + "\n")
    pyplot.close("all")
    return images


if __name__ == "__main__":
    os.environ["MPLBACKEND"] = "Agg"
    main(Path(sys.argv[1]), Path(sys.argv[-1]))
