"""The control: an untrained biLM, plain or with the layers of a trained one in size."""

import numpy as np
import pytest

from elmo_plugin import Elmo
from experiments import random_bilm
from experiments.grid.bilms import check_bilms, find_bilms
from experiments.random_bilm import deviations, layer_vectors, scale_layers, write_random_bilm


def test_scaled_layers_have_the_deviations_of_the_trained_model(tmp_path):
    """Expected: the deviations of `small` from its mean vectors. The word layer has the mean zero,
    and its differences are those without scaling, times one factor."""
    write_random_bilm(tmp_path / "plain", "small", 1)
    write_random_bilm(tmp_path / "scaled", "small", 1, scaled=True)
    plain, scaled = (
        layer_vectors(Elmo.from_archive(tmp_path / name)) for name in ("plain", "scaled")
    )
    expected = deviations(layer_vectors(Elmo.from_pretrained("small")))
    np.testing.assert_allclose(deviations(scaled), expected, rtol=1e-3)
    assert (np.array(deviations(plain)) < np.array(expected) / 4).all()
    centered = plain[0] - plain[0].mean(axis=0)
    np.testing.assert_allclose(scaled[0], expected[0] / deviations(plain)[0] * centered, atol=1e-4)


@pytest.mark.parametrize("scaled, difference", [(False, 1e-3), (True, 0.1)])
def test_the_same_seed_gives_the_same_control(tmp_path, scaled, difference):
    """The same seed gives the same file, and another seed or `tiny` itself other vectors."""
    for name, seed in (("a", 1), ("b", 1), ("c", 2)):
        write_random_bilm(tmp_path / name, "tiny", seed, scaled=scaled)
    files = [(tmp_path / name / "weights.hdf5").read_bytes() for name in "abc"]
    assert files[0] == files[1] != files[2]
    elmos = (*(Elmo.from_archive(tmp_path / name) for name in "ac"), Elmo.from_pretrained("tiny"))
    found, *others = (elmo.embed("the dog", layer="all") for elmo in elmos)
    assert np.isfinite(found).all() and found.std() > 0
    for other in others:
        assert not np.allclose(found, other, atol=difference)


def test_another_processor_gives_the_same_control(tmp_path, monkeypatch):
    """Vectors whose last digits differ, as those of another processor do, give the same file."""
    write_random_bilm(tmp_path / "here", "tiny", 1, scaled=True)
    noise = np.random.default_rng(0)

    def elsewhere(elmo):
        layers = layer_vectors(elmo)
        return layers * (1 + 1e-7 * noise.standard_normal(layers.shape)).astype(np.float32)

    monkeypatch.setattr(random_bilm, "layer_vectors", elsewhere)
    write_random_bilm(tmp_path / "elsewhere", "tiny", 1, scaled=True)
    files = [(tmp_path / name / "weights.hdf5").read_bytes() for name in ("here", "elsewhere")]
    assert files[0] == files[1]


def test_a_layer_cannot_be_smaller_than_its_residual():
    """With a residual, the last layer varies at least as much as the one before it."""
    elmo = Elmo.from_pretrained("tiny")
    first, second, _ = deviations(layer_vectors(elmo))
    with pytest.raises(ValueError, match="the residual of a layer varies more"):
        scale_layers(elmo.bilm, [first, second, second / 2])


def test_a_grid_makes_both_controls(tmp_path):
    """The plain and the scaled control of one seed are different biLMs, each made once."""
    bilms = {
        "plain": {"like": "tiny", "seed": 1},
        "scaled": {"like": "tiny", "seed": 1, "scaled": True},
        "also_plain": {"like": "tiny", "seed": 1, "scaled": False},
    }
    check_bilms("grid", bilms)
    plain, scaled, also_plain = (
        bilm.digest for bilm in find_bilms(bilms, tmp_path, tmp_path).values()
    )
    assert plain == also_plain != scaled


def test_a_grid_makes_its_control_again_for_other_code(tmp_path, monkeypatch):
    """A control in the work folder is not that of another version of the code."""
    bilms = {"plain": {"like": "tiny", "seed": 1}}
    first, again = (find_bilms(bilms, tmp_path, tmp_path)["plain"] for _ in range(2))
    (tmp_path / "other.py").write_text("")
    monkeypatch.setattr(random_bilm, "__file__", str(tmp_path / "other.py"))
    assert first.path == again.path != find_bilms(bilms, tmp_path, tmp_path)["plain"].path
