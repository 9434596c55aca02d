"""
Writes the pages that `make docs` builds, to build/docs: the README, those of docs/, the API
reference, and a page for each file and folder that they link to.

    python docs/site/stage.py
"""

import ast
import json
import re
import shutil
import sys
from os.path import relpath
from pathlib import Path

ROOT = Path(__file__).parents[2]
OUT = ROOT / "build" / "docs"
PACKAGES = ROOT / "elmo_plugin", ROOT / "allennlp_today"
LINK = re.compile(r"\]\((?!https?:|data:|#)([^)#\s]+)(#[^)]*)?\)")
IMAGES = (".png", ".svg")
LANGUAGES = {".jsonnet": "jsonnet", ".libsonnet": "jsonnet", ".py": "python", ".cpp": "cpp"}


def main() -> None:
    shutil.rmtree(OUT, ignore_errors=True)
    (OUT / "api").mkdir(parents=True)
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        stage(page)
    shutil.copy(Path(__file__).with_name("extra.css"), OUT)
    stable = [
        f"| [`{module}`](api/stable/{module}.md) | {', '.join(f'`{name}`' for name in names)} |"
        for module, names in stable_names().items()
    ]
    for module, names in stable_names().items():
        write_stable(module, names)
    internal = [
        f"| [`{write_reference(folder)}`](api/{name_of(folder)}.md) | {summary(folder)} |"
        for folder in folders()
    ]
    lines = [
        "# API reference\n\nThese names [keep working](stability.md).\n",
        *("| module | names |", "|---|---|", *stable),
        "\n## All modules\n\nFor developers: other names may change in any release.\n",
        *("| module | contents |", "|---|---|", *internal),
    ]
    (OUT / "api.md").write_text("\n".join(lines) + "\n")


def stage(source: Path) -> Path:
    """Write the page of a file or a folder and of all that it links to. Return its path."""
    page = page_of(source)
    if page.exists():
        return page
    page.parent.mkdir(parents=True, exist_ok=True)
    page.touch()
    if source.suffix in IMAGES:
        shutil.copy(source, page)
        return page
    if source.suffix in (".md", ".ipynb"):
        text = source.read_text("utf-8")
        if source.suffix == ".ipynb":
            text = notebook_as_markdown(text)
        text = LINK.sub(lambda link: relink(link, source, page), text)
    elif source.is_dir():
        entries = sorted(entry for entry in source.iterdir() if not is_hidden(entry))
        lines = [f"- [`{entry.name}`]({relpath(stage(entry), page.parent)})" for entry in entries]
        text = "\n".join([f"# {source.relative_to(ROOT)}\n", *lines]) + "\n"
    else:
        language = LANGUAGES.get(source.suffix, "text")
        code = source.read_text("utf-8")
        text = f"# {source.relative_to(ROOT)}\n\n````{language}\n{code}````\n"
    page.write_text(text, "utf-8")
    return page


def notebook_as_markdown(notebook: str) -> str:
    """The text of a notebook's file, with its code as blocks of Python, and its outputs."""
    parts = []
    for cell in json.loads(notebook)["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "image/png" in data:
                parts.append(f"![picture](data:image/png;base64,{data['image/png'].strip()})")
            else:
                shown = "".join(output.get("text") or data["text/plain"]).rstrip()
                parts.append(f'```text title="Output"\n{shown}\n```')
    return "\n\n".join(parts) + "\n"


def page_of(source: Path) -> Path:
    if source == ROOT / "README.md":
        return OUT / "index.md"
    if source.parent == ROOT / "docs" and source.suffix in (".md", ".ipynb"):
        return OUT / source.with_suffix(".md").name
    name = source.name if source.suffix in IMAGES else source.name.removesuffix(".md") + ".md"
    return OUT / "files" / source.relative_to(ROOT).with_name(name)


def relink(link: re.Match[str], source: Path, page: Path) -> str:
    target = (source.parent / link[1]).resolve()
    if not target.exists():
        line = link.string.count("\n", 0, link.start()) + 1
        sys.exit(f"{relpath(source, ROOT)}, line {line}: the link to {link[1]} leads nowhere")
    return f"]({relpath(stage(target), page.parent)}{link[2] or ''})"


def is_hidden(entry: Path) -> bool:
    return entry.name.startswith((".", "__")) or entry.suffix in (".hdf5", ".so")


def stable_names() -> dict[str, list[str]]:
    """The names of each module that docs/stability.md lists."""
    text = (ROOT / "docs" / "stability.md").read_text("utf-8").partition("\n## Python names\n")[2]
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", text.partition("\n## ")[0], re.MULTILINE)
    return {module: re.findall(r"`(\w+)`", names) for module, names in rows}


def write_stable(module: str, names: list[str]) -> None:
    """Write the reference of a module's stable names."""
    parts = [f"# {module}\n", *(f"::: {module}.{name}\n" for name in names)]
    page = OUT / "api" / "stable" / f"{module}.md"
    page.parent.mkdir(exist_ok=True)
    page.write_text("\n".join(parts))


def folders() -> list[Path]:
    return [entry.parent for package in PACKAGES for entry in sorted(package.rglob("__init__.py"))]


def name_of(folder: Path) -> str:
    return ".".join(folder.relative_to(ROOT).parts)


def summary(folder: Path) -> str:
    """The first sentence of a package's docstring."""
    text = ast.get_docstring(ast.parse((folder / "__init__.py").read_text("utf-8"))) or ""
    return " ".join(re.split(r"(?<=\.)\s", text, maxsplit=1)[0].split())


def write_reference(folder: Path) -> str:
    """Write the API reference of a folder of a package. Return the folder's module."""
    package = name_of(folder)
    modules = (f"{package}.{file.stem}" for file in sorted(folder.glob("[a-z]*.py")))
    text = f"# {package}\n\n::: {package}\n    options:\n      show_root_heading: false\n\n"
    text += "".join(f"::: {module}\n\n" for module in modules)
    (OUT / "api" / f"{package}.md").write_text(text)
    return package


if __name__ == "__main__":
    main()
