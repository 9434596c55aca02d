"""Runs the documentation's commands as they are printed, in the order of the page, in a folder that
`prepare` has filled. `make docs-test` runs these tests."""

import doctest
import io
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import pytest
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.util import prepare_environment

from tests.conftest import write_bilm_archive
from tests.docs.configs import evaluate
from tests.docs.folder import prepare
from tests.docs.pages import ALL_BLOCKS, OUTPUT, ROOT

TIMEOUT = 600


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory) -> Callable[[str], Path]:
    """Return a page's folder, in which `OUT` is a trained biLM unless the page trains it."""
    folders: dict[str, Path] = {}

    def folder_of(page: str) -> Path:
        if page not in folders:
            folders[page] = folder = tmp_path_factory.mktemp(Path(page).stem)
            prepare(folder)
            if "-s OUT" not in (ROOT / page).read_text():
                write_bilm_archive(folder / "OUT")
        return folders[page]

    return folder_of


@pytest.fixture(scope="session")
def variables() -> dict[str, dict[str, Any]]:
    """The Python variables of each page."""
    return {}


@pytest.mark.docs
@pytest.mark.parametrize(
    "block", [b for b in ALL_BLOCKS if b.language not in ("text", OUTPUT)], ids=str
)
def test_block(block, folder_of, variables, monkeypatch):
    """A command succeeds, Python runs, and a config is one of which AllenNLP constructs all. What
    is printed is what the page shows, where `...` stands for anything, as in `doctest`."""
    if block.not_run:
        pytest.skip(block.not_run)
    folder = folder_of(block.page)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setenv("BILM_ARCHIVE", "pretrained://small")
    if block.file:
        (folder / block.file).write_text(block.code)
    printed = ""
    if block.language == "bash":
        printed = _run(block.code, folder)
    elif block.language == "python":
        names = variables.setdefault(block.page, {"__name__": block.page})
        with redirect_stdout(io.StringIO()) as standard_output:
            exec(compile(block.code, str(block), "exec"), names)
        printed = standard_output.getvalue()
    elif block.language == "jsonnet":
        config = evaluate(block.code, folder)
        if {"dataset_reader", "model", "trainer"} <= config.keys():
            params = Params(config)
            prepare_environment(params)
            run = str(folder / f"constructed{block.line}")
            TrainModel.from_params(params, serialization_dir=run, local_rank=0, batch_weight_key="")
    if block.output is not None:
        same = doctest.OutputChecker().check_output(block.output, printed, doctest.ELLIPSIS)
        assert same, f"{block} prints\n{printed}\nand the page shows\n{block.output}"


def _run(code: str, folder: Path) -> str:
    """Run `code` in `folder` and return what it prints to standard output."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", code],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
    )
    assert done.returncode == 0, f"{code}\n{done.stdout[-2000:]}\n{done.stderr[-4000:]}"
    return done.stdout
