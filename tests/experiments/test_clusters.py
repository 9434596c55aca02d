"""The picture of uses by cluster."""

from pathlib import Path

import numpy as np
import pytest

from elmo_plugin import Elmo
from elmo_plugin.corpora.uses import write_uses
from experiments import clusters
from tests.conftest import ROOT
from tests.pictures import illegible


def test_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: each text has six uses of cell, and as many labels are expected as clusters."""
    elmo = Elmo.from_pretrained("tiny")
    for name in ("old", "new"):
        text = ROOT / "fixtures" / "change" / f"{name}.txt"
        write_uses(tmp_path / f"{name}.hdf5", elmo, text, {"cell": ["cell"]}, "top", None, 0)
    named = [f"{name}={tmp_path / name}.hdf5" for name in ("old", "new")]
    monkeypatch.setattr(clusters, "clusters", lambda vectors: np.arange(len(vectors)) // 8)
    command = ["clusters", str(tmp_path / "a.svg"), *named, "--labels", "prison"]
    monkeypatch.setattr("sys.argv", command)
    with pytest.raises(ValueError, match="found 2 clusters and 1 labels"):
        clusters.main()
    monkeypatch.setattr("sys.argv", [*command, "biology"])
    clusters.main()
    picture = (tmp_path / "a.svg").read_text()
    assert "prison: 6 old, 2 new; biology: 4 new</desc>" in picture
    assert "<!-- from new -->" in picture and "<!-- biology -->" in picture


def test_points_have_the_color_of_their_cluster_and_the_shape_of_their_text() -> None:
    """By hand, from three points."""
    points = np.array([[0.0, 0], [1, 2], [3, 4]])
    figure = clusters.picture(points, ["a", "b", "b"], np.array([0, 0, 1]), ["one", "two"])
    drawn = [x for x in figure.axes[0].collections if len(x.get_offsets())]
    assert [x.get_offsets().tolist() for x in drawn] == [[[0, 0]], [[1, 2]], [[3, 4]]]
    first, second, third = (x.get_facecolor()[0].tolist() for x in drawn)
    assert first == second != third
    first, second, third = (x.get_paths()[0].vertices.shape for x in drawn)
    assert first != second == third
    assert not illegible(figure)
