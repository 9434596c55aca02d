import json

from benchmarks import picture


def test_picture_names_each_speed(tmp_path, monkeypatch) -> None:
    """The expected texts are formatted by hand from the figures in the file."""
    row = {"model": "2x64_16", "precision": "fp32", "allennlp": 100.0, "limit": 900.0}
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
    figures.write_text(json.dumps(results))
    monkeypatch.setattr("sys.argv", ["picture", str(figures), str(out)])
    picture.main()
    text = out.read_text()
    assert "1,234 tokens/s" in text and "321 tokens/s" in text
    assert "77 tokens/s" not in text  # the peer supports only carry
