import io
import json
import os
import re
import resource
import shutil
import sys
from functools import partial
from multiprocessing import get_context
from pathlib import Path

import h5py
import numpy
import pytest
import torch
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin import pretrained
from elmo_plugin.checks import InputError
from elmo_plugin.commands.runner import run_program
from elmo_plugin.corpora import dump
from elmo_plugin.corpora import parts as parts_module
from elmo_plugin.corpora.uses import read_uses
from elmo_plugin.corpora.writers import LineVectors
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.ops import backend
from elmo_plugin.ops.backend import quantizes
from elmo_plugin.text.corpus import EncodedCorpus
from tests.conftest import allennlp, threads
from tests.damage import damage

TEXT = [
    "He threw the stick to the dog .",
    "The  dog ?",
    "and/or",
    "Nobody saw it \u2014 naïve 🙂 .",
    "The  dog ?",
    " ".join(f"w{i % 5}" for i in range(90)),
    "A",
]


run = partial(allennlp, "elmo")


@pytest.fixture
def text(tmp_path):
    file = tmp_path / "text.txt"
    file.write_text("\n".join(TEXT) + "\n", "utf-8")
    return file


@pytest.fixture
def options(bilm_files):
    return ["--options-file", bilm_files.options_file, "--weight-file", bilm_files.weight_file]


def read(file) -> dict[str, numpy.ndarray]:
    with h5py.File(file) as found:
        return {name: found[name][()] for name in found if name != "sentence_to_index"}


def interrupt(*_):
    raise KeyboardInterrupt


def stopped_at(line: int):
    """What computes the parts of a dump, interrupted at the one that begins with this line."""
    vectors = dump._vectors

    def stopped(*given):
        return interrupt() if given[-1][0][0].row == line else vectors(*given)

    return stopped


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(numpy.array_equal(one[k], other[k]) for k in one)


def test_the_arguments_of_0_9(text, tmp_path, options):
    """`--vocab-path` had no effect in 0.9 either, and `--file-friendly-logging` none on vectors,
    which are those without the two."""
    run(text, tmp_path / "plain", "--top", *options)
    of_0_9 = ["--vocab-path", tmp_path / "none", "--file-friendly-logging"]
    run(text, tmp_path / "of_0_9", "--top", *options, *of_0_9)
    assert same(read(tmp_path / "plain"), read(tmp_path / "of_0_9"))


@pytest.mark.parametrize("layer", [0, 2])
def test_one_layer(text, tmp_path, options, layer):
    """The expected vectors are those of this layer in a file of all layers."""
    run(text, tmp_path / "all", "--all", *options)
    run(text, tmp_path / "one", "--layer", layer, *options)
    whole, found = read(tmp_path / "all"), read(tmp_path / "one")
    assert found.keys() == whole.keys()
    for line in found:
        numpy.testing.assert_array_equal(found[line], whole[line][layer])


def test_a_layer_that_does_not_exist(text, tmp_path, options):
    """The biLM has the word layer and two LSTM layers. Nothing is computed or written."""
    with pytest.raises(InputError, match="--layer: expected a whole number from 0 to 2, found 3"):
        run(text, tmp_path / "out", "--layer", 3, *options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("layer", ["all", "top", "average"])
def test_layout_and_numbers_of_0_9(text, tmp_path, bilm_files, options, layer):
    """The expected layout is that of AllenNLP 0.9. The expected numbers are those of AllenNLP's own
    biLM, which reads sentence by sentence and carries its state, as 0.9 did with the same batch
    size."""
    in_order = ["--initial-state", "carry", "--batch-size", 1]
    run(text, tmp_path / "out", f"--{layer}", *options, *in_order)
    stock = StockElmo(*bilm_files, 1)._elmo_lstm
    found = read(tmp_path / "out")
    assert sorted(found, key=int) == [str(line) for line in range(len(TEXT))]
    for line, sentence in enumerate(TEXT):
        activations = stock(batch_to_ids([sentence.split()]))["activations"]
        layers = numpy.stack([x[0, 1:-1].detach().numpy() for x in activations])
        expected = {"all": layers, "top": layers[-1], "average": layers.mean(axis=0)}[layer]
        assert found[str(line)].dtype == numpy.float32
        numpy.testing.assert_allclose(found[str(line)], expected, atol=1e-5, rtol=0)
    with h5py.File(tmp_path / "out") as file:
        index = json.loads(file["sentence_to_index"][0])
    assert index == {sentence: str(line) for line, sentence in enumerate(TEXT)}


@pytest.mark.parametrize("layer", ["all", "top"])
def test_pool(text, tmp_path, options, layer):
    """The expected numbers are NumPy's means of the file without `--pool`."""
    run(text, tmp_path / "tokens", f"--{layer}", *options)
    run(text, tmp_path / "out", f"--{layer}", "--pool", "mean", *options)
    tokens, found = read(tmp_path / "tokens"), read(tmp_path / "out")
    assert found.keys() == tokens.keys()
    for line, vectors in found.items():
        numpy.testing.assert_allclose(vectors, tokens[line].mean(axis=-2), atol=1e-6)


@pytest.mark.parametrize(
    "arguments",
    [["--all"], ["--layer", 1, "--float16"], ["--top", "--initial-state", "carry"]],
    ids=str,
)
def test_one_array(text, tmp_path, options, monkeypatch, arguments):
    """The expected rows are the datasets of the HDF5 file of the same command, in the order of the
    text, also after the run is stopped before its last part, of which the others are not computed
    again. NumPy reads the array as a memory map, and nothing is left next to it."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 2)
    arguments = [*arguments, "--pool", "mean", "--batch-size", 2, *options]
    run(text, tmp_path / "out.hdf5", *arguments)
    vectors, out, computed = dump._vectors, tmp_path / "out.npy", []
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(dump, "_vectors", stopped_at(6))
        run(text, out, *arguments)
    assert not out.exists()
    with monkeypatch.context() as patch:
        patch.setattr(dump, "_vectors", lambda *a: computed.append(a[-1]) or vectors(*a))
        run(text, out, *arguments)
    assert [[line[0].row for line in group] for group in computed] == [[6]]
    expected = read(tmp_path / "out.hdf5")
    found = numpy.load(out, mmap_mode="r")
    assert found.dtype == expected["0"].dtype
    numpy.testing.assert_array_equal(found, [expected[str(k)] for k in range(len(TEXT))])
    assert {file.name for file in tmp_path.iterdir()} == {"text.txt", "out.hdf5", "out.npy"}


def test_one_array_of_a_shard(text, tmp_path, options):
    """By hand: the second of two shards has the sentences 1, 3 and 5. The expected rows are those
    of `Elmo.embed` with NumPy's means. An empty text has an array without rows."""
    arguments = ["--average", "--pool", "mean", *options]
    run(text, tmp_path / "out.npy", *arguments, "--shard", "2/2")
    elmo = Elmo.from_files(options[1], options[3])
    expected = [elmo.embed(TEXT[k], "average").mean(axis=0) for k in (1, 3, 5)]
    numpy.testing.assert_allclose(numpy.load(tmp_path / "out.npy"), expected, atol=1e-6)
    (tmp_path / "empty").touch()
    run(tmp_path / "empty", tmp_path / "empty.npy", *arguments)
    assert numpy.load(tmp_path / "empty.npy").shape == (0, elmo.output_dim)


def test_one_array_resumed_with_another_rounding(text, tmp_path, options, monkeypatch):
    """The array has no place for what its parts were computed with, so a file next to it says it,
    as for tables."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 4)
    out, arguments = tmp_path / "out.npy", ["--top", "--pool", "mean", *options]
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(dump, "_vectors", stopped_at(4))
        run(text, out, *arguments, "--batch-size", 2)
    run(text, out, *arguments, "--batch-size", 1)
    recorded = json.loads((tmp_path / "out.npy.computed_with.json").read_text())
    assert [(x["from sentence"], x["batch size"]) for x in recorded] == [(1, 2), (5, 1)]


@pytest.mark.parametrize("given", [[], ["--pool", "mean", "--use-sentence-keys"]], ids=str)
def test_an_array_of_vectors_of_tokens_is_refused(text, tmp_path, options, given):
    """Sentences have different numbers of tokens, and the rows of an array have no names."""
    with pytest.raises(InputError, match=r"^output_file: expected --pool and no --use-sentence-"):
        run(text, tmp_path / "out.npy", "--top", *given, *options)
    assert list(tmp_path.iterdir()) == [text]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 100])
def test_carried_states_do_not_depend_on_parts(
    text, tmp_path, bilm_files, options, monkeypatch, batch_size
):
    """The expected vectors are those of `embed`, batch after batch of the whole text: a part of the
    dump does not cut a batch, after which rows would continue from other states."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 4)
    in_order = ["--initial-state", "carry", "--batch-size", batch_size]
    run(text, tmp_path / "out", "--top", *options, *in_order)
    elmo = Elmo.from_files(*bilm_files, initial_state="carry")
    sentences = [sentence.split() for sentence in TEXT]
    expected = [
        vectors
        for first in range(0, len(sentences), batch_size)
        for vectors in elmo.embed(sentences[first : first + batch_size], "top")
    ]
    for line, vectors in read(tmp_path / "out").items():
        numpy.testing.assert_allclose(vectors, expected[int(line)], atol=1e-5, rtol=0)


def test_reading_by_length_changes_nothing(text, tmp_path, bilm_files, options):
    """The expected vectors are those of each sentence alone, in Python. The command reads many
    batches of few tokens."""
    run(text, tmp_path / "out", "--all", *options, "--batch-size", 1)
    elmo = Elmo.from_files(*bilm_files)
    for line, vectors in read(tmp_path / "out").items():
        alone = elmo.embed(TEXT[int(line)], layer="all")
        numpy.testing.assert_allclose(vectors, alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("batch_size, n_batches", [(64, 3), (128, 2), (256, 1)])
def test_large_batches(tmp_path, options, monkeypatch, batch_size, n_batches):
    """By hand: with their boundaries, 160 sentences of 30 tokens have 5,120, and a batch of N
    sentences of ordinary length has 32 N."""
    sizes = []
    read_batch = BiLM.sentences

    def sentences(bilm, tokens, *rest, **more):
        sizes.append(len(tokens))
        return read_batch(bilm, tokens, *rest, **more)

    (tmp_path / "text").write_text(f"{'dog ' * 30}\n" * 160)
    monkeypatch.setattr(BiLM, "sentences", sentences)
    run(tmp_path / "text", tmp_path / "out", "--top", *options, "--batch-size", batch_size)
    assert sum(sizes) == 160 and len(sizes) == n_batches


@pytest.mark.parametrize(
    "initial_state, killed_after, n_left",
    # Batches of parts 0..3: under warm 1, 1, 2 (a long sentence by itself), 1; under carry 1 each.
    [("warm", 1, 5), ("warm", 3, 3), ("carry", 1, 5), ("carry", 3, 1)],
)
def test_killed_and_resumed(
    text, tmp_path, options, monkeypatch, initial_state, killed_after, n_left
):
    """The numbers are bit-identical with an uninterrupted dump, and no part is computed twice."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 2)
    arguments = ["--all", *options, "--initial-state", initial_state, "--batch-size", 2]
    run(text, tmp_path / "whole", *arguments)
    embed, calls = Elmo.embed_rows, []

    def killed(*args, **kwargs):
        calls.append(args)
        if len(calls) > killed_after:
            raise KeyboardInterrupt
        return embed(*args, **kwargs)

    out = tmp_path / "resumed"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Elmo, "embed_rows", killed)
        run(text, out, *arguments)
    assert not out.exists()
    calls.clear()
    with monkeypatch.context() as patch:
        patch.setattr(Elmo, "embed_rows", lambda *a, **k: calls.append(a) or embed(*a, **k))
        run(text, out, *arguments)
    assert same(read(out), read(tmp_path / "whole"))
    assert sum(len(args[1]) for args in calls) == n_left
    assert {file.name for file in tmp_path.iterdir()} == {"text.txt", "whole", "resumed"}


@pytest.mark.parametrize("missing_bytes, kept", [(None, 0), (1, 4)])
@pytest.mark.parametrize("array", [False, True])
def test_a_full_disk(text, tmp_path, options, monkeypatch, array, missing_bytes, kept):
    """A file size limit simulates the full disk, at the first part and at the last byte of the
    output. The command ends with exit code 1 and one sentence that names the file, without an error
    of HDF5. Once there is space, it writes the file of an uninterrupted dump."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 35 if array else 2)
    whole, out = (tmp_path / f"{name}{dump.NPY * array}" for name in ("whole", "out"))
    arguments, contents = ["--all", *options], read
    if array:  # more sentences, because it is smaller than the record of a part otherwise
        text.write_text("".join(f"{sentence}\n" for sentence in TEXT * 20), "utf-8")
        arguments, contents = [*arguments, "--pool", "mean"], lambda file: {"": numpy.load(file)}
    run(text, whole, *arguments)
    size = whole.stat().st_size
    limit = 1000 if missing_bytes is None else size - missing_bytes

    errors, stderr = os.pipe()  # not a file, which the limit would cut short

    def run_with_limit() -> None:
        os.dup2(stderr, 2)
        sys.stderr = open(2, "w")
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        run(text, out, *arguments)

    child = get_context("fork").Process(target=run_with_limit)
    child.start()
    os.close(stderr)
    with open(errors) as pipe:
        error = pipe.read()
    child.join()
    assert child.exitcode == 1
    parts = tmp_path / f".{out.name}.parts"
    file = r"\w+\.part" if missing_bytes is None else "joined"
    assert re.search(
        f"{re.escape(str(parts))}/{file}: could not be written, the disk may be full "
        r"\(File too large\); once there is space, the same command resumes the run$",
        error.splitlines()[-1],
    )
    assert "h5py" not in error
    assert len(list(parts.glob("*.part"))) == kept
    assert not out.exists()
    run(text, out, *arguments)
    assert same(contents(out), contents(whole))
    assert set(tmp_path.iterdir()) == {text, whole, out}


def test_an_interrupted_dump_of_something_else(text, tmp_path, options, monkeypatch):
    """A dump with other settings or of another text is refused, so that the numbers of two runs are
    never mixed."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 2)
    out = tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(LineVectors, "join", interrupt)
        run(text, out, "--all", *options)
    for other, name in (
        (["--top"], "layers"),
        (["--all", "--pool", "mean"], "pool"),
        (["--all", "--float16"], "type of numbers"),
        (["--all", "--precision", "int8"], "precision" if quantizes(torch.empty(0)) else "model"),
    ):
        with pytest.raises(InputError, match=f"expected the {name} of the interrupted run, "):
            run(text, out, *other, *options)
    with monkeypatch.context() as patch:
        patch.setattr(torch, "__version__", "another")
        with pytest.raises(InputError, match="expected the version of PyTorch of the interrupted"):
            run(text, out, "--all", *options)
    text.write_text(text.read_text("utf-8").replace("threw", "saw"), "utf-8")
    with pytest.raises(InputError, match="expected the text of sentences 1 to 2 of the int"):
        run(text, out, "--all", *options)


def test_an_interrupted_dump_of_a_text_that_is_corrected(text, tmp_path, options, monkeypatch):
    """The numbers are those of the new text from the start, also if the file that says what the
    parts are of is damaged or older. Only the part with the correction is computed again."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 2)
    vectors, out, computed = dump._vectors, tmp_path / "out", []
    before = text.read_text("utf-8")
    for k, facts in enumerate((None, b"", b"[]", b'{"layers": "top"}')):
        text.write_text(before, "utf-8")
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(LineVectors, "join", interrupt)
            run(text, out, "--all", *options)
        if facts is not None:
            (tmp_path / ".out.parts" / "facts.json").write_bytes(facts)
        text.write_text(before.replace("and/or", f"or {k}"), "utf-8")
        computed.clear()
        with monkeypatch.context() as patch:
            patch.setattr(dump, "_vectors", lambda *a: computed.append(a[-1]) or vectors(*a))
            run(text, out, "--all", *options)
        assert [group[0][0].row for group in computed] == [2]
        run(text, tmp_path / "whole", "--all", *options)
        assert same(read(out), read(tmp_path / "whole"))
        assert {file.name for file in tmp_path.iterdir()} == {"text.txt", "whole", "out"}
        out.unlink()
        (tmp_path / "whole").unlink()


@pytest.mark.parametrize("initial_state", ["warm", "carry"])
def test_resumed_with_another_rounding(text, tmp_path, options, monkeypatch, caplog, initial_state):
    """A run is stopped in its third part, and resumed with other threads, without kernels and,
    except under carry, in smaller batches. The expected numbers are those of an uninterrupted run,
    up to 1e-5, and the file records what its parts were computed with."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 2)
    batches = [["--batch-size", "2"], ["--batch-size", "1" if initial_state == "warm" else "2"]]
    arguments = ["--all", *options, "--initial-state", initial_state]
    run(text, tmp_path / "whole", *arguments, *batches[0])
    with h5py.File(tmp_path / "whole") as file:
        assert not file.attrs
    out = tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(dump, "_vectors", stopped_at(4))
        run(text, out, *arguments, *batches[0])
    if initial_state == "carry":
        with pytest.raises(InputError, match="expected the batch size of the interrupted run, 2"):
            run(text, out, *arguments, "--batch-size", "1")
    n_threads = torch.get_num_threads()
    monkeypatch.setattr(backend, "KERNEL_DTYPES", frozenset())
    monkeypatch.setattr(parts_module, "KERNEL_STATUS", "off")
    caplog.clear()
    with threads(n_threads + 1):
        run(text, out, *arguments, *batches[1])
    [line] = [record.getMessage() for record in caplog.records if "rounding" in record.message]
    assert f"(OMP_NUM_THREADS), {n_threads + 1} ({n_threads})" in line and "sentence 5" in line
    found, expected = read(out), read(tmp_path / "whole")
    assert found.keys() == expected.keys()
    for name, numbers in expected.items():
        if name != "sentence_to_index":
            numpy.testing.assert_allclose(found[name], numbers, atol=1e-5)
    with h5py.File(out) as file:
        recorded = json.loads(file.attrs["computed_with"])
    assert [x["from sentence"] for x in recorded] == [1, 5]
    assert [x.get("batch size") for x in recorded] == (
        [2, 1] if initial_state == "warm" else [2, 2]
    )
    assert recorded[1]["kernels"] == "off"
    assert recorded[0]["number of threads (OMP_NUM_THREADS)"] == n_threads


@pytest.fixture
def interrupted(tmp_path, bilm_files, monkeypatch):
    """Return a dump, and the parts that it had when it was killed during the last step."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 2)

    def killed(initial_state):
        elmo = Elmo.from_files(*bilm_files, initial_state=initial_state).eval()

        def again(out=tmp_path / "out", text=TEXT):
            elmo.carried.state = None
            lines = [*dump.line_rows(enumerate(text))]
            dump.dump(elmo, lines, out, dump.DumpSettings(layer="all", batch_size=2))
            return read(out)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(LineVectors, "join", interrupt)
            again()
        parts = sorted((tmp_path / ".out.parts").glob("*.part"), key=lambda x: x.stat().st_mtime_ns)
        assert len(parts) == 4
        return again, parts

    return killed


@pytest.mark.parametrize("form", ["files", "zip", "tar.gz", "run"])
def test_forms_of_an_archive(text, tmp_path, bilm_files, bilm_archive, monkeypatch, form):
    """The expected vectors are those of `Elmo.from_archive`. An interrupted dump is refused with
    another model, and resumed with the same model in another form."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 2)
    archive = tmp_path / form
    if form == "tar.gz":
        archive = bilm_archive
    elif form == "run":
        shutil.unpack_archive(bilm_archive, archive)
    else:
        archive.mkdir()
        shutil.copy(bilm_files.options_file, archive / "options.json")
        shutil.copy(bilm_files.weight_file, archive / "weights.hdf5")
        if form == "zip":
            archive = shutil.make_archive(str(tmp_path / "model"), "zip", archive)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(LineVectors, "join", interrupt)
        run(text, tmp_path / "out", "--all", "--archive-file", archive)
    with pytest.raises(InputError, match="expected the model of the interrupted run, "):
        run(text, tmp_path / "out", "--all", "--pretrained", "tiny")
    same_model = (
        ["--archive-file", bilm_archive]
        if form in ("tar.gz", "run")
        else [f"--{kind}-file={path}" for kind, path in zip(("options", "weight"), bilm_files)]
    )
    with monkeypatch.context() as patch:
        patch.setattr(Elmo, "embed_rows", None)
        run(text, tmp_path / "out", "--all", *same_model)
    elmo = Elmo.from_archive(archive)
    for line, vectors in read(tmp_path / "out").items():
        alone = elmo.embed(TEXT[int(line)], layer="all")
        numpy.testing.assert_allclose(vectors, alone, atol=1e-5, rtol=0)


@pytest.mark.parametrize("initial_state", ["warm", "carry"])
def test_damaged_parts_are_computed_again(tmp_path, interrupted, caplog, fuzz, initial_state):
    """Whichever part is damaged, or the record of what it was computed from, only that part is
    computed again, and the numbers are bit-identical."""
    again, parts = interrupted(initial_state)
    files = [file for part in parts for file in (part, part.with_suffix(".record"))]
    whole = [file.read_bytes() for file in files]
    expected = again(tmp_path / "whole")
    for random in fuzz.cases(25):
        (tmp_path / ".out.parts").mkdir(exist_ok=True)
        chosen = random.randrange(8)
        for k, (file, data) in enumerate(zip(files, whole)):
            how, damaged = damage(data, random)
            file.write_bytes(damaged if k == chosen else data)
        caplog.clear()
        assert same(again(), expected), how
        warnings = [r.getMessage() for r in caplog.records if r.name == parts_module.__name__]
        damaged_part = parts[chosen // 2]
        expected_warning = f"{damaged_part}: this part of an interrupted run is damaged"
        assert all(warning.startswith(expected_warning) for warning in warnings)
        assert len(warnings) == 1 or chosen % 2, how  # a record has bytes that say nothing
        (tmp_path / "out").unlink()


def test_a_part_that_is_damaged_before_it_is_joined(tmp_path, interrupted, monkeypatch):
    """The error is one sentence that names the part, and there is no output. Then the same command
    repairs it."""
    again, parts = interrupted("warm")
    parts[1].unlink()  # a part is read once: here if it was there, and otherwise when it is joined
    join = LineVectors.join

    def damaged(*rest):
        data = parts[1].read_bytes()
        parts[1].write_bytes(data[:-200] + bytes([data[-200] ^ 1]) + data[-199:])
        join(*rest)

    with monkeypatch.context() as patch, pytest.raises(OSError, match=f"^{parts[1]}: .* damage"):
        patch.setattr(LineVectors, "join", damaged)
        again()
    assert not (tmp_path / "out").exists()
    assert same(again(), again(tmp_path / "whole"))


def test_a_run_from_another_carried_state(tmp_path, bilm_files, interrupted):
    """The parts of a model that had read other sentences are refused by one that had not."""
    elmo = Elmo.from_files(*bilm_files, initial_state="carry").eval()
    elmo.embed(TEXT[0])
    interrupted("carry")
    lines = [*dump.line_rows(enumerate(TEXT))]
    with pytest.raises(InputError, match="expected the carried state of the interrupted run, None"):
        dump.dump(elmo, lines, tmp_path / "out", dump.DumpSettings(layer="all", batch_size=2))


def test_an_interrupted_run_of_a_model_that_has_read_more(tmp_path, bilm_files, monkeypatch):
    """The same model resumes it, with the vectors of a run without interruption."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 2)
    lines = [*dump.line_rows(enumerate(TEXT))]
    settings = dump.DumpSettings(layer="all", batch_size=2)
    for name in ("whole", "out"):
        elmo = Elmo.from_files(*bilm_files, initial_state="carry").eval()
        elmo.embed(TEXT[0])
        if name == "out":
            with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
                patch.setattr(LineVectors, "join", interrupt)
                dump.dump(elmo, lines, tmp_path / name, settings)
        dump.dump(elmo, lines, tmp_path / name, settings)
    assert same(read(tmp_path / "out"), read(tmp_path / "whole"))


def test_parts_after_the_end_of_the_text(interrupted):
    """The text has lost its last lines since the interruption, and they are not in the output."""
    again, _ = interrupted("warm")
    assert sorted(again(text=TEXT[:4])) == ["0", "1", "2", "3"]


def test_a_run_that_is_killed_after_its_end(text, tmp_path, options, monkeypatch):
    """By definition: the output is whole, and the next run of the same command, which does not
    replace it, removes the parts. Parts next to another file stay, because they may be resumed."""
    out = tmp_path / "out"
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(LineVectors, "join", interrupt)
        run(text, out, "--top", *options)
    out.touch()
    with pytest.raises(InputError, match="found one"):
        run(text, out, "--top", *options)
    assert (tmp_path / ".out.parts").exists()
    out.unlink()
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(shutil, "rmtree", lambda *_, **__: interrupt())
        run(text, out, "--top", *options)
    run(text, tmp_path / "whole", "--top", *options)
    assert same(read(out), read(tmp_path / "whole")) and (tmp_path / ".out.parts").exists()
    for file in (tmp_path / ".out.parts").iterdir():  # it is killed while it removes the parts
        if file.suffix != ".part":
            file.unlink()
    with pytest.raises(InputError, match="found one"):
        run(text, out, "--top", *options)
    assert {file.name for file in tmp_path.iterdir()} == {"text.txt", "whole", "out"}


def test_two_processes_with_one_output(text, tmp_path, options, monkeypatch):
    """The second process raises an error at once. The first one is not disturbed and leaves no
    lock, and a process that was killed does not block another."""
    arguments = [text, tmp_path / "out", "--all", *options]
    run(text, tmp_path / "whole", *arguments[2:])
    context = get_context("fork")
    embed = Elmo.embed_rows

    def start():
        started, goes_on = context.Event(), context.Event()

        def waiting(*rest, **how):
            started.set()
            assert goes_on.wait(60)
            return embed(*rest, **how)

        child = context.Process(target=run, args=arguments)
        with monkeypatch.context() as patch:
            patch.setattr(Elmo, "embed_rows", waiting)
            child.start()
        assert started.wait(60)
        return child, goes_on

    killed, _ = start()
    killed.kill()
    killed.join()
    first, goes_on = start()
    message = rf"^{arguments[1]}: expected to be the only process that writes it, found another one"
    for _ in range(2):
        with pytest.raises(InputError, match=message):
            run(*arguments)
    goes_on.set()
    first.join()
    assert first.exitcode == 0
    assert same(read(arguments[1]), read(tmp_path / "whole"))
    assert {file.name for file in tmp_path.iterdir()} == {"text.txt", "whole", "out"}


@pytest.mark.parametrize("size", ["0", "-1", "4097", "1e9", "9" * 5000, "x", ""])
def test_batch_sizes_that_are_refused(text, tmp_path, options, size, capsys):
    """A batch size must be positive and at most the number of sentences in a part."""
    with pytest.raises((InputError, SystemExit)) as error:
        run(text, tmp_path / "out", "--top", *options, "--batch-size", size)
    if error.type is InputError:
        message = f"--batch-size: expected a whole number from 1 to 4096, found {size}"
        assert str(error.value) == message
    else:
        assert f"--batch-size: invalid int value: '{size}'" in capsys.readouterr().err


def test_missing_devices_are_refused(text, tmp_path, options):
    """A device that does not exist is refused before anything is read."""
    for device in (torch.cuda.device_count(), 100):
        with pytest.raises(InputError, match=r"^--cuda-device: expected -1 for the CPU"):
            run(text, tmp_path / "out", "--top", *options, "--cuda-device", device)


def test_names_that_cannot_be_written(text, tmp_path, options):
    """The name of the folder next to the output would be too long."""
    with pytest.raises(InputError, match=r"x: expected a place .*, found: .*name too long"):
        run(text, tmp_path / ("x" * 252), "--top", *options)


def test_shards_are_the_whole(text, tmp_path, options):
    """All shards together have each line once, under its number in the text."""
    run(text, tmp_path / "whole", "--top", *options)
    found = {}
    for shard in (1, 2, 3):
        run(text, tmp_path / f"{shard}", "--top", *options, "--shard", f"{shard}/3")
        part = read(tmp_path / f"{shard}")
        assert not part.keys() & found.keys()
        found.update(part)
    whole = read(tmp_path / "whole")
    assert found.keys() == whole.keys()
    for line in whole:
        numpy.testing.assert_allclose(found[line], whole[line], atol=1e-5, rtol=0)


def test_half_precision_stdin_and_archive(text, tmp_path, bilm_archive, monkeypatch):
    """The expected numbers are those of a file in float32, rounded to NumPy's float16."""
    run(text, tmp_path / "whole", "--top", "--archive-file", bilm_archive, "--forget-sentences")
    stdin = io.TextIOWrapper(io.BytesIO(text.read_bytes()))
    monkeypatch.setattr(sys, "stdin", stdin)
    run("-", tmp_path / "half", "--top", "--archive-file", bilm_archive, "--float16")
    whole, half = read(tmp_path / "whole"), read(tmp_path / "half")
    assert same({k: v.astype("float16") for k, v in whole.items()}, half)
    with h5py.File(tmp_path / "whole") as file:
        assert "sentence_to_index" not in file


@pytest.mark.usefixtures("native_bf16")
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_precision(tmp_path, options, bilm_files, precision):
    """The expected vectors are those of an `Elmo` with this precision, sentence by sentence. On a
    processor without products in int8 they are those in fp32."""
    sentence = TEXT[0]
    (tmp_path / "text").write_text(sentence)
    run(tmp_path / "text", tmp_path / "out", "--all", "--precision", precision, *options)
    elmo = Elmo.from_files(*bilm_files, precision=precision)
    numpy.testing.assert_array_equal(
        read(tmp_path / "out")["0"], elmo.embed(sentence, "all"), strict=True
    )


def test_raw_text(tmp_path, options):
    """The expected file is that of the tokens, which are written by hand."""
    texts = {
        "raw": ["It isn't easy.", '"No," he said.'],
        "split": ["It is n't easy .", '" No , " he said .'],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("\n".join(lines))
        raw = ["--raw"] if name == "raw" else []
        run(tmp_path / name, tmp_path / f"{name}.hdf5", "--top", *raw, *options)
    raw, split = tmp_path / "raw.hdf5", tmp_path / "split.hdf5"
    assert same(read(raw), read(split))
    with h5py.File(raw) as one, h5py.File(split) as other:
        assert one["sentence_to_index"][0] == other["sentence_to_index"][0]


def test_numbers_that_half_precision_cannot_hold(tmp_path, bilm_files):
    """Nothing is written: float16 ends at 65,504."""
    elmo = Elmo.from_files(*bilm_files)
    with torch.no_grad():
        elmo.bilm.token_encoder.projection.weight.mul_(1e9)
    settings = dump.DumpSettings(layer="all", dtype="float16")
    with pytest.raises(InputError, match="line 5: expected numbers that float16 can hold, found"):
        dump.dump(elmo, dump.line_rows([(4, "the dog")]), tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()


def test_a_pipe(text, tmp_path, options):
    """What is read from a pipe, which can be read only once, is what is read from the file."""
    run(text, tmp_path / "whole", "--top", *options)
    pipe, end = os.pipe()
    os.write(end, text.read_bytes())
    os.close(end)
    run(f"/dev/fd/{pipe}", tmp_path / "piped", "--top", *options)
    os.close(pipe)
    assert same(read(tmp_path / "whole"), read(tmp_path / "piped"))


def test_sentence_keys(text, tmp_path, options):
    """The expected numbers are those of a dump by lines. Of two equal sentences, the last one is
    written."""
    run(text, tmp_path / "lines", "--top", *options)
    run(text, tmp_path / "sentences", "--top", *options, "--use-sentence-keys")
    lines = read(tmp_path / "lines")
    with h5py.File(tmp_path / "sentences") as file:
        for line, sentence in enumerate(TEXT):
            if line != 1:
                assert numpy.array_equal(file[sentence][()], lines[str(line)])


@pytest.mark.parametrize(
    "texts, refused",
    [
        (["x", "a/b", "a"], 3),
        (["a", "x", "a/b"], 3),
        (["a//b", "a/./b"], 2),
        (["a", "b/", "b"], 3),
        (["."], 1),
        (["x", "/"], 2),
        (["word\0s"], 1),
    ],
)
def test_sentences_that_hdf5_cannot_have_as_names(tmp_path, options, monkeypatch, texts, refused):
    """By the rules of paths: a slash separates groups and a dot is the group itself; HDF5 would cut
    the last name at its NUL. The error names the line. Without the option nothing is computed
    again, and the numbers are those of a dump by lines."""
    file, out = tmp_path / "text.txt", tmp_path / "out"
    file.write_text("\n".join(texts) + "\n")
    run(file, tmp_path / "lines", "--top", *options)
    message = re.escape(f"{out}: line {refused}: {texts[refused - 1]!r}: HDF5 cannot")
    with pytest.raises(InputError, match=f"^{message}"):
        run(file, out, "--top", *options, "--use-sentence-keys")
    assert not out.exists()
    monkeypatch.setattr(Elmo, "embed_rows", None)
    run(file, out, "--top", *options)
    assert same(read(out), read(tmp_path / "lines"))


@pytest.mark.parametrize(
    "content, arguments, message",
    [
        ("One .\n\nTwo .\n", [], r"text\.txt, line 2: expected a sentence"),
        ("One .\n", ["--shard", "1/2", "--initial-state", "carry"], "--shard"),
        (b"One \xff .\n", [], "line 1: expected UTF-8"),
    ],
)
def test_input_that_is_refused(tmp_path, options, monkeypatch, content, arguments, message):
    """Each input is refused before anything is computed, and the message names its place."""
    monkeypatch.setattr(Elmo, "embed_rows", None)
    monkeypatch.setattr(dump, "PART_SENTENCES", 1)
    file = tmp_path / "text.txt"
    file.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(InputError, match=message):
        run(file, tmp_path / "out", "--top", *options, *arguments)
    assert not (tmp_path / "out").exists()


def test_stdin_that_is_not_text(tmp_path, options, monkeypatch):
    """The byte 0xff is at the start of the second line. The error is the same as for files."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"One .\n\xff .\n")))
    with pytest.raises(InputError, match=r"^stdin, line 2: expected UTF-8, .* 0xff at"):
        run("-", tmp_path / "out", "--top", *options)


def test_stdin_that_is_closed(tmp_path, options, monkeypatch):
    """Python's `sys.stdin` is then None, as its documentation says."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"^input_file: -: expected .*, found it closed$"):
        run("-", tmp_path / "out", "--top", *options)


@pytest.fixture
def task(tmp_path, monkeypatch) -> str:
    """The address of a task whose instances have these texts and a label."""
    monkeypatch.setattr("allennlp.common.file_utils.CACHE_DIRECTORY", str(tmp_path / "texts"))
    texts = ["a dog ran", "a dog", "a dog ran", "it ran"]
    data = "".join(json.dumps({"text": x, "label": "x"}) + "\n" for x in texts)
    (tmp_path / "data.jsonl").write_text(data)
    reader = {"type": "text_classification_json", "tokenizer": "whitespace"}
    config = {"dataset_reader": reader, "train_data_path": str(tmp_path / "data.jsonl")}
    (tmp_path / "task.json").write_text(json.dumps(config))
    return f"task://{tmp_path}/task.json#train_data_path"


DISTINCT = ["a dog ran", "a dog", "it ran"]
"""The texts of this task."""


def test_a_task_has_a_dataset_for_each_text(tmp_path, options, task):
    """By hand: four instances, of which two have the same text, have three datasets in order. The
    vectors are those of the same lines in a file, as is the number of sentences to train on."""
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in DISTINCT))
    run(task, tmp_path / "out", "--top", *options)
    run(tmp_path / "lines", tmp_path / "expected", "--top", *options)
    assert sorted(read(tmp_path / "out")) == ["0", "1", "2"]
    assert same(read(tmp_path / "out"), read(tmp_path / "expected"))
    allennlp("bilm-encode", task, tmp_path / "corpus")
    assert EncodedCorpus(tmp_path / "corpus").num_sentences == 3


def test_predictions_and_uses_of_a_task(tmp_path, bilm_archive, task, capsys):
    """By hand: each text has its prediction, and its number in the uses."""
    arguments = ("--output-file", tmp_path / "out.jsonl", "--silent")
    allennlp("predict", bilm_archive, task, *arguments)
    found = [json.loads(x)["tokens"] for x in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert found == [line.split() for line in DISTINCT]
    reader = ("--use-dataset-reader", "--output-file", tmp_path / "again", "--silent")
    allennlp("predict", bilm_archive, task, *reader)
    assert (tmp_path / "again").read_text() == (tmp_path / "out.jsonl").read_text()
    words, out = os.pipe()  # as the shell's <(echo it), which can be read once
    os.write(out, b"it\nno\tNo NO")
    os.close(out)
    uses = tmp_path / "uses.hdf5"
    allennlp("uses", task, f"/dev/fd/{words}", uses, "--archive-file", bilm_archive)
    assert capsys.readouterr().out == f"{uses}: 1 uses; none of no\n"
    assert read_uses(uses)[["sentence", "position"]].values.tolist() == [[2, 0]]


UNSEGMENTED = "我昨天去了北京大学图书馆借书然后回家"
"""18 characters of 3 bytes each."""


@pytest.mark.parametrize("source", ["file", "stdin"])
@pytest.mark.parametrize(
    ("lines", "share"),
    [
        ([UNSEGMENTED, "A dog .", UNSEGMENTED[::-1], f"x{UNSEGMENTED}"], "3 of 6 tokens (50.0 %)"),
        ([UNSEGMENTED, "w " * 99], None),  # one percent
        ([UNSEGMENTED[:16]] * 3, None),  # 48 bytes
        (["w" * 49, "w" * 48], "1 of 2 tokens (50.0 %)"),
    ],
)
def test_cropped_tokens(tmp_path, options, monkeypatch, caplog, source, lines, share):
    """By hand: a word keeps 48 bytes, as `bilm-encode` reports."""
    text = "".join(f"{line}\n" for line in lines)
    (tmp_path / "text").write_text(text, "utf-8")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8"))
    path = "-" if source == "stdin" else tmp_path / "text"
    run(path, tmp_path / "out", "--top", *options)
    messages = [r.getMessage() for r in caplog.records]
    found = [x for x in messages if "48 bytes in UTF-8 and are cut" in x]
    assert len(found) == (share is not None)
    if share is not None:
        assert found[0].startswith(f"{share} are longer than 48 bytes in UTF-8 and are ")


@pytest.mark.parametrize("shard", ["0/2", "3/2", "1", "a/b", f"1/{2**64}"])
def test_bad_shards_are_refused(text, tmp_path, options, shard, capsys):
    """A shard must have the form I/N with I from 1 to N."""
    with pytest.raises(SystemExit):
        run(text, tmp_path / "out", "--top", *options, "--shard", shard)
    assert shard in capsys.readouterr().err


def test_an_existing_output_stays(text, tmp_path, options):
    """An existing output is refused and stays as it was."""
    out = tmp_path / "out"
    out.write_text("mine")
    with pytest.raises(InputError, match="found one; remove it to write it again"):
        run(text, out, "--top", *options)
    assert out.read_text() == "mine"
    with pytest.raises(InputError, match="expected to write a new file, found one"):
        run(text, tmp_path, "--top", *options)


def test_a_missing_output_folder_is_not_created(text, tmp_path, options):
    """A missing folder is an error and is not created, with the operating system's reason."""
    for folder, found in ((tmp_path / "none", "No such file"), (text, "Not a directory")):
        message = rf"^output_file: \S+out: expected .* the folder {folder}, found: {found}"
        with pytest.raises(InputError, match=message):
            run(text, folder / "out", "--top", *options)
    assert list(tmp_path.iterdir()) == [text]


def test_no_model_or_two(text, tmp_path, options, bilm_archive):
    """The error names the options that were given."""
    archive = ["--archive-file", bilm_archive]
    cases = {
        "none": [],
        "--options-file": options[:2],
        "--archive-file and --options-file and --weight-file": [*options, *archive],
        "--pretrained and --archive-file": ["--pretrained", "tiny", "--archive-file", "X"],
    }
    for found, given in cases.items():
        with pytest.raises(InputError) as error:
            run(text, tmp_path / "out", "--top", *given)
        assert str(error.value) == (
            "expected one of --pretrained, --archive-file, or --options-file and --weight-file, "
            f"found {found}"
        )


def test_missing_inputs_are_named(text, tmp_path, options):
    """The error is one sentence that names the file and the expected kind of file."""
    no, out = tmp_path / "no", tmp_path / "out"
    for kind, arguments in {
        "a text": [no, out, *options],
        "an installed model": [text, out, "--archive-file", no],
        "bilm-tf's weights": [text, out, *options[:2], "--weight-file", no],
    }.items():
        with pytest.raises(
            FileNotFoundError,
            match=rf"{no}: expected {kind}.* found no such file(; installed models: .*)?$",
        ):
            run(*arguments, "--top")
    with pytest.raises(InputError, match=f"{tmp_path}: expected a file, found a folder"):
        run(tmp_path, out, "--top", *options)


@pytest.mark.parametrize(
    "command, defaults",
    [("elmo", ["fp32", "-1", "64", "warm", "1/1"]), ("uses", ["0", "top", "1/1", "fp32", "-1"])],
)
def test_help_says_each_default_once(capsys, command, defaults):
    """The expected help lists the options in order, with each default as one would type it."""
    with pytest.raises(SystemExit):
        allennlp(command, "--help")
    shown = re.findall(r"\(default(?::| =) (\S+)\)", " ".join(capsys.readouterr().out.split()))
    assert shown == defaults


def test_pretrained(text, tmp_path, options, bilm_files, monkeypatch):
    """The expected vectors are those of the model's two files. Another name gives an error that
    lists all names."""
    folder = Path(bilm_files.options_file).parent
    monkeypatch.setattr(pretrained, "FOLDER", folder.parent)
    run(text, tmp_path / "files", "--all", *options)
    run(text, tmp_path / "name", "--all", "--pretrained", folder.name)
    assert same(read(tmp_path / "name"), read(tmp_path / "files"))
    with pytest.raises(InputError, match=f"expected one of: {folder.name}.*; found 'none'"):
        run(text, tmp_path / "none", "--all", "--pretrained", "none")


def test_a_table(tmp_path, options):
    """Expected: the vectors of its column `sentence` as a text, by the same function."""
    (tmp_path / "text").write_text("It ran .\nYes , it did .\n")
    (tmp_path / "table.csv").write_text('n,sentence\n1,It ran .\n2,"Yes , it did ."\n')
    for name in ("text", "table.csv"):
        arguments = [tmp_path / name, tmp_path / f"{name}.hdf5", "--average", *options]
        assert run_program("elmo", list(map(str, arguments))) is None
    with h5py.File(tmp_path / "text.hdf5") as one, h5py.File(tmp_path / "table.csv.hdf5") as other:
        assert set(one) == set(other) == {"0", "1", "sentence_to_index"}
        assert one["sentence_to_index"][0] == other["sentence_to_index"][0]
        assert all(numpy.array_equal(one[key][()], other[key][()]) for key in "01")
