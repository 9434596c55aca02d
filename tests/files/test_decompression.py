import gzip
import lzma
import tracemalloc
from collections.abc import Callable
from pathlib import Path

import pytest
import zstandard

from elmo_plugin.checks import InputError
from elmo_plugin.text import lines
from elmo_plugin.text.lines import read_sentences
from tests.conftest import write_file

TEXT = "One sentence .\n\nAnother , with an é and a 👍 .\n" * 50
SENTENCES = [line.split() for line in TEXT.split("\n") if line]
PADDING = bytes(4)
SKIPPABLE = b"\x50\x2a\x4d\x18" + (4).to_bytes(4, "little") + b"size"
COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: zstandard.ZstdCompressor().compress(data),
}


@pytest.mark.parametrize("suffix", COMPRESSIONS)
@pytest.mark.parametrize("name", ["named{}", "a-download"])
def test_compressed_text_reads_as_plain(tmp_path: Path, suffix: str, name: str) -> None:
    """The expected lines are those of the same text before the standard library or zstandard
    compressed it, whatever its name is. All three formats define a concatenation as the
    concatenation of the contents. Section 2.2 of the xz format has padding of zeros after a stream,
    and section 3.1.2 of the Zstandard format (RFC 8878) frames to be skipped, which `pzstd` writes
    before each frame."""
    file, piece = tmp_path / name.format(suffix), COMPRESSIONS[suffix](TEXT.encode("utf-8"))
    padded = {".xz": piece + PADDING, ".zst": SKIPPABLE + piece}.get(suffix, piece)
    for data, n in ((piece, 1), (piece * 3, 3), (padded * 3, 3)):
        assert list(read_sentences(write_file(file, data))) == SENTENCES * n


@pytest.mark.parametrize("suffix", COMPRESSIONS)
def test_damage_is_an_error(tmp_path: Path, suffix: str) -> None:
    """The second of two pieces begins with a wrong byte, so it is lost; and half of the bytes are
    not a whole file in any of the three formats."""
    piece = COMPRESSIONS[suffix](TEXT.encode("utf-8"))
    for data in (piece + b"?" + piece[1:], piece[: len(piece) // 2]):
        file = write_file(tmp_path / f"text{suffix}", data)
        with pytest.raises(InputError, match=rf"text{suffix}: expected a whole compressed file"):
            list(read_sentences(file))


@pytest.mark.parametrize("suffix, size", [(".gz", 1 << 26), (".xz", 1 << 26), (".zst", 1 << 28)])
def test_a_line_without_end_is_an_error_in_bounded_memory(tmp_path, monkeypatch, suffix, size):
    """The third line is almost the whole file. Memory holds a block and the longest line, each a
    megabyte, or as much as 128 bytes of xz or zstandard can decompress to, at most 4 MiB."""
    monkeypatch.setattr(lines, "LINE_BYTES", 1 << 20)
    bomb = b"a\n" * 2 + bytes(size)
    file = write_file(tmp_path / f"bomb{suffix}", COMPRESSIONS[suffix](bomb))
    del bomb
    tracemalloc.start()
    with pytest.raises(InputError, match=rf"bomb{suffix}, line 3: .* 1,048,576 bytes"):
        list(read_sentences(file))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 24
