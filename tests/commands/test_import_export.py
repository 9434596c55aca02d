"""`bilm-export` and `bilm-import`, one after the other, on a random model's archive."""

import h5py
import numpy as np
import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin import Elmo
from elmo_plugin.bilm_tf import WeightsError
from elmo_plugin.commands.bilm_export import export
from elmo_plugin.commands.bilm_import import import_files
from elmo_plugin.models.archive import load_language_model
from elmo_plugin.training.export_callback import BilmExportCallback


def test_export_then_import_is_the_same_model(bilm_archive, tmp_path):
    """Expected values: the model before; every weight, and every word's number."""
    before = load_language_model(bilm_archive)
    export(before, tmp_path, with_softmax=True)
    files = (str(tmp_path / name) for name in ("options.json", "weights.hdf5", "vocabulary.txt"))
    import_files(*files, str(tmp_path / "model.tar.gz"))
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
    with pytest.raises(WeightsError, match=r"weights\.hdf5: softmax/W: expected"):
        files = [str(tmp_path / f) for f in ("options.json", "weights.hdf5", "vocabulary.txt")]
        import_files(*files, str(tmp_path / "model.tar.gz"))
    assert not (tmp_path / "model.tar.gz").exists()


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
