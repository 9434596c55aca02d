import gzip
import json
from pathlib import Path

import torch
from allennlp.models.archival import archive_model, extracted_archive

import allennlp_today  # noqa: F401


def test_level(tmp_path: Path) -> None:
    """The header of gzip says which level it was: 4 for the fastest, 2 for the slowest (RFC 1952,
    section 2.3.1). What is unpacked are the files."""
    (tmp_path / "config.json").write_text(json.dumps({"a": 1}))
    (tmp_path / "vocabulary").mkdir()
    torch.save(torch.arange(10_000), tmp_path / "best.th")
    archive = archive_model(tmp_path)
    assert gzip.decompress(Path(archive).read_bytes())
    assert Path(archive).read_bytes()[8] == 4
    with extracted_archive(archive) as folder:
        for name, packed in (("config.json", "config.json"), ("best.th", "weights.th")):
            assert (Path(folder) / packed).read_bytes() == (tmp_path / name).read_bytes()
