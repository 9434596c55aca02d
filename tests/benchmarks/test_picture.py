import json

from benchmarks import picture
from tests.pictures import illegible


def test_picture_names_each_speed(tmp_path, monkeypatch) -> None:
    """By hand, from the figures in the file. The peer supports only `carry`. No text is cut off or
    overlaps another."""
    row = {"model": "2x64_16", "precision": "fp32", "allennlp": 100.0, "share_of_limit": 0.5}
    speeds = ("carry", 1234.4), ("warm", 77.0)
    vectors = [{**row, "initial_state": state, "ours": ours} for state, ours in speeds]
    trained = {"training": [{**row, "ours": 321.0}]}
    figures, out = tmp_path / "figures.json", tmp_path / "speed.svg"
    results = {"embedding": {"vectors": vectors}, "training": trained}
    figures.write_text(json.dumps({"a kind": results}))
    monkeypatch.setattr("sys.argv", ["picture", "a kind", str(out), "--figures", str(figures)])
    picture.main()
    text = out.read_text()
    assert "<!-- 12.3 x: 1,234 tokens/s -->" in text and "77 tokens" not in text
    assert "training, 2x64_16, fp32: 3.2 times AllenNLP&#x27;s speed, 321 tokens/s" in text
    assert not illegible(picture.ratios(trained))
