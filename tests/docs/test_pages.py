"""The documentation's links, blocks and quotations, which take only seconds to check."""

import argparse
import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from allennlp.common import checks, registrable
from allennlp.modules.text_field_embedders import basic_text_field_embedder
from allennlp.training import util as training_util

from tests.docs import pages
from tests.docs.configs import evaluate, registered_names, types
from tests.docs.folder import prepare
from tests.docs.pages import ALL_BLOCKS, OUTPUT, PAGES, ROOT, Block
from tests.docs.test_reference import registered

COMMAND = re.compile(r"(allennlp|python -m elmo_plugin) ([a-z-]+)( [^\n`]+)")
"""A program, its command, and the arguments."""
REGISTERS = ("train", "evaluate", "predict")
"""AllenNLP's commands that use registered names."""
CHECKED = [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md", pages.NOTEBOOK]
CHECKED += [ROOT / name for name in ("benchmarks/README.md", "experiments/README.md")]
CHECKED += [ROOT / "experiments" / name for name in ("details.md", "models.md")]
CHECKED += [*ROOT.glob("elmo_plugin/pretrained/*/*.md"), *ROOT.glob("models/*/*/*.md")]
POINTING = [file for file in pages.SOURCES if any(pages.links(file))]
"""The sources that name pages."""


def name_of(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", [*CHECKED, *POINTING], ids=name_of)
def test_links_lead_somewhere(file: Path) -> None:
    """A link names a file or a folder of the repository, and a heading if it has an anchor. Links
    to other sites are not followed. Messages, docstrings and comments name a page from the root of
    the repository or from their own folder, and quote the heading, if they name one."""
    for link in pages.links(file):
        if link.target.startswith(("http://", "https://")):
            continue
        name, _, anchor = link.target.partition("#")
        root = ROOT if file in POINTING and (ROOT / name).exists() else file.parent
        target = (root / name).resolve() if name else file
        assert target.exists(), f"{file.name}: {link}"
        assert not anchor or anchor in pages.anchors(target), f"{file.name}: {link}"


@pytest.mark.parametrize("page", [x for x in CHECKED if x.suffix == ".md"], ids=name_of)
def test_words_of_the_field(page: Path) -> None:
    """By definition: these phrases are vague, and others are what a reader would search for."""
    vague = "told apart|a line says so|(?:is|are) refused|lets go of|under `carry`"
    assert not re.findall(vague, re.sub(r"\s+", " ", page.read_text("utf-8")))


def test_contributing_lists_the_targets_of_the_makefile() -> None:
    """The expected targets and their order are those of `.PHONY`, which make itself reads."""
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    (phony,) = re.findall(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    listed = re.findall(r"^make ([\w-]+)", text.partition("```bash\n")[2].partition("```")[0], re.M)
    assert listed == phony.split()


def test_the_short_tests_exist() -> None:
    """pytest runs nothing if one of the files that the Makefile names is not there."""
    makefile = (ROOT / "Makefile").read_text("utf-8").replace("\\\n", " ")
    (names,) = re.findall(r"^SHORT := (.+)$", makefile, re.MULTILINE)
    assert [name for name in names.split() if not (ROOT / "tests" / name).exists()] == []


SAVED = ("json", "toml")


def test_each_block_is_run_or_says_why_not() -> None:
    """`make docs-test` runs bash, Python and jsonnet, and compares what they print with an `OUTPUT`
    after them. `text` is anything else that is only shown, and `SAVED` are saved as files."""
    outputs = 0
    for block in ALL_BLOCKS:
        known = block.language in ("bash", "python", "jsonnet", "text", *SAVED, OUTPUT)
        assert known or block.not_run, block
        assert block.language not in SAVED or block.file, block
        if block.output is not None:
            assert block.language in ("bash", "python") and not block.not_run, block
            outputs += 1
    assert outputs == sum(block.language == OUTPUT for block in ALL_BLOCKS)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    prepare(folder)
    for block in ALL_BLOCKS:
        if block.file:
            (folder / block.file).write_text(block.code)
    return folder


@pytest.mark.parametrize(
    "block", [b for b in ALL_BLOCKS if b.language == "jsonnet" and not b.not_run], ids=str
)
def test_jsonnet(block: Block, folder: Path) -> None:
    """Jsonnet evaluates, and each `type` in it is known to AllenNLP, or a page registers it."""
    config = evaluate(block.code, folder, BILM_ARCHIVE="pretrained://small")
    code = "".join(block.code for block in ALL_BLOCKS if block.language == "python")
    own = re.findall(r'^@\w+\.register\("(\w+)"\)', code, re.MULTILINE)
    unknown = set(types(config)) - registered_names() - set(own)
    assert not unknown


def test_navigation_has_each_page_once() -> None:
    """The navigation is that of the site; the pages are the files of `docs/`."""
    site = tomllib.loads((ROOT / "zensical.toml").read_text())
    named = re.findall(r"'(\w+\.md)'", str(site["project"]["nav"]))
    expected = ["index.md", "api.md", "tutorial.md", *(page.name for page in pages.DOCS)]
    assert sorted(named) == sorted(expected)


@pytest.mark.parametrize("file", sorted((ROOT / "docs").rglob("*.svg")), ids=lambda file: file.name)
def test_pictures_are_described(file: Path) -> None:
    """A screen reader announces a title and a description, as an SVG's first elements."""
    head = file.read_text("utf-8")[:4000]
    assert re.search(
        r'<svg role="img" [^>]+>\s*<title>[^<]{9,}</title>\s*<desc>[^<]{60,}</desc>', head
    )


def test_messages_of_the_trouble_page_exist() -> None:
    """Each message is part of a string in the source of our packages, of AllenNLP or of argparse,
    where `…` replaces formatted values. In the tables of messages they come first."""
    others = (registrable, checks, training_util, argparse, basic_text_field_embedder)
    sources = [*ROOT.glob("elmo_plugin/**/*.py"), *ROOT.glob("allennlp_today/*.py")]
    sources += [Path(x.__file__) for x in others]
    strings = {text for source in sources for text in literals(source.read_text("utf-8"))}
    text = (ROOT / "docs" / "trouble.md").read_text("utf-8")
    text = re.sub(r"^## No message$.*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL)
    messages = re.findall(r"^\| `([^`]+)`", text, re.MULTILINE)
    assert len(messages) > 30
    unknown = [m for m in messages if not any(m in string for string in strings)]
    assert not unknown


def literals(source: str) -> Iterator[str]:
    """The strings of a module, with `…` for formatted values."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = (part.value if isinstance(part, ast.Constant) else "…" for part in node.values)
            yield "".join(map(str, parts))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield re.sub(r"%(\(\w+\))?[rsd]", "…", node.value)


def test_each_command_is_written_in_one_of_two_ways() -> None:
    """The plugin's commands are written as `python -m elmo_plugin`. AllenNLP's own may also be
    written as its users expect, as `allennlp` with `--include-package elmo_plugin`, or with
    `--include-package allennlp_today`, where there is no ELMo. The names are those of AllenNLP's
    registry."""
    own = {name for kind, name in registered() if kind == "command"}
    files = [*CHECKED, *(ROOT / "recipes").glob("*.*")]
    files += (ROOT / "training_configs").rglob("*.*sonnet")
    wrong = []
    for file in files:
        text = re.sub(r"\\\n(//)?", "", file.read_text("utf-8"))
        for program, name, arguments in COMMAND.findall(text):
            includes = re.search(r"--include-package (elmo_plugin|allennlp_today)\b", arguments)
            needs_elmo = name in own or (name in REGISTERS and not includes)
            if program == "allennlp" and needs_elmo:
                wrong.append(f"{file.name}: {program} {name}{arguments}")
    assert not wrong
