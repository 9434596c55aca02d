import zlib
from pathlib import Path

import pytest

from elmo_plugin.files.digest import append_checksum, ends_in_checksum


@pytest.mark.parametrize("content", [b"", b"a", bytes(3_000_000)], ids=len)
def test_a_checksum_at_the_end(content: bytes, tmp_path: Path) -> None:
    """The expected checksum is that of `zlib`; a file that lost a byte has another one."""
    file = tmp_path / "file"
    file.write_bytes(content)
    append_checksum(file)
    assert file.read_bytes() == content + zlib.crc32(content).to_bytes(4, "little")
    assert ends_in_checksum(file)
    file.write_bytes(file.read_bytes()[:-1])
    assert not ends_in_checksum(file)
