"""The command `elmo`. tests/corpora/test_parts.py has how its runs are resumed."""

import io
import json
import os
import re
import sys
from functools import partial

import h5py
import numpy
import pytest
import torch
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin.checks import InputError
from elmo_plugin.corpora import dump
from elmo_plugin.corpora.uses import read_uses
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.modules import BiLM
from elmo_plugin.text.corpus import EncodedCorpus
from tests.conftest import allennlp, write_file

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
    return write_file(tmp_path / "text.txt", "\n".join(TEXT) + "\n")


@pytest.fixture
def options(bilm_files):
    return ["--options-file", bilm_files.options_file, "--weight-file", bilm_files.weight_file]


def read(file) -> dict[str, numpy.ndarray]:
    with h5py.File(file) as found:
        return {name: found[name][()] for name in found if name != "sentence_to_index"}


def same(one, other) -> bool:
    return one.keys() == other.keys() and all(numpy.array_equal(one[k], other[k]) for k in one)


@pytest.mark.parametrize("layer", ["all", "top", "average"])
def test_layout_and_numbers_of_0_9(text, tmp_path, bilm_files, options, layer):
    """The expected layout is that of AllenNLP 0.9. The expected numbers are those of AllenNLP's own
    biLM, which reads sentence by sentence and carries its state, as 0.9 did with the same batch
    size. The last two options had no effect on vectors in 0.9 either."""
    in_order = ["--initial-state", "carry", "--batch-size", 1]
    of_0_9 = ["--vocab-path", tmp_path / "none", "--file-friendly-logging"]
    run(text, tmp_path / "out", f"--{layer}", *options, *in_order, *of_0_9)
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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--all", "--batch-size", 1], lambda layers: layers),
        (["--layer", 0], lambda layers: layers[0]),
        (["--layer", 2], lambda layers: layers[2]),
        (["--all", "--pool", "mean"], lambda layers: layers.mean(axis=1)),
        (["--top", "--pool", "mean"], lambda layers: layers[2].mean(axis=0)),
        (["--top", "--float16"], lambda layers: layers[2].astype("float16")),
    ],
)
def test_vectors(text, tmp_path, bilm_files, options, arguments, expected):
    """The expected numbers are NumPy's of all layers of each sentence alone. The command reads many
    batches of few tokens, which are sorted by length."""
    run(text, tmp_path / "out", *arguments, *options)
    elmo, found = Elmo.from_files(*bilm_files), read(tmp_path / "out")
    assert len(found) == len(TEXT)
    for line, vectors in found.items():
        wanted = expected(elmo.embed(TEXT[int(line)], "all"))
        assert vectors.dtype == wanted.dtype
        atol = 1e-5 if wanted.dtype == "float32" else 1e-3
        numpy.testing.assert_allclose(vectors, wanted, atol=atol, rtol=0)


@pytest.mark.usefixtures("native_bf16")
@pytest.mark.parametrize("precision", ["bf16", "int8"])
def test_precision(tmp_path, options, bilm_files, precision):
    """The expected vectors are those of an `Elmo` with this precision, sentence by sentence. On a
    processor without products in int8 they are those in fp32."""
    (tmp_path / "text").write_text(TEXT[0])
    run(tmp_path / "text", tmp_path / "out", "--all", "--precision", precision, *options)
    expected = Elmo.from_files(*bilm_files, precision=precision).embed(TEXT[0], "all")
    numpy.testing.assert_array_equal(read(tmp_path / "out")["0"], expected, strict=True)


def test_the_initial_state_of_an_archive(text, tmp_path, bilm_files):
    """The expected vectors are those of the model that was saved. Of one that carries its state,
    another process cannot read a shard."""
    arguments = "--top", "--archive-file", tmp_path / "model"
    elmo = Elmo.from_files(*bilm_files, initial_state="zero")
    elmo.save(tmp_path / "model")
    run(text, tmp_path / "out", *arguments)
    expected = elmo.embed(TEXT[0], "top")
    numpy.testing.assert_allclose(read(tmp_path / "out")["0"], expected, atol=1e-6)
    Elmo.from_files(*bilm_files, initial_state="carry").save(tmp_path / "model")
    with pytest.raises(InputError, match=r"^--shard: .* found carry"):
        run(text, tmp_path / "carried", *arguments, "--shard", "1/2")


@pytest.mark.parametrize(
    "arguments",
    [["--all"], ["--layer", 1, "--float16"], ["--top", "--initial-state", "carry"]],
    ids=str,
)
def test_one_array(text, tmp_path, options, monkeypatch, arguments):
    """The expected rows are the datasets of the HDF5 file of the same command, in the order of the
    text. NumPy reads the array as a memory map. An empty text has an array without rows."""
    monkeypatch.setattr(dump, "PART_SENTENCES", 2)
    arguments = [*arguments, "--pool", "mean", "--batch-size", 2, *options]
    run(text, tmp_path / "out.hdf5", *arguments)
    run(text, tmp_path / "out.npy", *arguments)
    expected = read(tmp_path / "out.hdf5")
    found = numpy.load(tmp_path / "out.npy", mmap_mode="r")
    assert found.dtype == expected["0"].dtype
    numpy.testing.assert_array_equal(found, [expected[str(k)] for k in range(len(TEXT))])
    text.write_text("")
    run(text, tmp_path / "empty.npy", *arguments)
    assert numpy.load(tmp_path / "empty.npy").shape == (0, *found.shape[1:])


@pytest.mark.parametrize("batch_size", [1, 2, 3, 5, 100])
def test_carried_states_and_parts(text, tmp_path, bilm_files, options, monkeypatch, batch_size):
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


@pytest.mark.parametrize("source", ["stdin", "pipe", "table.csv"])
def test_other_sources(text, tmp_path, bilm_archive, monkeypatch, source):
    """Expected: what is written for a file. A pipe, as a shell's `<(...)`, can be read only once;
    and the sentences of a table are the values of its column."""
    archive = ["--archive-file", bilm_archive]
    run(text, tmp_path / "whole", "--top", *archive)
    path, data = tmp_path / source, text.read_bytes()
    if source == "stdin":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
        path = "-"
    elif source == "pipe":
        pipe, end = os.pipe()
        os.write(end, data)
        os.close(end)
        path = f"/dev/fd/{pipe}"
    else:
        path.write_text("".join(f'{n},"{x}"\n' for n, x in enumerate(["sentence", *TEXT])), "utf-8")
    run(path, tmp_path / "out", "--top", *archive)
    assert same(read(tmp_path / "out"), read(tmp_path / "whole"))
    run(text, tmp_path / "without", "--top", *archive, "--forget-sentences")
    with h5py.File(tmp_path / "out") as out, h5py.File(tmp_path / "whole") as whole:
        assert out["sentence_to_index"][0] == whole["sentence_to_index"][0]
    with h5py.File(tmp_path / "without") as file:
        assert "sentence_to_index" not in file


def test_numbers_that_half_precision_cannot_hold(tmp_path, bilm_files):
    """Nothing is written: float16 ends at 65,504."""
    elmo = Elmo.from_files(*bilm_files)
    with torch.no_grad():
        elmo.bilm.token_encoder.projection.weight.mul_(1e9)
    settings = dump.DumpSettings(layer="all", dtype="float16")
    with pytest.raises(InputError, match="line 5: expected numbers that float16 can hold, found"):
        dump.dump(elmo, dump.line_rows([(4, "the dog")]), tmp_path / "out", settings)
    assert not (tmp_path / "out").exists()


def test_sentence_keys(text, tmp_path, options, monkeypatch):
    """The expected numbers are those of a dump by lines. A sentence that is a prefix of another
    one's path has no name; the error names the line, and without the option nothing is computed
    again. tests/corpora/test_writers.py has the other rules."""
    run(text, tmp_path / "lines", "--top", *options)
    run(text, tmp_path / "sentences", "--top", *options, "--use-sentence-keys")
    lines = read(tmp_path / "lines")
    with h5py.File(tmp_path / "sentences") as file:
        assert all(
            numpy.array_equal(file[sentence], lines[str(line)])
            for line, sentence in enumerate(TEXT)
            if line != 1  # of which an equal one follows
        )
    text.write_text(text.read_text("utf-8") + "and\n", "utf-8")
    with pytest.raises(InputError, match=r"line 8: 'and': HDF5 cannot .*--use-sentence-keys"):
        run(text, tmp_path / "out", "--top", *options, "--use-sentence-keys")
    monkeypatch.setattr(Elmo, "embed_rows", None)
    run(text, tmp_path / "out", "--top", *options)
    assert len(read(tmp_path / "out")) == 8


REFUSED = {
    "blank out --top MODEL": r"^blank, line 2: expected a sentence",
    "bytes out --top MODEL": r"^bytes, line 2: expected UTF-8",
    "- out --top MODEL": r"^stdin, line 2: expected UTF-8, .* 0xff at",
    "no out --top MODEL": "^no: expected a text.* found no such file",
    ". out --top MODEL": "expected a file, found a folder",
    "text out --layer 3 MODEL": "^--layer: expected a whole number from 0 to 2, found 3$",
    "text out --top --batch-size 0 MODEL": "^--batch-size: .* from 1 to 4096, found 0$",
    "text out --top --batch-size 4097 MODEL": "^--batch-size: .* found 4097$",
    "text out --top --shard 1/2 --initial-state carry MODEL": "^--shard: ",
    "text out --top --cuda-device 100 MODEL": "^--cuda-device: expected -1 for the CPU",
    # Sentences have different numbers of tokens, and the rows of an array have no names.
    "text out.npy --top MODEL": "^output_file: expected --pool and no --use-sentence-",
    "text out.npy --pool mean --use-sentence-keys --top MODEL": "^output_file: expected --pool",
    "text text --top MODEL": "text: expected to write a new file, found one",
    "text out.hdf5.gz --top MODEL": "^output_file: expected a name without .gz, .xz or .zst",
    "text folder --top MODEL": "^output_file: expected a file to write, found 'folder'$",
    "text no/out --top MODEL": "^output_file: no/out: .* the folder /.*/no, found: No such",
    "text text/out --top MODEL": "^output_file: text/out: .* the folder /.*/text, found: Not a",
    "text out --top": "^expected one of --pretrained, .*, found none$",
    "text out --top --archive-file text MODEL": "--archive-file and --options-file and --weight-",
    "text out --top --pretrained tiny --archive-file text": "--pretrained and --archive-file$",
    "text out --top --archive-file no": "no: expected an installed model.* found no such file",
    "text out --top --options-file OPTIONS --weight-file no": "no: expected bilm-tf's weights",
}


@pytest.mark.parametrize("arguments", REFUSED)
def test_what_is_refused(tmp_path, bilm_files, monkeypatch, arguments):
    """The message names the argument, the file or the line, before anything is computed, and
    nothing is written. The biLM has three layers, and a batch is at most a part."""
    monkeypatch.setattr(Elmo, "embed_rows", None)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"One .\n\xff .\n")))
    monkeypatch.chdir(tmp_path)
    files = {"text": b"One .\n", "blank": b"One .\n\nTwo .\n", "bytes": b"One .\n\xff .\n"}
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "folder").mkdir()
    model = f"--options-file OPTIONS --weight-file {bilm_files.weight_file}"
    words = arguments.replace("MODEL", model).replace("OPTIONS", bilm_files.options_file).split()
    with pytest.raises((InputError, FileNotFoundError), match=REFUSED[arguments]):
        run(*words)
    assert {file.name for file in tmp_path.iterdir()} == {*files, "folder"}
    assert (tmp_path / "text").read_bytes() == files["text"]


@pytest.mark.parametrize(
    "arguments",
    [["--batch-size=x"], *([f"--shard={x}"] for x in ("0/2", "3/2", "1", "a/b", f"1/{2**64}"))]
    + [["--running-text", "--raw"]],
    ids=str,
)
def test_arguments_of_another_form(text, tmp_path, options, arguments, capsys):
    """A shard must have the form I/N with I from 1 to N. A text is read in one way."""
    with pytest.raises(SystemExit):
        run(text, tmp_path / "out", "--top", *options, *arguments)
    expected = arguments[0].partition("=")[2] or "not allowed with argument --running-text"
    assert expected in capsys.readouterr().err


def test_stdin_that_is_closed(tmp_path, options, monkeypatch):
    """Python's `sys.stdin` is then None."""
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match=r"^input_file: -: expected .*, found it closed$"):
        run("-", tmp_path / "out", "--top", *options)


def test_a_task(tmp_path, bilm_archive, monkeypatch, capsys):
    """By hand: of four instances, two have the same text, which has one dataset, one prediction,
    one number in the uses, and is encoded once. The vectors are those of the lines of a file."""
    monkeypatch.setattr("allennlp.common.file_utils.CACHE_DIRECTORY", str(tmp_path / "texts"))
    texts = ["a dog ran", "a dog", "a dog ran", "it ran"]
    data = "".join(json.dumps({"text": x, "label": "x"}) + "\n" for x in texts)
    (tmp_path / "data.jsonl").write_text(data)
    reader = {"type": "text_classification_json", "tokenizer": "whitespace"}
    config = {"dataset_reader": reader, "train_data_path": str(tmp_path / "data.jsonl")}
    (tmp_path / "task.json").write_text(json.dumps(config))
    task = f"task://{tmp_path}/task.json#train_data_path"
    distinct, archive = ["a dog ran", "a dog", "it ran"], ["--archive-file", bilm_archive]
    (tmp_path / "lines").write_text("".join(f"{line}\n" for line in distinct))
    run(task, tmp_path / "out", "--top", *archive)
    run(tmp_path / "lines", tmp_path / "expected", "--top", *archive)
    assert sorted(read(tmp_path / "out")) == ["0", "1", "2"]
    assert same(read(tmp_path / "out"), read(tmp_path / "expected"))
    allennlp("bilm-encode", task, tmp_path / "corpus")
    assert EncodedCorpus(tmp_path / "corpus").num_sentences == 3
    for number, reader in enumerate(([], ["--use-dataset-reader"])):
        file = tmp_path / f"{number}.jsonl"
        allennlp("predict", bilm_archive, task, "--output-file", file, "--silent", *reader)
        found = [json.loads(x)["tokens"] for x in file.read_text().splitlines()]
        assert found == [line.split() for line in distinct]
    words, out = os.pipe()  # as the shell's <(echo it), which can be read once
    os.write(out, b"it\nno\tNo NO")
    os.close(out)
    uses = tmp_path / "uses.hdf5"
    capsys.readouterr()
    allennlp("uses", task, f"/dev/fd/{words}", uses, *archive)
    assert capsys.readouterr().out == f"{uses}: 1 uses; none of no\n"
    assert read_uses(uses)[["sentence", "position"]].values.tolist() == [[2, 0]]


UNSEGMENTED = "我昨天去了北京大学图书馆借书然后回家"
"""18 characters of 3 bytes each."""


@pytest.mark.parametrize(
    ("lines", "share"),
    [
        ([UNSEGMENTED, "A dog .", UNSEGMENTED[::-1], f"x{UNSEGMENTED}"], "3 of 6 tokens (50.0 %)"),
        ([UNSEGMENTED, "w " * 99], None),  # one percent
        ([UNSEGMENTED[:16]] * 3, None),  # 48 bytes
        (["w" * 49, "w" * 48], "1 of 2 tokens (50.0 %)"),
    ],
)
def test_cropped_tokens(tmp_path, options, caplog, lines, share):
    """By hand: a word keeps 48 bytes, as `bilm-encode` reports."""
    (tmp_path / "text").write_text("".join(f"{line}\n" for line in lines), "utf-8")
    run(tmp_path / "text", tmp_path / "out", "--top", *options)
    found = [x for x in caplog.messages if "48 bytes in UTF-8 and are cut" in x]
    assert [x.partition(" are longer")[0] for x in found] == [share] * (share is not None)


@pytest.mark.parametrize(
    "command, defaults",
    [("elmo", ["fp32", "-1", "64", "1/1"]), ("uses", ["0", "top", "1/1", "fp32", "-1"])],
)
def test_help_says_each_default_once(capsys, command, defaults):
    """The expected help lists the options in order, with each default as one would type it."""
    with pytest.raises(SystemExit):
        allennlp(command, "--help")
    shown = re.findall(r"\(default(?::| =) (\S+)\)", " ".join(capsys.readouterr().out.split()))
    assert shown == defaults
