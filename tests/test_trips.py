"""
How many files of the package a reader has to open to follow a piece of work from its call to its
numbers: those whose functions it enters. A change that raises a limit should be worth another open
file to every reader.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import elmo_plugin
from elmo_plugin import Elmo, LanguageModel
from tests.conftest import BLOCKS, ROOT, needs_kernel, threads

pytestmark = needs_kernel  # without kernels, other files compute

PACKAGE = Path(elmo_plugin.__file__).parent
KNOWN = ["He threw the stick to the dog .".split()]
NEW = ["Quizzical zephyrs vexed Jocasta yesterday .".split()]


def files_visited(work: Callable[[], Any]) -> list[str]:
    """The files of the package that have functions which `work` enters, in the order of visits."""
    files: list[str] = []

    def profile(frame: Any, event: str, _: Any) -> None:
        file = Path(frame.f_code.co_filename)
        is_call = event == "call" and frame.f_code.co_name != "<module>"
        if is_call and file.is_relative_to(PACKAGE):
            name = file.relative_to(PACKAGE).with_suffix("").as_posix()
            if name not in files:
                files.append(name)

    with threads(1):
        sys.setprofile(profile)
        try:
            work()
        finally:
            sys.setprofile(None)
    return files


def check(work: Callable[[], Any], most: int) -> None:
    files = files_visited(work)
    assert 0 < len(files) <= most, f"{len(files)} files: {' '.join(files)}"


def test_the_files_are_counted() -> None:
    """By hand: the check of a flag is in one file, and Python's own functions are in none."""
    assert files_visited(lambda: json.loads("{}")) == []
    assert files_visited(lambda: elmo_plugin.checks.check_flag("a", True)) == ["checks"]


def test_loading_a_model() -> None:
    check(lambda: Elmo.from_pretrained("small"), most=24)


def test_the_vectors_of_a_new_sentence() -> None:
    elmo = Elmo.from_pretrained("small")
    elmo.embed(KNOWN)
    check(lambda: elmo.embed(NEW), most=18)


def test_the_scores_of_a_sentence() -> None:
    model = LanguageModel.from_pretrained("small")
    model.score(KNOWN)
    check(lambda: model.score(NEW), most=20)


def test_a_window_of_training(tmp_path: Path) -> None:
    """A window of the loader, which it reads in a thread, forward, backward and step."""
    loader, model, optimizer = training(tmp_path)
    windows = iter(loader)

    def step() -> None:
        optimizer.zero_grad()
        model(**next(windows))["loss"].backward()
        optimizer.step()

    step()
    check(step, most=20)


def training(folder: Path) -> tuple[Any, Any, Any]:
    """A loader, a model and an optimizer, made from a config as AllenNLP does."""
    from allennlp.common import Params
    from allennlp.data import DataLoader, DatasetReader, Vocabulary
    from allennlp.models import Model
    from allennlp.training.optimizers import Optimizer

    import elmo_plugin.plugin  # noqa: F401

    text, cache = str(ROOT / "fixtures" / "text" / "train.txt"), {"cache_dir": str(folder)}
    reader = DatasetReader.from_params(Params({"type": "bilm"}))
    config = {"type": "bilm", "batch_size": 4, "window": 8, **cache}
    loader = DataLoader.from_params(Params(config), reader=reader, data_path=text)
    vocab = Vocabulary.from_params(Params({"type": "bilm", "corpus": text, **cache}))
    loader.index_with(vocab)
    config = {"type": "bilm", **BLOCKS, "n_negative_samples": 20}
    model = Model.from_params(Params(config), vocab=vocab).train()
    parameters = [(name, x) for name, x in model.named_parameters() if x.requires_grad]
    optimizer = Optimizer.from_params(Params({"type": "fused_adam"}), model_parameters=parameters)
    return loader, model, optimizer
