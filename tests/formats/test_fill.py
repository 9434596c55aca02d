"""All formats fill the modules in the same way, and refuse the same: other arrays than the options
describe, and damaged files. A format's own tests compare its numbers with its own program."""

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import pytest
import torch

from elmo_plugin.checks import InputError
from elmo_plugin.formats.find import find_bilm
from tests.conftest import Fuzz, untar, write_bilm_files, write_file
from tests.damage import check_damaged
from tests.formats.bilm_tf.test_published_softmax import write_parts
from tests.formats.tasks import write_task
from tests.formats.test_elmoformanylangs import write_model
from tests.formats.tf_checkpoint.test_tf_checkpoint import make
from tests.formats.tf_checkpoint.writer import their_name, write_checkpoint

Arrays = dict[str, np.ndarray]


class Format(NamedTuple):
    """The files of a model with its sizes and its weights, and the names of an array in it, and of
    one of a further layer."""

    sizes: str
    weights: str
    array: str
    further: str


CELL = "RNN_0/RNN/MultiRNNCell/Cell{}/LSTMCell/B"
TASK = "_text_field_embedder.token_embedder_elmo._elmo."
LAYER = "bilm.bilstm.layers.{}.bias"
BIAS = "backward_layer_{}.state_linearity.bias"

FORMATS = {
    "bilm-tf": Format("options.json", "weights.hdf5", CELL.format(1), CELL.format(2)),
    "softmax": Format("options.json", "softmax_weights.hdf5", "softmax/b", "CNN_high_1/b_carry"),
    "checkpoint": Format("options.json", "model.ckpt-1250", CELL.format(1), CELL.format(2)),
    "run": Format("config.json", "best.th", LAYER.format(1), LAYER.format(2)),
    "task": Format(
        "vocabulary/elmo_options.txt", "best.th", TASK + LAYER.format(1), TASK + LAYER.format(2)
    ),
    "ELMoForManyLangs": Format("sizes.json", "encoder.pkl", BIAS.format(2), BIAS.format(3)),
}


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory, bilm_archive: str) -> Path:
    """A folder for each format with a model in the folder `model`."""
    folder = tmp_path_factory.mktemp("originals")
    for name in FORMATS:
        (folder / name).mkdir()
    write_bilm_files(folder / "bilm-tf" / "model")
    write_parts(folder / "softmax" / "model")
    make(folder / "checkpoint" / "model")
    untar(bilm_archive, folder / "run" / "model")
    (folder / "run" / "model" / "weights.th").rename(folder / "run" / "model" / "best.th")
    write_task(folder / "task" / "model", elmo={"archive_file": bilm_archive})
    write_model(folder / "ELMoForManyLangs" / "model", seed=1)
    return folder


@pytest.fixture(params=FORMATS)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def model(name: str, originals: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The model of a format, and a folder of its own for temporary files."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    shutil.copytree(originals / name, tmp_path / name)
    return tmp_path / name / "model"


def rewrite(file: Path, change: Callable[[Arrays], Any]) -> None:
    """Write other arrays, by h5py, by PyTorch or by the tests' writer of checkpoints, without the
    digests and the options that only this package writes."""
    if file.suffix in (".th", ".pkl"):
        state = torch.load(file, weights_only=True)
        # A task model has its embedders under a second name.
        arrays = {k: x.numpy() for k, x in state.items() if not k.startswith("encoder.reads")}
        change(arrays)
        torch.save({k: torch.from_numpy(np.array(x)) for k, x in arrays.items()}, file)
        return
    hdf5 = file if file.suffix == ".hdf5" else file.parent.with_name("weights.hdf5")
    arrays = {}
    with h5py.File(hdf5) as opened:
        opened.visititems(lambda k, x: arrays.update({k: x[()]} if hasattr(x, "shape") else {}))
    change(arrays)
    if hdf5 != file:
        write_checkpoint(file, {their_name(k, n_layers=2): x for k, x in arrays.items()})
        return
    with h5py.File(file, "w") as opened:
        for key, array in arrays.items():
            opened[key] = array


def set_size(file: Path, key: str, value: Any) -> None:
    """Change a size wherever the options in a file have its key."""

    def changed(found: Any) -> Any:
        if not isinstance(found, dict):
            return found
        return {k: value if k == key else changed(x) for k, x in found.items()}

    text = file.read_text()
    parts = text.split("\n") if file.suffix == ".txt" else [text]
    parts = [json.dumps(changed(json.loads(x))) if x.startswith("{") else x for x in parts]
    file.write_text("\n".join(parts))


def state(named: Path) -> dict[str, Any]:
    """The words, and the bytes of all weights."""
    found = find_bilm(named, with_softmax=True)
    modules = torch.nn.ModuleList(filter(None, [found.bilm, found.softmax]))
    return {"words": found.words} | {
        k: x.numpy().tobytes() for k, x in modules.state_dict().items()
    }


def with_number(place: int, number: float) -> Callable[[np.ndarray], np.ndarray]:
    def change(array: np.ndarray) -> np.ndarray:
        array = array.copy()
        array.flat[place] = number
        return array

    return change


CHANGES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "shorter": lambda array: array[..., :-1],
    "a single number": lambda array: array.flat[0],
    "whole numbers": lambda array: array.astype("i4"),
    "NaN": with_number(3, np.nan),
    "infinity": with_number(3, -np.inf),
    "numbers beyond float32": lambda array: np.full(array.shape, 1e300),
}


@pytest.mark.sampled(16)
@pytest.mark.parametrize("change", [*CHANGES, "missing", "a further layer"])
def test_other_arrays(model: Path, name: str, change: str) -> None:
    """By definition: the error names the file or folder and the array. Unchanged, the arrays are
    read."""
    weights, array = model / FORMATS[name].weights, FORMATS[name].array

    def edit(arrays: Arrays) -> None:
        if change == "missing":
            del arrays[array]
        elif change == "a further layer":
            arrays[FORMATS[name].further] = arrays[array]
        else:
            arrays[array] = CHANGES[change](arrays[array])

    rewrite(weights, lambda _: None)
    find_bilm(model, with_softmax=True)
    rewrite(weights, edit)
    named = re.escape(FORMATS[name].further if change == "a further layer" else array)
    with pytest.raises(InputError, match=f"^{model}.*{named}: expected .*, found"):
        find_bilm(model, with_softmax=True)


SIZES: list[tuple[str, Any]] = [
    ("n_layers", 1),
    ("n_layers", 4),
    ("n_layers", 20_000),
    ("dim", 10**18),
    ("dim", 10**30),
    ("projection_dim", 10**9),
    ("filters", [[1, 10**9]]),
    ("filters", [[1, 4]] * 100_000),
    ("n_highway", 0),
]


@pytest.mark.sampled(18)
@pytest.mark.parametrize("key, value", SIZES, ids=lambda value: str(value)[:30])
def test_other_sizes(model, name, key, value, monkeypatch):
    """By definition: the error names the model before memory is taken: modules are built only
    without memory, on PyTorch's device "meta". Fewer layers than the file has would give the
    vectors of another model."""
    rewrite(model / FORMATS[name].weights, lambda _: None)
    set_size(model / FORMATS[name].sizes, key, value)
    init = torch.nn.Module.__init__

    def only_meta(*args: Any, **kwargs: Any) -> None:
        assert isinstance(args[0], torch.nn.ModuleDict) or torch.empty(0).device.type == "meta"
        init(*args, **kwargs)

    monkeypatch.setattr(torch.nn.Module, "__init__", only_meta)
    with pytest.raises(InputError, match=f"^{model}"):
        find_bilm(model, with_softmax=True)


PACKED = {".tar.gz": "gztar", ".zip": "zip"}
SEALED: dict[str, tuple[str, ...]] = {
    "bilm-tf": ("options.json", "weights.hdf5", ".zip"),
    "checkpoint": ("*.index", "*.data-*"),
    "run": ("best.th", ".tar.gz"),
    "task": ("best.th",),
    "ELMoForManyLangs": ("encoder.pkl",),
}
"""Files with checksums, by patterns, and files in which the folder is packed."""


@pytest.mark.parametrize(
    "name, pattern", [(name, x) for name in SEALED for x in SEALED[name]], indirect=["name"]
)
def test_damaged_files(model: Path, pattern: str, fuzz: Fuzz) -> None:
    """By definition: damage is an error that names the file or the folder, or all weights and words
    are the same, because files have bytes that do not matter. Nothing stays behind."""
    named, files = model, sorted(model.glob(pattern))
    if pattern in PACKED:
        named = Path(shutil.make_archive(str(model), PACKED[pattern], model))
        files = [named]

    def read() -> dict[str, Any]:
        try:
            return state(named)
        finally:
            assert not list(Path(tempfile.gettempdir()).iterdir())

    assert check_damaged(files, read, fuzz.cases(40), names=str(named)) > 10


@pytest.mark.parametrize("name", ["ELMoForManyLangs", "bilm-tf"], indirect=True)
def test_damaged_texts(model: Path, name: str, fuzz: Fuzz) -> None:
    """By definition: text has no checksum, so it may say something else, but nothing other than an
    `InputError` is raised. Without the options in it, a weight file fits to others too."""
    rewrite(model / FORMATS[name].weights, lambda _: None)
    files = [x for x in model.iterdir() if x.suffix in (".json", ".dic", ".txt")]

    def read() -> None:
        find_bilm(model)

    assert check_damaged(files, read, fuzz.cases(40), names=str(model))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("kind", ["zip", "gztar"])
@pytest.mark.parametrize("inside", [True, False])
def test_a_packed_folder(model: Path, kind: str, inside: bool, tmp_path: Path) -> None:
    """It is packed with or without the folder's own name, next to other files. The expected weights
    and words are those of the folder. Old PowerShell writes backslashes into zip files."""
    expected = state(model)
    folder = shutil.copytree(model, tmp_path / "packed" / "de")
    (folder / "._options.json").write_text("of another system")
    (folder / "events.out").write_text("of a training")
    path = shutil.make_archive(str(tmp_path / "file"), kind, folder.parent if inside else folder)
    assert state(Path(path)) == state(folder.parent) == expected
    with_backslashes = re.sub(rb"de/(?=\w+\.)", rb"de\\", Path(path).read_bytes())
    assert kind != "zip" or state(write_file(Path(path), with_backslashes)) == expected


def test_a_table_without_rows(originals: Path, tmp_path: Path) -> None:
    """By hand: one number is no table."""
    shutil.copytree(originals / "ELMoForManyLangs" / "model", tmp_path / "model")
    number = {"char_emb_layer.embedding.weight": np.array(1.0, "f4")}
    rewrite(tmp_path / "model" / "token_embedder.pkl", lambda x: x.update(number))
    with pytest.raises(InputError, match="n_code_points: expected a whole number from 1"):
        find_bilm(tmp_path / "model")
