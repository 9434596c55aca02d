"""The softmax of the published models: a file of its own, and a vocabulary in bilm-tf's order."""

import json
import os
import resource
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
from allennlp.models import Model

from elmo_plugin.checks import InputError
from elmo_plugin.elmo.language_model import LanguageModel
from elmo_plugin.formats.bilm_tf.texts import read_softmax_rows, write_options
from elmo_plugin.formats.bilm_tf.weights import write_weights
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.modules import BiLM
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from tests import conftest
from tests.conftest import BLOCKS, WORDS, allennlp, write_bilm_files, write_file
from tests.formats.same import assert_same, assert_same_model

LINES = ["</S>", "the", "<S>", "dog", "!!!MAXTERMID", "the", "<UNK>", "naïve", "dog", "the", "."]
"""Ten rows: the line without a row is none of them."""


def write_parts(folder: Path) -> tuple[str, ...]:
    """Write the options, the weights, the words and the softmax."""
    options, weights = write_bilm_files(folder)
    (folder / "vocab.txt").write_text("\n".join(LINES), "utf-8")
    random = np.random.default_rng(0)
    with h5py.File(folder / "softmax_weights.hdf5", "w") as file:
        for name, shape in (("W", (10, BLOCKS["lstm"]["projection_dim"])), ("b", 10)):
            file[f"softmax/{name}"] = random.normal(size=shape).astype("f4")
    return options, weights, str(folder / "vocab.txt"), str(folder / "softmax_weights.hdf5")


@pytest.fixture
def parts(tmp_path: Path) -> tuple[str, ...]:
    return write_parts(tmp_path)


def test_published_parts(shared_data: Path, tmp_path: Path) -> None:
    """The expected log probabilities are those of a NumPy program, in float64."""
    folder = next(shared_data.rglob("published_softmax"))
    start = folder / "elmo_2x10_6_15cnn_2xhighway"
    files = [f"{start}_options.json", f"{start}_weights.hdf5", folder / "vocab-2016-09-10.txt"]
    archive = tmp_path / "model.tar.gz"
    allennlp("bilm-import", "--softmax", f"{start}_softmax_weights.hdf5", *files, archive)
    model = LanguageModel.from_archive(archive, initial_state="zero").double()
    sentences = json.loads((folder / "sentences.json").read_text("utf-8"))
    with np.load(folder / "reference.npz") as expected:
        for k, scores in enumerate(model.score(sentences, base="e")):
            np.testing.assert_allclose(scores.forward, expected[f"forward_{k}"], rtol=1e-6)
            np.testing.assert_allclose(scores.backward, expected[f"backward_{k}"], rtol=1e-6)


def test_the_row_of_each_word(parts: tuple[str, ...]) -> None:
    """By hand: the last row of a word that occurs several times is its own, and the others are in
    the softmax too, under names that no token has. The weights are those of the biLM's file, and
    without `with_softmax` neither the softmax nor its words are read."""
    found = find_bilm(*parts[:3], softmax_file=parts[3], with_softmax=True)
    assert found.softmax is not None and found.words is not None
    with h5py.File(parts[3]) as file:
        weight, bias = file["softmax/W"][()], file["softmax/b"][()]
    rows = {"<S>": 2, "</S>": 0, "<UNK>": 5, "naïve": 6, "dog": 7, "the": 8, ".": 9}
    rows |= {"the\u00a0(row\u00a01)": 1, "dog\u00a0(row\u00a03)": 3, "the\u00a0(row\u00a04)": 4}
    order = [2, 0, 5, 1, 3, 4, 6, 7, 8, 9]
    assert [rows[word] for word in found.words] == order
    assert np.array_equal(found.softmax.weight.detach(), weight[order])
    assert np.array_equal(found.softmax.bias.detach(), bias[order])
    assert_same(found.bilm, find_bilm(*parts[:2]).bilm)
    unasked = find_bilm(*parts[:3], softmax_file=parts[3])
    assert unasked.softmax is None and unasked.words is None


def test_a_row_without_a_word(parts: tuple[str, ...]) -> None:
    """By hand: bilm-tf counts a line of whitespace as a row."""
    lines = [*LINES[:3], "\u3000", *LINES[4:]]
    Path(parts[2]).write_text("\n".join(lines), "utf-8")
    expected = ["<S>", "</S>", "<UNK>", "the\u00a0(row\u00a01)", "(row\u00a03)"]
    found = read_softmax_rows(parts[2], 10, parts[3])
    assert found.words[:5] == expected
    assert [k for run in found.runs for k in range(10)[run]] == [1, 3, 0, 4, 5, 2, 6, 7, 8, 9]


def test_a_folder_with_all_parts(parts: tuple[str, ...], tmp_path: Path) -> None:
    """The expected weights are those of the files that are named one by one. The embedder needs no
    softmax, and a second softmax is not chosen from."""
    expected = find_bilm(*parts[:3], softmax_file=parts[3], with_softmax=True)
    found = find_bilm(tmp_path, with_softmax=True)
    assert_same_model(found, expected)
    (tmp_path / "other_softmax.hdf5").touch()
    assert find_bilm(tmp_path).softmax is None
    with pytest.raises(InputError, match=rf"^{tmp_path}: .* softmax .*found other_softmax\.hdf5"):
        find_bilm(tmp_path, with_softmax=True)


def test_an_import(parts: tuple[str, ...], tmp_path: Path) -> None:
    """The archive has the weights and words that `find_bilm` finds in the parts, wherever the
    option is. The export of it has them in one file."""
    archive, softmax, named = tmp_path / "model.tar.gz", parts[3], parts[:3]
    expected = find_bilm(*named, softmax_file=softmax, with_softmax=True)
    option, files = ["--softmax", softmax], [*named, archive]
    for arguments in ([*files, *option], [*option, *files], [*named, *option, archive]):
        archive.unlink(missing_ok=True)
        allennlp("bilm-import", *arguments)
        assert_same_model(find_bilm(archive, with_softmax=True), expected)
    allennlp("bilm-export", archive, tmp_path / "out", "--softmax")
    again = [tmp_path / "out" / x for x in ("options.json", "weights.hdf5", "vocabulary.txt")]
    assert_same_model(find_bilm(*again, with_softmax=True), expected)


def tuned(**files: str) -> BiLMModel:
    params = {**BLOCKS, "type": "bilm", "n_negative_samples": 3, **files}
    words = ["<S>", "</S>", "<UNK>", "new", "the"]
    return Model.from_params(params=conftest.Params(params), vocab=BiLMVocabulary.from_words(words))


@pytest.mark.parametrize("named", ["weights", "folder"])
def test_fine_tuning(parts: Any, tmp_path: Path, named: str) -> None:
    """The rows of the words that both have are those in the published file, by hand."""
    _, weights, words, softmax = parts
    os.rename(softmax, softmax := str(tmp_path / "softmax"))
    parts = {"file": weights if named == "weights" else str(tmp_path)}
    parts |= {"vocabulary_file": words, "softmax_file": softmax}
    model = tuned(**{f"pretrained_{name}": file for name, file in parts.items()})
    with h5py.File(softmax) as file:
        for row, theirs in ((0, 2), (1, 0), (2, 5), (4, 8)):
            assert np.array_equal(model.softmax.weight[row].detach(), file["softmax/W"][theirs])
            assert model.softmax.bias[row].item() == file["softmax/b"][theirs]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (LINES[:-1], "expected 10 words, as the softmax in S has, found 9"),
        ([*LINES, "more", "and"], "expected 10 words, as the softmax in S has, found 12"),
        ([*LINES[:-1], "", "x"], "expected 10 words, as the softmax in S has, found 11"),
        ([], "expected 10 words, as the softmax in S has, found 0"),
        ([*LINES[1:], "x"], ".* found no </S>"),
        ([*LINES[:-1], "a b"], "line 11: .* 'a b'"),
    ],
)
def test_another_vocabulary(tmp_path: Path, lines: list[str], message: str) -> None:
    """The message names the file."""
    file = write_file(tmp_path / "vocab.txt", "\n".join(lines))
    with pytest.raises(InputError, match=f"^{file}(: |, ){message}$"):
        read_softmax_rows(file, 10, "S")


def test_other_parts(parts: tuple[str, ...], tmp_path: Path, bilm_archive: str) -> None:
    """Each message names the file that is wrong."""
    options, weights, words, softmax = parts
    wrong: list[tuple[str, list[Any], str]] = [
        (f"{softmax}: expected a vocabulary", [options, weights], softmax),
        (f"{weights}: expected a softmax", [options, weights, words], weights),
        (f"{bilm_archive}: expected no vocabulary", [bilm_archive, None, words], softmax),
        ("gone: expected a softmax in HDF5", [options, weights, words], "gone"),
        (f"{words}: expected a whole HDF5 file", [options, weights, words], words),
    ]
    for message, files, of_softmax in wrong:
        with pytest.raises((InputError, FileNotFoundError), match=message):
            find_bilm(*files, softmax_file=of_softmax, with_softmax=True)
    with pytest.raises(InputError, match="softmax: expected a value, found an empty one"):
        allennlp("bilm-import", options, weights, words, tmp_path / "model.tar.gz", "--softmax", "")
    with pytest.raises(InputError, match="pretrained_file: expected one with pretrained_softmax"):
        tuned(pretrained_softmax_file=softmax)


def test_memory(parts: tuple[str, ...], tmp_path: Path) -> None:
    """A language model takes the memory of its softmax once, and less than that again for words,
    blocks that are read and everything else. The numbers are of a process of its own."""
    options, weights, *_ = parts
    n_words, dim = 100_000, 512
    sizes = {**BLOCKS, "lstm": {**BLOCKS["lstm"], "projection_dim": dim}}
    write_options(BiLMOptions.from_dict(sizes, source="test"), options)
    write_weights(BiLM(BiLMOptions.from_dict(sizes, source="test")), weights)
    words, softmax = tmp_path / "words", tmp_path / "softmax"
    words.write_text("\n".join([*WORDS[:3], *map(str, range(n_words - 3))]))
    with h5py.File(softmax, "w") as file:
        file["softmax/W"] = np.ones((n_words, dim), "f4")
        file["softmax/b"] = np.ones(n_words, "f4")

    def load() -> None:
        find_bilm("tiny", with_softmax=True)  # the first model loads libraries too
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        model: Any = LanguageModel.from_files(options, weights, words, softmax)
        taken = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        n_bytes = model.softmax.weight.nbytes
        os._exit(0 if taken * 1024 < 1.8 * n_bytes else 1)

    child = get_context("fork").Process(target=load)
    child.start()
    child.join()
    assert child.exitcode == 0
