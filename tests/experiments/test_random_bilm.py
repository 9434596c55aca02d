"""The control: an untrained biLM, plain or with the layers of a trained one in size."""

import numpy as np
import pytest

from elmo_plugin import Elmo
from experiments.random_bilm import deviations, layer_vectors, write_random_bilm


def test_scaled_layers_have_the_deviations_of_the_trained_model(tmp_path):
    """Expected: the deviations of `small` from its mean vectors. The word layer has the mean zero,
    and its differences are those without scaling, times one factor."""
    write_random_bilm(tmp_path / "plain", "small", 1)
    write_random_bilm(tmp_path / "scaled", "small", 1, scaled=True)
    elmos = (Elmo.from_archive(tmp_path / name) for name in ("plain", "scaled"))
    plain, scaled = map(layer_vectors, elmos)
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
