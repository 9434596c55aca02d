"""
Encoded corpora, kept by the content of their text, so that a config may simply name a text.

A text is known at once by its files' paths, sizes and times of change, as `make` does it, since
hashing gigabytes at each start would take longer than opening them. Where these differ (a copy, a
checkout, a touch) the content decides: the files' hashes are compared, and only a text that is new
is encoded. The hashes were taken while encoding, so a new text is still read once.
"""

import json
import logging
import os
import shutil
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path

from allennlp.common.file_utils import CACHE_DIRECTORY, FileLock

from elmo_plugin.data.corpus import VERSION, CorpusError, EncodedCorpus, is_corpus, read_description
from elmo_plugin.data.encoding import encode
from elmo_plugin.data.text import find_files
from elmo_plugin.whole_file import whole_file

logger = logging.getLogger(__name__)

DEFAULT_CACHE = Path(CACHE_DIRECTORY) / "bilm"
INDEX_FILE = "index.json"


def open_corpus(
    path: str | os.PathLike, cache_dir: str | os.PathLike | None = None
) -> EncodedCorpus:
    """
    The corpus of a text, encoded now if it never was. Processes that ask for the same text at the
    same time wait for the one that encodes it.

    # Parameters

    path : `str` or `os.PathLike`
        An encoded corpus's folder, or text as `elmo_plugin.data.text.find_files` takes it.
    cache_dir : `str` or `os.PathLike`, optional
        Where to keep corpora; by default the folder `bilm` in AllenNLP's own cache.
    """
    if is_corpus(path):
        return EncodedCorpus.open(path)
    files = find_files(path)
    cache = Path(cache_dir or DEFAULT_CACHE).expanduser()
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / ".lock"):
        signature = _signature(files)
        index = _read_index(cache)
        name = index.get(signature) or _find_by_content(files, cache) or signature
        if (cache / name).exists():
            try:
                corpus = EncodedCorpus.open(cache / name)
            except CorpusError as error:
                logger.warning("Encoding %s again: %s", path, error)
                shutil.rmtree(cache / name)
                corpus = encode(files, cache / name)
        else:
            logger.info("Encoding %s into %s", path, cache / name)
            corpus = encode(files, cache / name)
        if index.get(signature) != name:
            _write_index(cache, {**index, signature: name})
    return corpus


def _signature(files: Sequence[Path]) -> str:
    facts = [
        (os.path.realpath(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files
    ]
    return blake2b(json.dumps([VERSION, facts]).encode("utf-8"), digest_size=10).hexdigest()


def _find_by_content(files: Sequence[Path], cache: Path) -> str | None:
    sizes = [file.stat().st_size for file in files]
    hashes: list[str] | None = None
    for folder in sorted(filter(is_corpus, cache.iterdir())):
        try:
            sources = read_description(folder)["files"]
        except CorpusError:
            continue
        if [source["bytes"] for source in sources] != sizes:
            continue
        hashes = hashes or [_hash(file) for file in files]
        if [source["blake2b"] for source in sources] == hashes:
            return folder.name
    return None


def _hash(file: Path) -> str:
    digest = blake2b(digest_size=20)
    with open(file, "rb") as opened:
        while piece := opened.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def _read_index(cache: Path) -> dict[str, str]:
    try:
        return json.loads((cache / INDEX_FILE).read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}


def _write_index(cache: Path, index: dict[str, str]) -> None:
    with whole_file(cache / INDEX_FILE) as temporary:
        temporary.write_text(json.dumps(index, indent=2), "utf-8")
