"""Outputs and caches in places where nothing can be written, also by root."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from allennlp.data import Vocabulary

from elmo_plugin import Elmo
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.pretrained import pretrained_files
from tests.conftest import allennlp, python, write_file
from tests.ending import ends

MODEL = ("--pretrained", "tiny")
Use = Callable[[str, str, str], Any]

OUTPUTS: dict[str, Use] = {
    "bilm-encode": lambda text, archive, out: allennlp("bilm-encode", text, out),
    "elmo": lambda text, archive, out: allennlp("elmo", text, out, "--top", *MODEL),
    "bilm-export": lambda text, archive, out: allennlp("bilm-export", archive, out),
    "bilm-import": lambda text, archive, out: allennlp(
        "bilm-import", *pretrained_files("tiny"), out
    ),
    "elmo-configs": lambda text, archive, out: allennlp("elmo-configs", out),
    "predict": lambda text, archive, out: allennlp("predict", archive, text, "--output-file", out),
    "data loader": lambda text, archive, out: BiLMDataLoader(
        BiLMDatasetReader(), text, cache_dir=out, batch_size=1
    ),
    "vocabulary": lambda text, archive, out: BiLMVocabulary.from_corpus(text, cache_dir=out),
    "layer cache": lambda text, archive, out: Elmo.from_pretrained("tiny", cache_dir=out),
    "saved vocabulary": lambda text, archive, out: Vocabulary().save_to_files(out),
}


@pytest.mark.sampled(17)
@ends
@pytest.mark.parametrize("place", ["/proc/x", "/proc/x/y", "/sys/x", "{tmp}/file/x", "{tmp}/dead"])
@pytest.mark.parametrize("output", OUTPUTS)
def test_an_output(output: str, place: str, tmp_path: Path, bilm_archive: str) -> None:
    """By definition: an error that names the place, and nothing is written."""
    text = write_file(tmp_path / "text", "the dog\n" * 3)
    (tmp_path / "file").touch()
    (tmp_path / "dead").symlink_to("/proc/gone/x")
    before = sorted(tmp_path.iterdir())
    place = place.format(tmp=tmp_path)
    with pytest.raises((OSError, ValueError)) as error:
        OUTPUTS[output](str(text), bilm_archive, place)
    shown = str(error.value)
    assert place in shown or "/proc/gone" in shown or f"{tmp_path}/file" in shown, shown
    assert sorted(tmp_path.iterdir()) == before


@ends
@pytest.mark.parametrize("lock", ["/proc/gone", "."])
def test_a_cache_whose_lock_is_none(lock: str, tmp_path: Path) -> None:
    """By definition, as above: the lock is a dead link or a folder."""
    (tmp_path / "text").write_text("the dog\n")
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / ".lock").symlink_to(lock)
    with pytest.raises(ValueError, match=r"cache_dir: .*cache: expected a folder that can be"):
        BiLMVocabulary.from_corpus(str(tmp_path / "text"), cache_dir=str(tmp_path / "cache"))


LOADER = '{"validation_data_loader": {"type": "bilm", "batch_size": 2, "window": 8}}'
RUN = """
import json, sys
from allennlp.commands import main
for arguments in json.loads(sys.argv[1]):
    sys.argv = ["allennlp", *arguments, "--include-package", "elmo_plugin"]
    main(prog="allennlp")
"""


@pytest.mark.long
@pytest.mark.parametrize("home", ["/proc/nonexistent", "file"])
def test_a_home_that_cannot_be_written_to(home: str, tmp_path: Path, bilm_archive: str) -> None:
    """By definition: the plugin's commands write nothing there, and AllenNLP's own have another
    place for their cache, as docs/trouble.md says."""
    text, words = tmp_path / "text", tmp_path / "words"
    text.write_text("the dog\n" * 3)
    words.write_text("dog\n")
    (tmp_path / "file").touch()
    (tmp_path / "sentence").write_text('{"sentence": "the dog"}\n')
    ours = [
        ("elmo", text, tmp_path / "vectors", "--top", *MODEL),
        ("uses", text, words, tmp_path / "uses", *MODEL),
        ("bilm-encode", text, tmp_path / "corpus"),
    ]
    allennlps = [
        ("evaluate", bilm_archive, text, "-o", LOADER),
        ("predict", bilm_archive, tmp_path / "sentence", "--output-file", tmp_path / "predicted"),
    ]
    places = {"HOME": home if home[0] == "/" else str(tmp_path / home)}
    python("-c", RUN, json.dumps(ours, default=str), **places)
    places["ALLENNLP_CACHE_ROOT"] = str(tmp_path / "cache")
    python("-c", RUN, json.dumps(allennlps, default=str), **places)
