"""These tests run `bilm-export` and `bilm-import`, one after the other, on the archive of a random
model."""

import errno
import logging
import os
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.models import Model
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import DiskFullError
from elmo_plugin.formats.allennlp_elmo import refused_by_allennlp, who_reads
from elmo_plugin.formats.bilm_tf.texts import write_options
from elmo_plugin.formats.bilm_tf.weights import write_weights
from elmo_plugin.modules import BiLM
from elmo_plugin.options import BiLMOptions
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary, vocabulary_words
from elmo_plugin.plugin.models.archives import import_files
from tests.conftest import BLOCKS, allennlp, export_files, file_size_limit

FILES = ("options.json", "weights.hdf5", "vocabulary.txt")


def test_export_then_import_is_the_same_model(bilm_archive, tmp_path, caplog):
    """Every weight and the number of every word are those of the model before. There is no
    warning."""
    before = Model.from_archive(bilm_archive)
    export_files(before, tmp_path, with_softmax=True)
    files = (str(tmp_path / name) for name in FILES)
    import_files(*files, str(tmp_path / "model.tar.gz"))
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    after = Model.from_archive(tmp_path / "model.tar.gz")
    for name, tensor in before.named_parameters():
        assert torch.equal(tensor, after.get_parameter(name)), name
    assert torch.equal(before.bilm.warm_state.memory, after.bilm.warm_state.memory)
    vocabularies = [m.vocab.get_token_to_index_vocabulary("words") for m in (before, after)]
    assert vocabularies[0] == vocabularies[1]


def arrays_in(file: Path) -> dict[str, np.ndarray]:
    names: list[str] = []
    with h5py.File(file) as weights:
        weights.visit(names.append)
        return {x: weights[x][...] for x in names if isinstance(weights[x], h5py.Dataset)}


def test_rounded_weights(bilm_archive, tmp_path):
    """The expected values are NumPy's rounding of every array of the unrounded file, except the
    LSTMs' biases, to which AllenNLP adds 1 in the type that they have. The file is smaller."""
    files = []
    for dtype in (torch.float32, torch.float16):
        folder = tmp_path / str(dtype)
        export_files(Model.from_archive(bilm_archive), folder, with_softmax=True, dtype=dtype)
        files.append(folder / "weights.hdf5")
    full, half = map(arrays_in, files)
    assert full.keys() == half.keys()
    for name, x in full.items():
        expected = x.astype(np.float32 if name.endswith("/B") else np.float16)
        np.testing.assert_array_equal(half[name], expected, name, strict=True)
    assert files[1].stat().st_size < files[0].stat().st_size


OPERATIONS = ("open", "os.chmod", "os.mkdir", "os.remove", "os.rename")
"""Python's audit events for operations on files."""

hooks: list[Callable[[str, str], None]] = []


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if hooks and event in OPERATIONS:
        hooks[-1](event, str(arguments[0]))


def test_another_models_files_are_replaced_as_one_set(bilm_archive, tmp_path):
    """A second model of the same sizes, with other clips and words, is exported over the first, and
    each of the file operations in turn fails or is killed. The folder then has the bytes of either
    set, or no options, without which nothing loads. It has the old set if the error came before
    that was touched. After an error nothing else is in the folder."""
    models = [Model.from_archive(bilm_archive), Model.from_archive(bilm_archive)]
    bilm = models[1].bilm
    bilm.options = replace(bilm.options, lstm=replace(bilm.options.lstm, cell_clip=0.1))
    for layer in bilm.bilstm.layers:
        layer.cell_clip = 0.1
    torch.nn.init.normal_(bilm.token_encoder.projection.weight)
    words = [*vocabulary_words(models[1].vocab)[:3], *"abcdefg"]
    models[1].vocab = BiLMVocabulary.from_words(words)
    sets = []
    for number, model in enumerate(models):
        export_files(model, tmp_path / str(number), with_softmax=False)
        sets.append([(tmp_path / str(number) / name).read_bytes() for name in FILES])
    assert all(old != new for old, new in zip(*sets))

    def export_until(last: int, kill: bool) -> None:
        """Exit with 0 if operation number `last` was not reached."""
        operations = 0

        def stop(event: str, path: str) -> None:
            nonlocal operations
            if str(folder) in path:
                operations += 1
                if operations == last:
                    hooks.clear()
                    if kill:
                        os._exit(9)
                    raise OSError(errno.EIO, f"{event} failed")

        sys.addaudithook(_audit)
        hooks.append(stop)
        try:
            export_files(models[1], folder, with_softmax=False)
        except InputError:
            assert not hooks
        os._exit(0 if hooks else 1)

    outcomes = set()
    for kill in (False, True):
        for last in count(1):
            folder = tmp_path / f"folder {kill} {last}"
            shutil.copytree(tmp_path / "0", folder)
            child = get_context("fork").Process(target=export_until, args=(last, kill))
            child.start()
            child.join()
            files = [folder / name for name in FILES]
            found = [file.read_bytes() if file.exists() else None for file in files]
            if found[0] is not None:
                assert found in sets, (kill, last)
                outcomes.add(sets.index(found))
            else:
                outcomes.add(None)
                with pytest.raises(FileNotFoundError):
                    Elmo.from_files(folder / "options.json", folder / "weights.hdf5")
            if not kill:
                assert {file.name for file in folder.iterdir()} <= set(FILES)
            if child.exitcode == 0:
                break
        assert found == sets[1]
        assert last > 8
    assert outcomes == {0, None, 1}


def test_a_model_that_the_files_cannot_hold(bilm_archive, tmp_path):
    """The error names the file, and not the temporary one: 65,504 is the largest number in float16.
    tests/plugin/data/test_vocabulary.py has words that a file cannot hold."""
    model = Model.from_archive(bilm_archive)
    model.bilm.token_encoder.char_embedding.weight.data[5, 0] = 70_000.0
    with pytest.raises(InputError, match=rf"^{tmp_path}/weights\.hdf5: .*expected"):
        export_files(model, tmp_path, with_softmax=False, dtype=torch.float16)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes, reason",
    [
        ({}, None),
        ({"n_layers": 1, "n_highway": 0, "activation": "tanh"}, None),
        ({"cell_clip": None, "proj_clip": None}, None),
        ({"use_skip_connections": False}, "lstm.use_skip_connections"),
        ({"projection_dim": 24}, "an lstm.projection_dim other than lstm.dim"),
        ({"projection_dim": 20}, "an lstm.projection_dim other than the number of filters"),
        ({"max_characters_per_token": 40}, "a char_cnn.max_characters_per_token of 50"),
    ],
    ids=str,
)
def test_who_reads_an_export(tmp_path, changes, reason):
    """The oracle is AllenNLP's stock `Elmo`: it gives our vectors, or else an error, as was
    predicted."""
    lstm, char_cnn = (
        {key: changes.get(key, value) for key, value in block.items()}
        for block in (BLOCKS["lstm"], BLOCKS["char_cnn"])
    )
    options = BiLMOptions.from_dict({"lstm": lstm, "char_cnn": char_cnn}, source="test")
    assert refused_by_allennlp(options) == ([reason] if reason else [])
    files = str(tmp_path / "options.json"), str(tmp_path / "weights.hdf5")
    write_options(options, files[0])
    write_weights(BiLM(options), files[1])
    ids = batch_to_ids([["He", "threw"], ["stick"]])
    try:
        found = StockElmo(*files, 1, dropout=0)(ids)["elmo_representations"][0]
    except (ConfigurationError, KeyError, RuntimeError):
        assert reason is not None
        assert reason in who_reads(options)
    else:
        assert reason is None
        assert who_reads(options) == "AllenNLP's own ELMo reads them, as elmo_plugin does"
        expected = Elmo.from_files(*files, initial_state="zero")(ids)["elmo_representations"][0]
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_an_export_says_who_reads_it(bilm_archive, tmp_path, capsys):
    """The command prints one line with the files and one with the programs that can read them."""
    allennlp("bilm-export", bilm_archive, tmp_path)
    assert capsys.readouterr().out.splitlines()[-2:] == [
        f"wrote options.json, weights.hdf5 and vocabulary.txt to {tmp_path}",
        "AllenNLP's own ELMo reads them, as elmo_plugin does",
    ]


@pytest.mark.usefixtures("capsys")  # in memory, as the limit is also that of pytest's file
@pytest.mark.parametrize("limit", [0, 100, 4096, 20_000])
def test_an_import_to_a_full_disk(bilm_archive, tmp_path, limit):
    """A file size limit simulates the full disk, at each of the archive's files. The error is one
    sentence with the archive's name, and nothing of it is left."""
    export_files(Model.from_archive(bilm_archive), tmp_path, with_softmax=True)
    names = sorted(tmp_path.iterdir())
    message = r"model\.tar\.gz: could not .* may be full \(File"
    with file_size_limit(limit), pytest.raises(DiskFullError, match=message):
        import_files(*(str(tmp_path / f) for f in FILES), str(tmp_path / "model.tar.gz"))
    assert sorted(tmp_path.iterdir()) == names


def test_errors_of_an_import(bilm_archive, tmp_path):
    """Each error names the path and what was expected. An archive that is there, which may be of a
    run that took days, stays as it is, and so does a link to it; and a missing softmax may be in a
    file of its own, which the message says."""
    for name, with_softmax in (("whole", True), ("part", False)):
        model = Model.from_archive(bilm_archive)
        export_files(model, tmp_path / name, with_softmax=with_softmax)
    files, out = [tmp_path / "whole" / name for name in FILES], tmp_path / "model.tar.gz"
    for number, kind in enumerate(("options.json", "weights in HDF5", "vocabulary")):
        given = [*files[:number], tmp_path / "no", *files[number + 1 :]]
        with pytest.raises(FileNotFoundError, match=rf"^\S+/no: expected bilm-tf's {kind}"):
            allennlp("bilm-import", *given, out)
    with pytest.raises(InputError, match=f"^archive: {tmp_path}/no/.* found: No such file"):
        allennlp("bilm-import", *files, tmp_path / "no" / "model.tar.gz")
    message = r"weights\.hdf5: expected a softmax, .*found none; it may be in a file of its own"
    with pytest.raises(InputError, match=message):
        allennlp("bilm-import", *(tmp_path / "part" / name for name in FILES), out)
    assert not out.exists()
    out.write_text("a run")
    (tmp_path / "link").symlink_to(out)
    for archive in (out, tmp_path / "link"):
        with pytest.raises(InputError, match=f"^{archive}: .* found one; remove it .*$"):
            allennlp("bilm-import", *files, archive)
    assert out.read_text() == "a run"


def test_paths_of_an_export(bilm_archive, tmp_path):
    """Each error names its argument and the path, after which it is the system's."""
    no, file = tmp_path / "no", tmp_path / "file"
    with pytest.raises(FileNotFoundError, match=rf"^{no}: expected .* model\.tar\.gz"):
        allennlp("bilm-export", no, tmp_path / "out")
    file.write_text("mine")
    for folder, found in ((file, "File exists"), (file / "out", "Not a directory")):
        with pytest.raises(InputError, match=f"^folder: {folder}: .* found .*{found}: '{folder}'$"):
            allennlp("bilm-export", bilm_archive, folder)
