import json

import pytest

from benchmarks import picture
from tests.pictures import illegible


def test_picture_names_each_speed(tmp_path, monkeypatch) -> None:
    """The expected texts are formatted by hand from the figures in the file."""
    row = {"model": "2x64_16", "precision": "fp32", "allennlp": 100.0, "share_of_limit": 0.5}
    results = {
        "embedding": {
            "vectors": [
                {**row, "ours": 1234.4, "initial_state": "carry"},
                {**row, "ours": 77.0, "initial_state": "warm"},
            ]
        },
        "training": {"training": [{**row, "ours": 321.0}]},
    }
    figures, out = tmp_path / "figures.json", tmp_path / "speed.svg"
    figures.write_text(json.dumps({"a kind": results}))
    monkeypatch.setattr("sys.argv", ["picture", "a kind", str(out), "--figures", str(figures)])
    picture.main()
    text = out.read_text()
    assert "<!-- 12.3 x: 1,234 tokens/s -->" in text and "<!-- 3.2 x: 321 tokens/s -->" in text
    assert "77 tokens" not in text  # the peer supports only carry
    assert "<title>Speed compared with AllenNLP</title>" in text and '<svg role="img"' in text
    assert "training, 2x64_16, fp32: 3.2 times AllenNLP&#x27;s speed, 321 tokens/s" in text


def test_labels_are_right_of_all_points() -> None:
    """By hand: in units of the peer's speed, the last point of the row is at 9."""
    row = {"model": "2x64_16", "precision": "fp32", "allennlp": 100.0, "share_of_limit": 321 / 900}
    figure = picture.ratios({"training": [{**row, "ours": 321.0}]})
    [panel] = figure.axes
    [label] = panel.texts
    assert label.xy[0] == pytest.approx(9) and label.get_ha() == "left"
    assert max(x for line in panel.lines for x in line.get_xdata()) == pytest.approx(9)
    assert not illegible(figure)
