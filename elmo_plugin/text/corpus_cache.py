"""
A cache of encoded corpora, keyed by the content of their text, so that a config can simply name a
text.

A text is recognized by the paths, sizes, mtimes, ctimes and inodes of its files, because hashing
gigabytes at each start would take long: a digest of these is the name of its corpus. If they differ
(after a copy, a checkout or a touch), the hashes of the files are compared, and only a new text is
encoded; a known one gets a link of the new name. Hashes are computed while encoding, so a new text
is read once, unless it was written within the last two seconds.

Nothing outside the cache is ever removed. A read-only cache can still be used.
"""

import json
import logging
import os
import shutil
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from elmo_plugin.checks import InputError
from elmo_plugin.files.digest import digest, file_digest
from elmo_plugin.files.file_lock import FileLock
from elmo_plugin.files.local_path import CACHE
from elmo_plugin.text.corpus import (
    DESCRIPTION_FILE,
    FORMAT_VERSION,
    CorpusError,
    EncodedCorpus,
    is_corpus,
    read_description,
)
from elmo_plugin.text.encoding import encode_corpus
from elmo_plugin.text.text_files import file_facts, find_files

logger = logging.getLogger(__name__)

DEFAULT_CACHE = CACHE / "bilm"
ENTRY = "[0-9a-f]" * 20
"""Pattern of the names in the cache. Other files and folders are ignored."""


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
        return EncodedCorpus(path)
    files = find_files(path)
    cache = Path(cache_dir or DEFAULT_CACHE).expanduser()
    entry = cache / digest(json.dumps([FORMAT_VERSION, file_facts(files)]).encode("utf-8"))[:20]
    # No lock, because the cache may belong to another user. Folders are made atomically.
    with suppress(CorpusError, OSError):
        return EncodedCorpus(entry.resolve())
    with ExitStack() as stack:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            stack.enter_context(FileLock(cache / ".lock"))
        except OSError as error:
            if same := _find_by_content(files, cache):
                return EncodedCorpus(same)
            raise InputError(
                f"cache_dir: {cache}: expected a folder that can be written to, or an encoded "
                f"corpus of {path} in it, found neither ({error.strerror})"
            ) from error
        if corpus := _open_or_remove(entry):  # of another process
            return corpus
        same = _find_by_content(files, cache)
        if same is not None and (corpus := _open_or_remove(same)):
            with suppress(OSError):  # some file systems have no links
                entry.symlink_to(same.name)
            return corpus
        logger.info("Encoding %s into %s", path, entry)
        return encode_corpus(files, entry)


def _open_or_remove(entry: Path) -> EncodedCorpus | None:
    try:
        return EncodedCorpus(entry.resolve())
    except CorpusError as error:
        if entry.is_symlink():  # its target may be outside the cache
            entry.unlink()
        elif entry.exists():
            logger.warning("The text is encoded again: %s", error)
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    return None


def _find_by_content(files: Sequence[Path], cache: Path) -> Path | None:
    """The folder of a corpus in the cache that was encoded from files of the same content."""
    sizes = [file.stat().st_size for file in files]
    hashes: list[str] | None = None
    pattern = f"{ENTRY}/{DESCRIPTION_FILE}"
    for description in sorted(cache.glob(pattern)) if os.path.isdir(cache) else []:
        try:
            sources = read_description(description.parent)["files"]
        except CorpusError:
            continue
        if [source["bytes"] for source in sources] != sizes:
            continue
        hashes = hashes or [file_digest(file) for file in files]
        if [source["blake2b"] for source in sources] == hashes:
            return description.parent
    return None
