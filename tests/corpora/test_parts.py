"""
Results that are written in parts: a run that is killed and resumed, another rounding, damaged
parts, parts of something else, a full disk and two processes. This is one mechanism for all
commands; tests/commands/test_long_runs.py has what each of them calls another run.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NoReturn

import h5py
import numpy as np
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.corpora import parts as parts_module
from elmo_plugin.corpora.parts import RECORD, check_no_results, write_results
from elmo_plugin.corpora.writers import Columns, LineVectors, Matrix, TextTable, Writer
from elmo_plugin.files.atomic_write import DiskFullError
from elmo_plugin.text.sentence import Row, Sentence, groups
from tests.conftest import BiLMFiles, file_size_limit, threads, write_bilm_files
from tests.damage import damage

TEXT = ["He threw the stick", "dog", "the dog", "Nobody saw it", "the dog", "A", "a dog"]
COLUMNS = ["sentence", "value"]
TYPES = dict(zip(COLUMNS, map(np.dtype, ("<i8", "<f4"))))
WRITERS: dict[str, Callable[[], Writer]] = {
    "csv": lambda: TextTable("csv", COLUMNS),
    "jsonl": lambda: TextTable("jsonl", COLUMNS),
    "columns": lambda: Columns(TYPES, {}),
    "lines": lambda: LineVectors({text: n for n, text in enumerate(TEXT)}, False),
    "matrix": lambda: Matrix((16,), "float32"),
}


def interrupt(*_: Any) -> NoReturn:
    raise KeyboardInterrupt


class Run:
    """
    Writes a number or a vector for each sentence, in parts of two sentences. `computed`: the first
    sentence of each batch. Tests replace `at_batch` and `at_join`, which do nothing before a batch
    is computed and before the parts are joined.
    """

    def __init__(self, kind: str, elmo: Elmo, out: Path) -> None:
        self.kind, self.elmo, self.out = kind, elmo, out
        self.parts = out.with_name(f".{out.name}.parts")
        self.computed: list[int] = []
        self.at_batch: Callable[[int], Any] = lambda _: None
        self.at_join: Callable[[], Any] = lambda: None

    def __call__(
        self, text: list[str] = TEXT, size: int = 2, facts: Any = None, rounding: Any = None
    ) -> bytes:
        """The file that it writes."""
        writer = WRITERS[self.kind]()
        join = writer.join

        def joined(*arguments: Any) -> None:
            self.at_join()
            join(*arguments)

        writer.join = joined  # type: ignore[method-assign]
        self.computed.clear()
        rows = groups(([Sentence(x.split(), n)] for n, x in enumerate(text)), size)
        with self.elmo.snapshot(same_bits=True) as now:
            compute = partial(self._results, now)
            write_results(self.out, writer, compute, now, rows, facts or {}, rounding)
        return self.out.read_bytes()

    def _results(self, elmo: Elmo, rows: list[Row]) -> Iterator[tuple[int, Any]]:
        for batch in groups(rows, len(rows) // 10 + 1):
            numbers = [row[0].row for row in batch]
            self.at_batch(numbers[0])
            self.computed.append(numbers[0])
            vectors = elmo.embed_rows(batch, "top", pool="mean")
            if self.kind in ("lines", "matrix"):
                yield len(batch), dict(zip(numbers, vectors))
            else:
                yield len(batch), dict(zip(COLUMNS, (numbers, [float(x.mean()) for x in vectors])))

    def killed(self, at: int | None = None, **options: Any) -> None:
        """Interrupt it at a sentence, or when all parts are there."""
        before = self.at_batch, self.at_join
        if at is None:
            self.at_join = interrupt
        else:
            self.at_batch = lambda n: interrupt() if n == at else None
        with pytest.raises(KeyboardInterrupt):
            self(**options)
        self.at_batch, self.at_join = before
        assert not self.out.exists()

    def part_files(self) -> list[Path]:
        return sorted(self.parts.glob("*.part"), key=lambda x: x.stat().st_mtime_ns)


New = Callable[..., Run]


@pytest.fixture
def new(bilm_files: BiLMFiles, tmp_path: Path) -> New:
    """A new run, of a biLM that has read nothing."""

    def create(
        kind: str = "lines", name: str = "out", files: Any = bilm_files, **options: Any
    ) -> Run:
        return Run(kind, Elmo.from_files(*files, **options).eval(), tmp_path / name)

    return create


@pytest.mark.sampled(12)
@pytest.mark.parametrize("at", [1, 2, 5, None])
@pytest.mark.parametrize("initial_state", ["warm", "carry"])
@pytest.mark.parametrize("kind", WRITERS)
def test_killed_and_resumed(kind: str, initial_state: str, at: int | None, new: New) -> None:
    """The file is bit-identical with that of an uninterrupted run, only the parts that were not
    finished are computed again, and nothing is left."""
    expected = new(kind, "whole", initial_state=initial_state)()
    new(kind, initial_state=initial_state).killed(at)
    run = new(kind, initial_state=initial_state)
    assert run() == expected
    first = len(TEXT) if at is None else at // 2 * 2
    assert run.computed == [*range(first, len(TEXT))]
    assert {file.name for file in run.out.parent.iterdir()} == {"whole", "out"}


def test_a_model_that_has_read_more(new: New) -> None:
    """After an error, the carried state is as before, so that the same model resumes its run, with
    the file of a run without interruption. Another model, which has read nothing, does not."""
    first, second = (new(name=name, initial_state="carry") for name in ("whole", "out"))
    for run in (first, second):
        run.elmo.embed("He threw")
    second.killed()
    with pytest.raises(InputError, match=r"carried state of the interrupted run, .*found None"):
        new(initial_state="carry")()
    assert second() == first()


def test_parts_of_something_else(new: New, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Numbers of two runs are never mixed. The error has both values."""
    facts = {"layer": "top", "pool": None}
    new().killed(facts=facts)
    others: list[tuple[str, Run, dict[str, Any]]] = [
        ("layer of the interrupted run, top, found 0", new(), {"facts": facts | {"layer": 0}}),
        ("pool of the interrupted run, None, found m", new(), {"facts": facts | {"pool": "mean"}}),
        ("text of sentences 1 to 2 of", new(), {"facts": facts, "text": ["a", *TEXT[1:]]}),
        ("model of", new(files=write_bilm_files(tmp_path / "other", seed=1)), {"facts": facts}),
    ]
    for message, run, options in others:
        with pytest.raises(InputError, match=f"out.parts: expected the {message}"):
            run(**options)
    monkeypatch.setattr(torch, "__version__", "another")
    with pytest.raises(InputError, match=r"version of PyTorch .*, found another"):
        new()(facts=facts)


@pytest.mark.parametrize("facts", [None, b"", b"[]", b'{"layers": "top"}'])
def test_a_text_that_is_corrected(facts: bytes | None, new: New) -> None:
    """The file is that of the new text, of which only the part with the correction is computed, and
    has none of the lines that the text has lost; also if the file that says what the parts are of
    is damaged or older."""
    text = [*TEXT[:3], "another", *TEXT[4:6]]
    expected = new(name="whole")(text)
    run = new()
    run.killed()
    if facts is not None:
        (run.parts / "facts.json").write_bytes(facts)
    assert run(text) == expected and run.computed == [2, 3]


@pytest.mark.parametrize("kind", WRITERS)
def test_another_rounding(kind, new, monkeypatch, caplog):
    """A run that is stopped in its third part is resumed with other threads, other kernels and a
    setting of its own. A warning names them, and the file, or one next to it, has what was computed
    with which. A later file, all of whose parts had the same, has no such record."""
    run, n_threads = new(kind), torch.get_num_threads()
    run.killed(4, rounding={"batch size": 2})
    with monkeypatch.context() as patch, threads(n_threads + 1):
        patch.setattr(parts_module, "KERNEL_STATUS", "off")
        run(rounding={"batch size": 1})
    [warning] = [x for x in caplog.messages if "up to rounding" in x]
    assert f"(OMP_NUM_THREADS), {n_threads + 1} ({n_threads})" in warning
    assert "batch size, 1 (2)" in warning and "sentence 5" in warning
    record = run.out.with_name("out.computed_with.json")
    if is_hdf5 := kind in ("lines", "columns"):
        recorded = json.loads(h5py.File(run.out).attrs["computed_with"])
    else:
        recorded = json.loads(record.read_text())
    names = "from sentence", "batch size", "number of threads (OMP_NUM_THREADS)"
    found = [[settings[name] for name in names] for settings in recorded]
    assert found == [[1, 2, n_threads], [5, 1, n_threads + 1]]
    assert recorded[1]["kernels"] == "off"
    run.out.unlink()
    run()
    assert not record.exists() and not (is_hdf5 and h5py.File(run.out).attrs)


@pytest.mark.parametrize("initial_state", ["warm", "carry"])
def test_damaged_parts(initial_state, new, fuzz, caplog):
    """Whichever part is damaged, or the record of what it was computed from, only that part is
    computed again, and the file is bit-identical."""
    expected = new(name="whole", initial_state=initial_state)()
    run = new(initial_state=initial_state)
    run.killed()
    files = [x for part in run.part_files() for x in (part, part.with_suffix(RECORD))]
    whole = [file.read_bytes() for file in files]
    for random in fuzz.cases(25):
        run.parts.mkdir(exist_ok=True)
        chosen = random.randrange(8)
        for k, (file, data) in enumerate(zip(files, whole)):
            way, damaged = damage(data, random)
            file.write_bytes(damaged if k == chosen else data)
        caplog.clear()
        run.elmo.carried.state = None
        assert run() == expected, way
        part = chosen // 2 * 2
        assert run.computed in ([part, part + 1][: len(TEXT) - part], []), way
        assert len(caplog.messages) == bool(run.computed), way
        assert run.computed or chosen % 2, way  # a record has bytes that say nothing
        for message in caplog.messages:
            assert message.startswith(f"{files[part]}: this part of an interrupted run is damaged")
        run.out.unlink()


def test_a_part_that_is_damaged_before_it_is_joined(new: New) -> None:
    """A part that was computed in this run is checked when it is joined, and there is no output.
    The same command computes it again."""
    expected = new(name="whole")()
    run = new()
    run.killed(2)

    def damage_second() -> None:
        part = run.part_files()[1]
        data = part.read_bytes()
        part.write_bytes(data[:-200] + bytes([data[-200] ^ 1]) + data[-199:])

    run.at_join = damage_second
    with pytest.raises(OSError, match=r"\.part: expected the part as it was written, .* damage"):
        run()
    assert not run.out.exists()
    run.at_join = lambda: None
    assert run() == expected and run.computed == [2, 3]


@pytest.mark.sampled(4)
@pytest.mark.filterwarnings("error::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.usefixtures("capsys")  # in memory, as the limit is also that of pytest's file
@pytest.mark.parametrize("missing_bytes", [None, 1])
@pytest.mark.parametrize("kind", WRITERS)
def test_a_full_disk(kind: str, missing_bytes: int | None, new: New) -> None:
    """A file size limit simulates the full disk, at the first part and at the last byte of the
    output. The error names the file, and there is none of HDF5, which is deleted then. Finished
    parts stay, and once there is space, the file is that of an uninterrupted run."""
    options = {"text": TEXT * 80, "size": 140}  # a part has more than its record
    expected = new(kind, "whole")(**options)
    run = new(kind)
    limit = 900 if missing_bytes is None else len(expected) - missing_bytes
    file = r"\w+\.part" if missing_bytes is None else "joined"
    message = (
        rf"out\.parts/{file}: could not be written, the disk may be full \(File too large\); once "
        "there is space, the same command resumes the run$"
    )
    with file_size_limit(limit), pytest.raises(DiskFullError, match=message):
        run(**options)
    assert len(run.part_files()) == (0 if missing_bytes is None else 4) and not run.out.exists()
    assert run(**options) == expected
    assert bool(run.computed) == (missing_bytes is None)
    assert {file.name for file in run.out.parent.iterdir()} == {"whole", "out"}


def test_a_run_that_is_killed_after_its_end(new: New, monkeypatch: pytest.MonkeyPatch) -> None:
    """By definition: the output is whole, and the next run, which does not replace it, removes the
    parts, also if some were removed. Parts next to another file stay, as they may be resumed."""
    run = new()
    run.killed()
    run.out.touch()
    for _ in range(2):
        with pytest.raises(InputError, match="out: expected to write a new file, found one"):
            run()
        assert run.parts.exists() and run.out.read_bytes() == b""
    run.out.unlink()
    for is_partly_removed in (False, True):
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(shutil, "rmtree", lambda *_, **__: interrupt())
            run()
        assert run.parts.exists() and run.out.read_bytes() == new(name=f"{is_partly_removed}")()
        for file in run.parts.iterdir():
            if is_partly_removed and file.suffix != ".part":
                file.unlink()
        with pytest.raises(InputError, match="found one"):
            check_no_results(run.out)
        assert not run.parts.exists()
        run.out.unlink()


def test_two_processes(new: New) -> None:
    """The second process raises an error at once. The first one is not disturbed and leaves no
    lock, and a process that was killed does not block another."""
    expected = new(name="whole")()
    context = get_context("fork")

    def start() -> tuple[Any, Any]:
        started, goes_on = context.Event(), context.Event()
        run = new()
        run.at_batch = lambda _: (started.set(), goes_on.wait(60))
        child = context.Process(target=run, daemon=True)
        child.start()
        assert started.wait(60)
        return child, goes_on

    killed, _ = start()
    killed.kill()
    killed.join()
    first, goes_on = start()
    for _ in range(2):
        with pytest.raises(InputError, match="out: expected to be the only process that writes it"):
            new()()
    goes_on.set()
    first.join()
    assert first.exitcode == 0 and new().out.read_bytes() == expected
    assert {file.name for file in new().out.parent.iterdir()} == {"whole", "out"}


def test_a_name_that_cannot_be_written(new: New) -> None:
    """The name of the folder of the parts would be too long."""
    with pytest.raises(InputError, match=r"x: expected a place .*, found: .*name too long"):
        new(name="x" * 252)()


def test_an_output_that_is_a_link(new: New) -> None:
    """As with `cp` and with a shell's `>`, the link stays, and what it names is written."""
    run = new(name="link")
    run.out.symlink_to("target")
    assert run() == new()()
    assert run.out.is_symlink()
    assert {file.name for file in run.out.parent.iterdir()} == {"link", "target", "out"}
