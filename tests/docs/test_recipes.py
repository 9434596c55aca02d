"""Runs each recipe as a reader does, and compares what it gives with `Elmo.embed`. A recipe whose
library is not installed is skipped; `make docs-test` installs them all."""

import gzip
import os
import runpy
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.modules import BiLSTM
from elmo_plugin.pretrained import pretrained_files
from tests.conftest import python
from tests.docs.folder import prepare
from tests.docs.pages import ROOT

pytestmark = pytest.mark.docs
RECIPES = ROOT / "recipes"
SENTENCES = [
    "He threw the stick to the dog .",
    "The ferry leaves at seven .",
    "A dog can stick to it .",
]
TIMEOUT = 600


@pytest.fixture(scope="module")
def small() -> Elmo:
    return Elmo.from_pretrained("small").eval()


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "text" / "part.txt"
    file.parent.mkdir()
    file.write_text("\n".join(SENTENCES) + "\n")
    return file


def run(name: str, *arguments: object) -> str:
    return python(RECIPES / name, *arguments).stdout


def average(elmo: Elmo, sentence: str) -> np.ndarray:
    return elmo.embed(sentence, "average")


@pytest.mark.parametrize("path", sorted(RECIPES.iterdir()), ids=lambda path: path.name)
def test_a_recipe_is_short(path: Path) -> None:
    """Recipes longer than 45 lines belong in the package."""
    assert len(path.read_text().splitlines()) <= 45


@pytest.mark.parametrize(
    "path",
    [path for path in sorted(RECIPES.glob("*.py")) if "sys.argv" in path.read_text()],
    ids=lambda path: path.name,
)
def test_help(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the recipe's docstring, which has the command."""
    for package in ("gensim", "ray"):
        if f"from {package}" in path.read_text():
            pytest.importorskip(package, reason=f"{package} is not installed")
    monkeypatch.setattr(sys, "argv", [str(path), "--help"])
    with pytest.raises(SystemExit, match=f"python recipes/{path.name}"):
        runpy.run_path(str(path))


def test_published_model(tmp_path: Path) -> None:
    """The expected vectors are those of the same files in the package, which the model has as
    repositories publish them: options.json, one HDF5 file of any name, and others. Other ways to
    name a model are in tests/formats/test_find.py."""
    folder = tmp_path / "193"
    folder.mkdir()
    for file, name in zip(pretrained_files("tiny"), ("options.json", "model.hdf5", "vocab.txt")):
        shutil.copy(file, folder / name)
    out = tmp_path / "out.npz"
    archive = shutil.make_archive(str(folder), "zip", folder)
    run("published_model.py", archive, SENTENCES[0], out)
    expected = Elmo.from_pretrained("tiny").embed(SENTENCES[0], "all")
    with np.load(out) as found:
        assert list(found["tokens"]) == SENTENCES[0].split()
        assert np.array_equal(found["words"], expected[0])
        assert np.array_equal(found["lstm"], expected[1:])


def test_ray_vectors(text: Path, tmp_path: Path) -> None:
    """The vectors are those of `embed`. After more text has come, the same command computes that
    alone: the files that were there do not change."""
    pytest.importorskip("ray", reason="ray is not installed: make docs-test installs it")
    import pyarrow.parquet as pq

    tiny = Elmo.from_pretrained("tiny").eval()
    out = tmp_path / "out"
    arguments = (text.parent, out, "pretrained://tiny")
    run("ray_vectors.py", *arguments)
    before = {file: file.stat().st_mtime_ns for file in out.iterdir()}
    (text.parent / "more.txt").write_text("Nobody saw the ferry .\n")
    run("ray_vectors.py", *arguments)
    assert before.items() <= {file: file.stat().st_mtime_ns for file in out.iterdir()}.items()
    rows = pq.read_table(out).to_pylist()
    assert sorted(row["text"] for row in rows) == sorted([*SENTENCES, "Nobody saw the ferry ."])
    for row in rows:
        np.testing.assert_allclose(row["vectors"], average(tiny, row["text"]), atol=1e-5)


def test_two_nodes(tmp_path: Path) -> None:
    """Two nodes on loopback end with the same weights, which are those of one node with two
    processes."""
    prepare(tmp_path)
    (tmp_path / "recipes").unlink()
    shutil.copytree(RECIPES, tmp_path / "recipes")  # next to the smaller configs
    environment = {"PRIMARY": "127.0.0.1", "PORT": str(free_port())}
    train = partial(python, "-m", "elmo_plugin", "train", "recipes/two_nodes.jsonnet", "-s")
    one = '{"distributed.num_nodes": 1, "distributed.cuda_devices": [-1, -1]}'
    with ThreadPoolExecutor(2) as threads:
        nodes = [
            threads.submit(train, f"node{k}", "--node-rank", k, folder=tmp_path, **environment)
            for k in (0, 1)
        ]
        for node in nodes:
            node.result(TIMEOUT)
    train("one", "-o", one, folder=tmp_path, PRIMARY="127.0.0.1", PORT="0")
    first, *others = (
        torch.load(tmp_path / name / "best.th", weights_only=True)
        for name in ("node0", "node1", "one")
    )
    for weights in others:
        for key, tensor in first.items():
            assert torch.equal(tensor, weights[key]), key


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


SEQUENCES = {"sp|P1|A_B": "MKVLAAGIW", "Q2": "ACD", "Q3": "M" * 60}


@pytest.fixture(params=["proteins.fasta", "proteins.fasta.gz"])
def fasta(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """`SEQUENCES` in a FASTA file, which may break them into lines, in lower case too, and have
    gaps and ends."""
    text = "\n>sp|P1|A_B a > b\nMKVL\naa-giw*\n\n>Q2\nACD\n>Q3\n" + "M" * 60
    file = tmp_path / request.param
    file.write_bytes(gzip.compress(text.encode()) if file.suffix == ".gz" else text.encode())
    return file


def check_proteins(files: list[Path], small: Elmo) -> None:
    with h5py.File(files[0]) as residues, h5py.File(files[1]) as means:
        assert set(residues) == set(means) == {"0", "1", "2"}
        for number, (name, sequence) in enumerate(SEQUENCES.items()):
            expected = small.embed(list(sequence), "all").sum(axis=0)
            found, mean = residues[str(number)], means[str(number)]
            assert found.attrs["original_id"] == mean.attrs["original_id"] == name
            np.testing.assert_allclose(found[()], expected, atol=1e-5)
            np.testing.assert_allclose(mean[()], expected.mean(axis=0), atol=1e-5)


def test_proteins(small: Elmo, fasta: Path, tmp_path: Path) -> None:
    """Each protein's number, identifier, and vectors: by NumPy, the sum of the layers, and its mean
    over the residues. A line says which proteins had more than residues."""
    files = [tmp_path / "residues.h5", tmp_path / "means.h5"]
    done = python(RECIPES / "proteins.py", "small", fasta, *files)
    assert "dropped - and a last * of 1 proteins, as of sp|P1|A_B\n" in done.stderr
    check_proteins(files, small)
    assert sorted(tmp_path.iterdir()) == sorted([fasta, *files])


def test_proteins_after_an_interruption(small, fasta, tmp_path, monkeypatch):
    """The run is interrupted at its third protein. The next one gives the expected vectors without
    running the LSTMs."""
    files = [tmp_path / "residues.h5", tmp_path / "means.h5"]
    recipe = str(RECIPES / "proteins.py")
    monkeypatch.setattr(sys, "argv", [recipe, "small", *map(str, [fasta, *files])])
    stream = Elmo.stream

    def interrupted(*arguments: Any) -> Iterator[Any]:
        yield from islice(stream(*arguments), 2)
        raise KeyboardInterrupt

    def no_lstm(*_: Any) -> None:
        raise AssertionError("the biLM was run")

    with monkeypatch.context() as patch:
        patch.setattr(Elmo, "stream", interrupted)
        with pytest.raises(KeyboardInterrupt):
            runpy.run_path(recipe)
    with monkeypatch.context() as patch:
        patch.setattr(BiLSTM, "forward", no_lstm)
        runpy.run_path(recipe)
    check_proteins(files, small)
    assert sorted(tmp_path.iterdir()) == sorted([fasta, *files])


def test_a_file_that_is_not_fasta(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has what is there, and nothing is computed."""
    fasta = tmp_path / "a.fasta"
    fasta.write_text(">A\nMK*VL\n>B\n")
    monkeypatch.setattr(sys, "argv", ["", "small", str(fasta), *map(str, (tmp_path / "a", "b"))])
    with pytest.raises(SystemExit, match=r"a\.fasta: .*found '>A\\nMK\*VL'"):
        runpy.run_path(str(RECIPES / "proteins.py"))
    assert [*tmp_path.iterdir()] == [fasta]


def test_similarity(small: Elmo, text: Path) -> None:
    """The expected order and numbers are those of cosines in NumPy."""
    query = average(small, "She threw a stick .").mean(axis=0)
    expected = {s: cosine(query, average(small, s).mean(axis=0)) for s in SENTENCES}
    found = run("similarity.py", text, "She threw a stick .")
    lines = [line.split("  ", 1) for line in found.splitlines()]
    assert [line for _, line in lines] == sorted(expected, key=lambda s: -expected[s])
    for number, line in lines:
        assert abs(float(number) - expected[line]) < 6e-4


def cosine(x: np.ndarray, y: np.ndarray) -> float:
    return float(x @ y / np.linalg.norm(x) / np.linalg.norm(y))


def test_static_vectors(small: Elmo, text: Path, tmp_path: Path) -> None:
    """Gensim reads the file. A word's vector is the mean over its places, and the most frequent
    word comes first."""
    pytest.importorskip("gensim", reason="gensim is not installed: make docs-test installs it")
    from gensim.models import KeyedVectors

    run("static_vectors.py", text, tmp_path / "out.bin")
    found = KeyedVectors.load_word2vec_format(str(tmp_path / "out.bin"), binary=True)
    vectors = [average(small, sentence) for sentence in SENTENCES]
    places = [(0, 6), (2, 1)]  # of "dog"
    assert found.index_to_key[0] == "."
    assert len(found) == len({token for sentence in SENTENCES for token in sentence.split()})
    expected = np.mean([vectors[s][t] for s, t in places], axis=0)
    np.testing.assert_allclose(found["dog"], expected, atol=1e-5)


@pytest.mark.parametrize("layer", ["mix", "all"])
def test_serve(layer: str, tmp_path: Path) -> None:
    """Clients that ask at the same time get the vectors of `embed`, also for a sentence that is
    padded, and a request of another form gets the status 422."""
    for package in ("fastapi", "onnxruntime", "onnxscript", "uvicorn"):
        pytest.importorskip(package, reason=f"{package} is not installed: make docs-test does it")
    import requests

    tiny = Elmo.from_pretrained("tiny")
    torch.onnx.export(tiny.export(layer), dynamo=True).save(tmp_path / "elmo.onnx")
    port = free_port()
    address = f"http://127.0.0.1:{port}/vectors"
    arguments = ["-m", "uvicorn", "serve:app", "--app-dir", str(RECIPES), "--port", str(port)]
    environment = {**os.environ, "MODEL": str(tmp_path / "elmo.onnx")}

    def ask(sentences: object) -> requests.Response:
        return requests.post(address, json=sentences, timeout=TIMEOUT)

    with (tmp_path / "log").open("w") as log:
        server = subprocess.Popen([sys.executable, *arguments], env=environment, stderr=log)
    try:
        while "Uvicorn running" not in (tmp_path / "log").read_text():
            assert server.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)
        batches = [[s.split() for s in SENTENCES[k % 3 :]] + [["naïve", "<S>"]] for k in range(24)]
        with ThreadPoolExecutor(8) as threads:
            for batch, answer in zip(batches, threads.map(ask, batches)):
                assert answer.status_code == 200, answer.text
                for found, expected in zip(answer.json(), tiny.embed(batch, layer), strict=True):
                    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=0)
        long = [["A"] * 513]
        space = [["A dog"]], [["A\u00a0dog"]]  # which `embed` reads as `A_dog`
        for wrong in ([], [[]], "The dog .", ["The", "dog"], long, [[1]], [["A", ""]], *space):
            assert ask(wrong).status_code == 422, wrong
    finally:
        server.terminate()
        server.wait(TIMEOUT)


def test_raw_text(tmp_path: Path) -> None:
    """The expected tokens are those of the Penn Treebank's conventions, by hand. A line is a
    paragraph, and a file may be longer than a text that spaCy takes."""
    text = "He didn't throw it.  The dog's stick isn't here!\nA title\n\nThe text\n"
    (tmp_path / "one.txt").write_text(text)
    (tmp_path / "two.txt").write_text("\ufeffNobody saw (it).\n" + "\n" * 1_000_001)
    found = run("raw_text.py", "en", tmp_path / "one.txt", tmp_path / "two.txt")
    assert found.splitlines() == [
        "He did n't throw it .",
        "The dog 's stick is n't here !",
        "A title",
        "The text",
        "Nobody saw ( it ) .",
    ]
