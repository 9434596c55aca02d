"""
A cache of encoded corpora, keyed by the content of their text, so that a config can simply name a
text.

A text is recognized by the paths, sizes, mtimes, ctimes and inodes of its files, because hashing
gigabytes at each start would take long. If these differ (after a copy, a checkout or a touch), the
hashes of the files are compared, and only a new text is encoded. Hashes are computed while
encoding, so a new text is read once, unless it was written within the last two seconds.

Nothing outside the cache is ever removed, even if the index is damaged. A read-only cache can still
be used.
"""

import json
import logging
import os
import re
import shutil
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from elmo_plugin.checks import InputError
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.digest import digest, file_digest, is_sealed, sealed
from elmo_plugin.files.file_lock import FileLock
from elmo_plugin.files.local_path import CACHE
from elmo_plugin.text.corpus import (
    FORMAT_VERSION,
    CorpusError,
    EncodedCorpus,
    is_corpus,
    read_description,
)
from elmo_plugin.text.encoding import encode_corpus
from elmo_plugin.text.lines import file_facts, find_files

logger = logging.getLogger(__name__)

DEFAULT_CACHE = CACHE / "bilm"
INDEX_FILE = "index.json"
ENTRY = re.compile("[0-9a-f]{20}")
"""Names of corpora in the cache, which are signatures of texts. Other names are ignored."""


def open_corpus(
    path: str | os.PathLike, cache_dir: str | os.PathLike | None = None
) -> EncodedCorpus:
    """
    Open the corpus of a text, encoding it first if it is not in the cache. One process at a time
    encodes into a cache; others wait for it. `path`: folder of an encoded corpus, or a text; see
    `find_files`. `cache_dir`: by default `bilm` in AllenNLP's cache.
    """
    path = os.path.expanduser(path)
    if is_corpus(path):
        return EncodedCorpus.open(path)
    files = find_files(path)
    cache = Path(cache_dir or DEFAULT_CACHE).expanduser()
    signature = _signature(files)
    # No lock, because the cache may belong to another user. Its files are written atomically.
    if name := _read_index(cache).get(signature):
        try:
            return EncodedCorpus.open(cache / name)
        except CorpusError:
            pass  # encoded again below, under the lock
    with ExitStack() as stack:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(cache / ".lock"))
        except OSError as error:
            if name := name or _find_by_content(files, cache):
                return EncodedCorpus.open(cache / name)
            raise InputError(
                f"cache_dir: {cache}: expected a folder that can be written to, or an encoded "
                f"corpus of {path} in it, found neither ({error.strerror})"
            ) from error
        index = _read_index(cache)
        name = index.get(signature) or _find_by_content(files, cache) or signature
        corpus = None
        if (cache / name).exists():
            try:
                corpus = EncodedCorpus.open(cache / name)
            except CorpusError as error:
                logger.warning("Encoding %s again: %s", path, error)
                _remove(cache / name)
        if corpus is None:
            logger.info("Encoding %s into %s", path, cache / name)
            corpus = encode_corpus(files, cache / name)
        if index.get(signature) != name:
            _write_index(cache, {**index, signature: name})
    return corpus


def _remove(folder: Path) -> None:
    if folder.is_symlink():  # its target is outside the cache
        folder.unlink()
    else:
        shutil.rmtree(folder)


def _signature(files: Sequence[Path]) -> str:
    return digest(json.dumps([FORMAT_VERSION, file_facts(files)]).encode("utf-8"))[:20]


def _find_by_content(files: Sequence[Path], cache: Path) -> str | None:
    sizes = [file.stat().st_size for file in files]
    hashes: list[str] | None = None
    for folder in sorted(cache.iterdir()) if os.path.isdir(cache) else []:
        if not ENTRY.fullmatch(folder.name) or not is_corpus(folder):
            continue
        try:
            sources = read_description(folder)["files"]
        except CorpusError:
            continue
        if [source["bytes"] for source in sources] != sizes:
            continue
        hashes = hashes or [file_digest(file) for file in files]
        if [source["blake2b"] for source in sources] == hashes:
            return folder.name
    return None


def _read_index(cache: Path) -> dict[str, str]:
    """Names of corpora by the signatures of their texts; empty if the index is damaged."""
    try:
        index = json.loads((cache / INDEX_FILE).read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if not is_sealed(index):
        return {}
    return {
        signature: name
        for signature, name in index.items()
        if isinstance(name, str) and ENTRY.fullmatch(name)
    }


def _write_index(cache: Path, index: dict[str, str]) -> None:
    if (cache / INDEX_FILE).is_symlink():  # its target is outside the cache
        (cache / INDEX_FILE).unlink()
    with atomic_write(cache / INDEX_FILE) as temporary:
        temporary.write_text(json.dumps(sealed(index), indent=2), "utf-8")
