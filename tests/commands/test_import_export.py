"""`bilm-export` and `bilm-import`, one after the other, on a random model's archive."""

import logging
import os
import sys

import h5py
import numpy as np
import pytest
import torch
from allennlp.commands import main
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin import Elmo
from elmo_plugin.commands.bilm_export import export
from elmo_plugin.commands.bilm_import import import_files
from elmo_plugin.hdf5 import HDF5Error
from elmo_plugin.models.archive import load_language_model
from elmo_plugin.training.export_callback import BilmExportCallback

FILES = ("options.json", "weights.hdf5", "vocabulary.txt")


@pytest.fixture
def run(monkeypatch):
    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["allennlp", *map(str, arguments)])
        main(prog="allennlp")

    return run


def test_export_then_import_is_the_same_model(bilm_archive, tmp_path, caplog):
    """Expected values: the model before; every weight, and every word's number. No warning."""
    before = load_language_model(bilm_archive)
    export(before, tmp_path, with_softmax=True)
    files = (str(tmp_path / name) for name in FILES)
    with caplog.at_level(logging.WARNING):
        import_files(*files, str(tmp_path / "model.tar.gz"))
    assert not caplog.records
    after = load_language_model(tmp_path / "model.tar.gz")
    for name, tensor in before.named_parameters():
        assert torch.equal(tensor, after.get_parameter(name)), name
    assert torch.equal(before.bilm.warm_state.memory, after.bilm.warm_state.memory)
    vocabularies = [m.vocab.get_token_to_index_vocabulary("words") for m in (before, after)]
    assert vocabularies[0] == vocabularies[1]


def test_allennlp_gives_an_exported_models_vectors(bilm_archive, tmp_path):
    """Expected values: AllenNLP's stock `Elmo` on the exported files."""
    export(load_language_model(bilm_archive), tmp_path, with_softmax=False)
    stock = StockElmo(str(tmp_path / "options.json"), str(tmp_path / "weights.hdf5"), 1, dropout=0)
    sentence = ["He", "threw", "the", "stick", "."]
    expected = stock(batch_to_ids([sentence]))["elmo_representations"][0][0]
    found = Elmo.from_archive(bilm_archive, initial_state="zero").embed(sentence)
    torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-5, rtol=0)


def test_rounded_weights(bilm_archive, tmp_path):
    """Expected: NumPy's rounding of every array of the file in full; a smaller file."""
    model, dtypes = (
        load_language_model(bilm_archive),
        {"full": torch.float32, "half": torch.float16},
    )
    for folder, dtype in dtypes.items():
        export(model, tmp_path / folder, with_softmax=True, dtype=dtype)
    with (
        h5py.File(tmp_path / "full" / "weights.hdf5") as full,
        h5py.File(tmp_path / "half" / "weights.hdf5") as half,
    ):
        names: list[str] = []
        full.visit(names.append)
        for name in names:
            if isinstance(full[name], h5py.Dataset):
                assert np.array_equal(half[name][...], full[name][...].astype(np.float16)), name
    sizes = [(tmp_path / folder / "weights.hdf5").stat().st_size for folder in dtypes]
    assert sizes[1] < sizes[0]


def test_a_language_model_needs_its_softmax(bilm_archive, tmp_path):
    """The message names the file and the missing array."""
    export(load_language_model(bilm_archive), tmp_path, with_softmax=False)
    with pytest.raises(HDF5Error, match=r"weights\.hdf5: softmax/W: expected"):
        import_files(*(str(tmp_path / f) for f in FILES), str(tmp_path / "model.tar.gz"))
    assert not (tmp_path / "model.tar.gz").exists()


def test_another_models_vocabulary(bilm_archive, tmp_path):
    """By hand: the softmax has the 10 words of the archive, the file the first 9 of them."""
    export(load_language_model(bilm_archive), tmp_path, with_softmax=True)
    vocabulary = tmp_path / "vocabulary.txt"
    vocabulary.write_text("\n".join(vocabulary.read_text("utf-8").split()[:-1]), "utf-8")
    with pytest.raises(
        ConfigurationError, match=r"vocabulary\.txt: expected 10 words, as softmax/W .*, found 9$"
    ):
        import_files(*(str(tmp_path / f) for f in FILES), str(tmp_path / "model.tar.gz"))


def test_paths_of_an_import(run, bilm_archive, tmp_path):
    """By hand: each error names its argument and the path."""
    export(load_language_model(bilm_archive), tmp_path, with_softmax=True)
    files = [tmp_path / f for f in FILES]
    for number, argument in enumerate(("options", "weights", "vocabulary")):
        given = [*files[:number], tmp_path / "no", *files[number + 1 :]]
        with pytest.raises(FileNotFoundError, match=rf"^{argument}: \S+/no: expected .* found no"):
            run("bilm-import", *given, tmp_path / "model.tar.gz")
    for archive, found in ((tmp_path / "no" / "model.tar.gz", "none"), (tmp_path, "a folder")):
        with pytest.raises(ConfigurationError, match=f"^archive: {archive}: .* found {found}$"):
            run("bilm-import", *files, archive)


def test_paths_of_an_export(run, bilm_archive, tmp_path, monkeypatch):
    """By hand: each error names its argument and the path. Root may write anywhere, so the system's
    answer that a folder cannot be written to is given in its place."""
    no, file = tmp_path / "no", tmp_path / "file"
    with pytest.raises(FileNotFoundError, match=rf"^archive: {no}: expected the model\.tar\.gz"):
        run("bilm-export", no, tmp_path / "out")
    file.write_text("mine")
    for folder, found in ((file, "a file"), (file / "out", "none, and .* \\(Not a directory\\)")):
        with pytest.raises(ConfigurationError, match=f"^folder: {folder}: .* found {found}$"):
            run("bilm-export", bilm_archive, folder)
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(ConfigurationError, match=f"^folder: {tmp_path}: .* can be written to"):
        export(load_language_model(bilm_archive), tmp_path, with_softmax=False)


def test_the_callback_exports_a_finished_run_only(bilm_archive, tmp_path):
    """A run without metrics was cut off, and its weights are not the best."""

    class Trainer:
        """What the callback looks at."""

        model = load_language_model(bilm_archive)

    callback = BilmExportCallback(str(tmp_path), softmax=True)
    callback.on_end(Trainer(), metrics=None)
    assert not (tmp_path / "bilm-tf").exists()
    callback.on_end(Trainer(), metrics={"loss": 1.0})
    with h5py.File(tmp_path / "bilm-tf" / "weights.hdf5") as file:
        assert "softmax/W" in file


def test_not_a_language_model(tmp_path):
    """One line that names the archive."""
    with pytest.raises((ConfigurationError, FileNotFoundError)):
        load_language_model(tmp_path / "none.tar.gz")
