"""
Encodes a text as a corpus; see `elmo_plugin.text.corpus`. The text is read once.

The first pass numbers the words by first occurrence, counts them, and writes the numbers. The
second pass replaces the numbers by ranks, which are known only after counting. Memory holds the
distinct words and one shard, never the whole text.
"""

import io
import json
import logging
import os
import shutil
from collections import defaultdict
from collections.abc import Sequence
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from elmo_plugin.checks import InputError
from elmo_plugin.files.digest import digest, new_digest, sealed
from elmo_plugin.files.file_lock import FileLock
from elmo_plugin.files.interrupts import replace_output
from elmo_plugin.text.advice import advised, current
from elmo_plugin.text.characters import SPECIAL_WORDS
from elmo_plugin.text.corpus import (
    COUNTS_FILE,
    DESCRIPTION_FILE,
    FORMAT,
    FORMAT_VERSION,
    OFFSETS_FILE,
    WORDS_FILE,
    EncodedCorpus,
    shard_files,
)
from elmo_plugin.text.lines import read_blocks

logger = logging.getLogger(__name__)

SHARD_TOKENS = 1 << 23
"""
Most tokens of a shard, unless one sentence has more: 32 MB, about a shard of the 1 Billion Word
Benchmark.
"""


@advised()
def encode_corpus(files: Sequence[Path], folder: str | os.PathLike) -> EncodedCorpus:
    """
    Encode text files, in order. The folder is written completely or not at all; if it is a link,
    the link stays. Only one process at a time encodes to a folder; it removes what a killed process
    left.

    Raises an `InputError` if the folder exists or cannot be created, if the files contain no token,
    or if a file is not valid text; and an `OSError` if a file cannot be opened, or the corpus
    cannot be written.
    """
    folder = Path(os.path.realpath(folder))  # a link stays, and "." has a name
    partial = folder.with_name(f".{folder.name}.partial")
    with ExitStack() as stack:
        try:
            stack.enter_context(FileLock(folder.with_name(f".{folder.name}.lock")))
            stack.callback(shutil.rmtree, partial, ignore_errors=True)
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
            partial.mkdir()
        except OSError as error:
            raise InputError(f"{folder}: expected a place to write to, found: {error}") from None
        try:
            if folder.exists():
                raise InputError(
                    f"{folder}: expected a new folder to write, found one; remove it to encode the "
                    "text again"
                )
            _write_corpus(files, partial)
            replace_output(partial, folder)
        except OSError as error:
            if error.filename is not None:
                raise
            raise OSError(  # for example a full disk, for which NumPy names no file
                f"{folder}: could not write the encoded corpus or read its text ({error}); "
                "is there space left?"
            ) from error
    return EncodedCorpus(folder)


def _write_corpus(files: Sequence[Path], folder: Path) -> None:
    # Looking up a new word assigns it the next number without running Python code.
    numbers: defaultdict[str, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    for word in SPECIAL_WORDS:
        numbers[word]
    shards = _ShardWriter(folder)
    num_bytes = sum(file.stat().st_size for file in files)
    with tqdm(total=num_bytes, unit="B", unit_scale=True, desc="encoding") as progress:
        sources = [_encode_file(file, numbers, shards, progress) for file in files]
    if shards.num_tokens == 0:
        raise InputError(
            f"{_shown(files)}: expected sentences, found no token in {len(files)} file(s)"
        )
    shards.finish()
    shards.renumber(_write_words(folder, list(numbers), shards.counts, shards.digests))
    description = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "tokens": shards.num_tokens,
        "sentences": shards.num_sentences,
        "words": len(numbers),
        "shards": shards.sizes,
        "files": sources,
        "digests": shards.digests,
    }
    (folder / DESCRIPTION_FILE).write_text(json.dumps(sealed(description), indent=2), "utf-8")


def _shown(files: Sequence[Path]) -> str:
    return f"{', '.join(map(str, files[:3]))}{', ...' if len(files) > 3 else ''}"


class _HashedFile(io.FileIO):
    """A file that adds all bytes that are read to a digest and to a progress bar."""

    def __init__(self, file: Path, progress: Any) -> None:
        super().__init__(file)
        self.digest = new_digest()
        self.num_bytes = 0
        self._progress = progress

    def readinto(self, buffer: Any) -> int:
        size = super().readinto(buffer) or 0
        self.digest.update(memoryview(buffer)[:size])
        self.num_bytes += size
        self._progress.update(size)
        return size


def _encode_file(
    file: Path, numbers: dict[str, int], shards: "_ShardWriter", progress: Any
) -> dict[str, Any]:
    tokens_before = shards.num_tokens
    with _HashedFile(file, progress) as disk:
        for lines in read_blocks(disk, str(file)):
            sentences = [line.split() for line in lines]
            lengths = np.fromiter(map(len, sentences), dtype=np.int64, count=len(lines))
            tokens = np.fromiter(
                map(numbers.__getitem__, chain.from_iterable(sentences)),
                dtype=np.int32,
                count=lengths.sum(),
            )
            shards.add(tokens, lengths[lengths > 0])
    if shards.num_tokens == tokens_before:
        current().find("no token", 1, 1, [str(file)])
    content = disk.digest.hexdigest()
    return {"name": file.name, "bytes": disk.num_bytes, "blake2b": content}


def _save(file: Path, array: np.ndarray, digests: dict[str, str]) -> None:
    np.save(file, array)
    digests[file.name] = digest(array)


def _write_words(
    folder: Path, words: list[str], counts: np.ndarray, digests: dict[str, str]
) -> np.ndarray:
    """Write the distinct words. Returns the rank of each number, shape `(W,)`, int32."""
    special = len(SPECIAL_WORDS)
    # A stable sort keeps words of equal frequency in the order of their first occurrence.
    by_frequency = np.argsort(-counts[special:], kind="stable") + special
    order = np.concatenate([np.arange(special), by_frequency])
    encoded = [words[number].encode("utf-8") + b"\n" for number in order.tolist()]
    lengths = np.fromiter(map(len, encoded), dtype=np.int64, count=len(encoded))
    text = b"".join(encoded)
    (folder / WORDS_FILE).write_bytes(text)
    digests[WORDS_FILE] = digest(text)
    _save(folder / OFFSETS_FILE, np.concatenate([[0], np.cumsum(lengths)]), digests)
    _save(folder / COUNTS_FILE, counts[order], digests)
    ranks = np.empty(len(words), dtype=np.int32)
    ranks[order] = np.arange(len(words), dtype=np.int32)
    return ranks


class _ShardWriter:
    """Writes sentences as shards of word numbers, which `renumber` replaces by ranks at the end."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pending: list[tuple[np.ndarray, np.ndarray]] = []
        self._num_pending = 0
        self.num_tokens = 0
        self.num_sentences = 0
        self.sizes: list[int] = []
        self.digests: dict[str, str] = {}
        # The special words are numbered even if they do not occur in the text.
        self.counts = np.zeros(len(SPECIAL_WORDS), dtype=np.int64)

    def add(self, tokens: np.ndarray, lengths: np.ndarray) -> None:
        """
        Add sentences. `tokens`: word numbers, shape `(tokens,)`, int32. `lengths`: each sentence's
        number of tokens, shape `(sentences,)`, int64.
        """
        self.num_tokens += len(tokens)
        self.num_sentences += len(lengths)
        while len(lengths):
            ends = np.cumsum(lengths)
            room = SHARD_TOKENS - self._num_pending
            n_fit = int(np.searchsorted(ends, room, side="right"))
            if not n_fit and not self._num_pending:
                n_fit = 1  # a sentence is never cut
            size = int(ends[n_fit - 1]) if n_fit else 0
            self._pending.append((tokens[:size], lengths[:n_fit]))
            self._num_pending += size
            tokens, lengths = tokens[size:], lengths[n_fit:]
            if len(lengths):
                self._write_shard()

    def finish(self) -> None:
        """Write the last shard."""
        if self._num_pending:
            self._write_shard()

    def renumber(self, ranks: np.ndarray) -> None:
        """Replace each number by its rank. `ranks`: shape `(W,)`, int32."""
        for index in range(len(self.sizes)):
            file = shard_files(self._folder, index)[0]
            _save(file, ranks[np.load(file)], self.digests)

    def _write_shard(self) -> None:
        tokens, lengths = (np.concatenate(parts) for parts in zip(*self._pending))
        files = shard_files(self._folder, len(self.sizes))
        np.save(files[0], tokens)
        _save(files[1], np.concatenate([[0], np.cumsum(lengths)]), self.digests)
        self.sizes.append(len(tokens))
        counts = np.bincount(tokens, minlength=len(self.counts))
        counts[: len(self.counts)] += self.counts
        self.counts = counts
        self._pending, self._num_pending = [], 0
