"""The picture of uses by cluster."""

from pathlib import Path

import numpy as np
import pytest

from elmo_plugin import Elmo
from elmo_plugin.corpora.uses import write_uses
from experiments import clusters
from tests.conftest import ROOT


def test_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: each text has six uses of cell, in as many clusters as labels."""
    elmo = Elmo.from_pretrained("tiny")
    for name in ("old", "new"):
        text = ROOT / "fixtures" / "change" / f"{name}.txt"
        write_uses(tmp_path / f"{name}.hdf5", elmo, text, {"cell": ["cell"]}, "top", None, 0)
    named = [f"{name}={tmp_path / name}.hdf5" for name in ("old", "new")]
    monkeypatch.setattr(clusters, "clusters", lambda vectors: np.arange(len(vectors)) // 8)
    labels = ["--labels", "prison", "biology"]
    monkeypatch.setattr("sys.argv", ["clusters", str(tmp_path / "a.svg"), *named, *labels])
    clusters.main()
    assert "prison: 6 old, 2 new; biology: 4 new</desc>" in (tmp_path / "a.svg").read_text()
