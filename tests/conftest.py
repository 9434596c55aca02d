"""Tiny biLMs with random weights, in both forms that a config can name, and random cases."""

import json
import os
import resource
import shutil
import subprocess
import sys
import tarfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from itertools import groupby
from pathlib import Path
from random import Random
from typing import Any, ClassVar, NamedTuple

import pytest

# Threads sleep while they wait for one another, also on a busy machine; PyTorch reads it at import.
os.environ["OMP_WAIT_POLICY"] = "passive"
import torch
from allennlp import commands
from allennlp.common import Params, plugins
from allennlp.models import Model
from allennlp.models.archival import archive_model
from torch.overrides import TorchFunctionMode

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.bilm_tf.texts import write_options
from elmo_plugin.formats.bilm_tf.weights import write_weights
from elmo_plugin.modules import BiLM
from elmo_plugin.ops import backend, private_torch, streams
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary, vocabulary_words
from elmo_plugin.text.advice import TextWarning
from tests.as_on_a_gpu import as_on_a_gpu

# The models are tiny, so that a second thread would only wait for the first, and a forked process
# could wait for threads that it does not have. The variable is for commands that tests start.
torch.set_num_threads(1)
os.environ["OMP_NUM_THREADS"] = "1"
# No test cuts the power, without which a synced file is like any other, and a disk takes long to
# sync one. Like `fsync`, `fstat` refuses a number that is no open file.
os.fsync = os.fstat
# Each command looks up all modules of AllenNLP, of plugins and of included packages, which takes
# longer than what most tests do with it. In one process, the first time is enough.
commands.import_plugins = plugins.import_plugins = cache(plugins.import_plugins)
commands.import_module_and_submodules = cache(commands.import_module_and_submodules)

ROOT = Path(__file__).parents[1]
SHARED_DATA = ROOT.parent / "shared" / "data"
"""Data next to the checkout; tests that need it skip if it is not there."""

needs_kernel = pytest.mark.skipif(
    not backend.KERNEL_DTYPES, reason=f"the compiled kernels are {backend.KERNEL_STATUS}"
)

HAS_INT8 = bool(backend.KERNEL_DTYPES) and torch.ops.elmo_plugin.is_supported(torch.int8)
"""Whether the compiled kernels multiply in int8, also where bf16 is used instead."""

NO_KERNELS = (backend.NOT_BUILT, "off, because ELMO_PLUGIN_KERNEL is 0", backend.NO_AVX2)
"""The reasons to skip the tests of the kernels. An old library is none of them."""

WORDS = ["<S>", "</S>", "<UNK>", "the", ".", "dog", "stick", "threw", "he", "to"]
BLOCKS = {
    "lstm": {
        "dim": 24,
        "projection_dim": 8,
        "n_layers": 2,
        "cell_clip": 3.0,
        "proj_clip": 3.0,
        "use_skip_connections": True,
    },
    "char_cnn": {
        "embedding": {"dim": 4},
        "filters": [[1, 4], [2, 8], [3, 8]],
        "n_highway": 1,
        "activation": "relu",
        "max_characters_per_token": 50,
    },
}


def write_file(file: Path, content: str | bytes) -> Path:
    """Write a file, text in UTF-8, and the folders that it needs."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
    return file


def untar(file: str | Path, folder: Path) -> None:
    """Unpack a `.tar` file. Python before 3.11.4 has no filters, and later ones warn without."""
    with tarfile.open(file) as archive:
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", action="store_true", help="also run tests marked long")
    parser.addoption("--fuzz-seed", type=int, default=0, help="the seed of random test cases")
    parser.addoption(
        "--fuzz-factor", type=int, help="times as many random test cases; by default 10 with --long"
    )


def pytest_configure() -> None:
    if not backend.KERNEL_DTYPES and backend.KERNEL_STATUS not in NO_KERNELS:
        raise pytest.UsageError(f"the compiled kernels are {backend.KERNEL_STATUS}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not backend.KERNEL_DTYPES:
        terminalreporter.write_line(
            f"The tests of the compiled kernels were skipped: they are {backend.KERNEL_STATUS}"
        )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--long"):
        return
    left_out = [item for item in items if "long" in item.keywords]
    short = [item for item in items if "sampled" in (x := item.keywords) and "long" not in x]
    for name, of_test in groupby(short, key=lambda item: item.nodeid.partition("[")[0]):
        cases, random = [*of_test], Random(f"{config.getoption('--fuzz-seed')} {name}")
        n = cases[0].get_closest_marker("sampled").args[0]
        left_out += random.sample(cases, max(len(cases) - n, 0))
    for item in left_out:
        item.add_marker(pytest.mark.skip(reason="make test-all runs it"))


@pytest.fixture
def native_bf16(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products in bf16 on all CPUs, also where fp32 is faster and would be used."""
    monkeypatch.setattr(private_torch, "CPU_HAS_BFLOAT16", True)


class Fuzz:
    """Random cases, which are the same for the same `--fuzz-seed`, and `factor` times as many as a
    short run has."""

    def __init__(self, seed: int, factor: int) -> None:
        self._seed = seed
        self._factor = factor

    def cases(self, n: int) -> Iterator[Random]:
        """Yield a generator for each case, so that one case can be repeated by its number."""
        for number in range(n * self._factor):
            yield Random(f"{self._seed} {number}")


@pytest.fixture(scope="session")
def fuzz(pytestconfig: pytest.Config) -> Fuzz:
    option = pytestconfig.getoption
    return Fuzz(option("--fuzz-seed"), option("--fuzz-factor") or (10 if option("--long") else 1))


class Reads(TorchFunctionMode):
    """The functions that are called meanwhile and read numbers, for which a CPU waits."""

    READS = frozenset("tolist item __int__ __float__ __bool__ __index__ cpu nonzero equal".split())

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_function__(self, function: Any, _: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = getattr(function, "__name__", "")
        self.names += [name] if name in self.READS else []
        return function(*args, **(kwargs or {}))


@pytest.fixture(params=["compiled kernel", "PyTorch", "PyTorch as on a GPU"])
def lstm_path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a test with the compiled kernels, and with PyTorch's operators as on a CPU and as on a
    GPU."""
    if request.param.startswith("PyTorch"):
        monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
        if "GPU" in request.param:
            as_on_a_gpu(monkeypatch)
    elif not backend.KERNEL_DTYPES:
        pytest.skip(f"the compiled kernel is {backend.KERNEL_STATUS}")


def allennlp(*arguments: object) -> None:
    """Run a command of `allennlp` in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["allennlp", *map(str, arguments)])
        commands.main(prog="allennlp")


@contextmanager
def threads(number: int) -> Iterator[None]:
    """Let PyTorch use so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Stream(str):
    """Stands in for a CUDA stream, and lists in `done` what it is asked for."""

    done: ClassVar[list[tuple[str, str, Any]]] = []

    def record_event(self) -> str:
        self.done.append((self, "records", ""))
        return f"event of {self}"

    def wait_event(self, event: str) -> None:
        self.done.append((self, "waits for", event))


@pytest.fixture
def in_stream(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[tuple[str, str, Any]]]:
    """
    Calls a function as if a CUDA stream were the current one, and returns what that stream and the
    function did, in order: streams record events, wait for them, or keep a tensor's memory. This
    shows which events there are; only a GPU shows that numbers of one stream reach another.
    """

    def keep(x: torch.Tensor, stream: str) -> None:
        Stream.done.append((stream, "keeps", x.data_ptr()))

    monkeypatch.setattr(torch.Tensor, "record_stream", keep)
    monkeypatch.setattr(Stream, "done", [])

    def call(name: str, function: Callable[..., Any], *arguments: Any) -> Any:
        monkeypatch.setattr(streams, "_stream_of", lambda _: Stream(name))
        Stream.done.clear()
        function(*arguments)
        return [*Stream.done]

    return call


@contextmanager
def file_size_limit(n_bytes: int) -> Iterator[None]:
    """Let the system refuse longer files, as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def without(*packages: str) -> str:
    """Code after which a process finds no such packages, until it removes `absent`."""
    return f"""
import sys
class Absent:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
absent = Absent()
sys.meta_path.insert(0, absent)
"""


def python(
    *arguments: object, folder: Path = ROOT, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, which must succeed, with the repository on its path."""
    done = subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done


class BiLMFiles(NamedTuple):
    options_file: str
    weight_file: str


def write_bilm_files(folder: Path, seed: int = 0) -> BiLMFiles:
    """Write bilm-tf's two files with random weights that are large enough for the clips to
    matter."""
    torch.manual_seed(seed)
    options = BiLMOptions.from_dict(BLOCKS, source="test")
    bilm = BiLM(options)
    for layer in bilm.bilstm.layers:
        for parameter in layer.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    bilm.warm_up()
    folder.mkdir(parents=True, exist_ok=True)
    files = BiLMFiles(str(folder / "options.json"), str(folder / "weights.hdf5"))
    write_options(options, files.options_file)
    write_weights(bilm, files.weight_file)
    return files


def write_bilm_archive(
    folder: Path, projection_dim: int = 8, seed: int = 0, max_characters: int = 50
) -> str:
    """Write the archive of a `bilm` model with random weights."""
    torch.manual_seed(seed)
    lstm = {**BLOCKS["lstm"], "projection_dim": projection_dim}
    char_cnn = {**BLOCKS["char_cnn"], "max_characters_per_token": max_characters}
    config = {
        "dataset_reader": {"type": "bilm"},
        "vocabulary": {"type": "bilm", "corpus": "gone.txt"},
        "model": {"type": "bilm", "lstm": lstm, "char_cnn": char_cnn, "n_negative_samples": 4},
    }
    run = folder / "run"
    run.mkdir(parents=True)
    vocabulary = BiLMVocabulary.from_words(WORDS)
    vocabulary.save_to_files(str(run / "vocabulary"))
    model = Model.from_params(Params(json.loads(json.dumps(config["model"]))), vocab=vocabulary)
    model.bilm.warm_up()
    torch.save(model.state_dict(), run / "best.th")
    (run / "config.json").write_text(json.dumps(config))
    archive_model(run, archive_path=folder)
    shutil.rmtree(run)
    return str(folder / "model.tar.gz")


def export_files(
    model: Any, folder: Path, *, with_softmax: bool, dtype: torch.dtype = torch.float32
) -> None:
    """Write a `BiLMModel` as bilm-tf's files."""
    softmax, words = model.softmax if with_softmax else None, vocabulary_words(model.vocab)
    write_model_files(folder, model.bilm, softmax=softmax, words=words, dtype=dtype)


@pytest.fixture(scope="session")
def bilm_files(tmp_path_factory) -> BiLMFiles:
    return write_bilm_files(tmp_path_factory.mktemp("bilm_files"))


@pytest.fixture(scope="session")
def bilm_archive(tmp_path_factory) -> str:
    return write_bilm_archive(tmp_path_factory.mktemp("bilm_archive"))


@pytest.fixture(scope="module")
def elmo() -> Elmo:
    """The model `tiny`. A file whose tests need another one has a fixture of this name."""
    return Elmo.from_pretrained("tiny")


@pytest.fixture(scope="module")
def model() -> LanguageModel:
    """The same with its softmax, likewise."""
    return LanguageModel.from_pretrained("tiny")


Said = Callable[[], list[str]]


@pytest.fixture
def said() -> Iterator[Said]:
    """The messages of `TextWarning` since the last call of this function."""
    with warnings.catch_warnings(record=True) as records:
        warnings.simplefilter("always")

        def take() -> list[str]:
            messages = [str(x.message) for x in records if issubclass(x.category, TextWarning)]
            records.clear()
            return messages

        yield take
