import gzip
import io

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from elmo_plugin.checks import InputError
from elmo_plugin.text import lines as module
from elmo_plugin.text.lines import read_blocks, read_sentences
from tests.conftest import write_file

TEXT = "One sentence .\n\nAnother , with an é and a 👍 .\n" * 50


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(
    st.text(st.sampled_from("ab\u0301é👍 \v\n\r\u2028\x1c\xa0\0\ufeff"), max_size=80).filter(
        lambda content: (
            "\0" not in content[:4] + content.partition("\n")[0][-1:]  # as in UTF-16
            and "\n\0" not in content
            and all(line.count("\r") < 2 for line in content.split("\n"))  # as on old Macintoshes
            and "\r" not in content.split("\n")[-1].rstrip("\r")
        )
    ),
    st.integers(1, 20),
)
@example("good\nx\0\n", 20)
def test_any_text_reads_as_python_splits_it(tmp_path, monkeypatch, content, block):
    """The oracle is `str.split` on each line of the whole text; a line ends with a line feed."""
    monkeypatch.setattr(module, "BLOCK_BYTES", block)
    file = write_file(tmp_path / "text", content)
    lines = content.removeprefix("\ufeff").split("\n")
    assert list(read_sentences(file)) == [line.split() for line in lines if line.split()]


@pytest.mark.parametrize("block", [4, 100])
def test_an_open_file_is_read_like_one_on_the_disk(tmp_path, monkeypatch, block):
    """The expected lines are those of the same bytes in a file. An error has the given name, and
    the line and the place of the byte 0xff."""
    monkeypatch.setattr(module, "BLOCK_BYTES", block)
    content = b"\xef\xbb\xbfgood\n\nlines\nx \xffy\nmore\n"
    for compress in (bytes, gzip.compress):
        for file in (write_file(tmp_path / "a", compress(content)), io.BytesIO(compress(content))):
            with pytest.raises(InputError, match=r"^stdin, line 4: .* 0xff at byte 3"):
                list(read_blocks(file, name="stdin"))
    data = io.BytesIO(TEXT.encode("utf-8"))
    lines = [line for block in read_blocks(data) for line in block]
    assert lines == TEXT.removesuffix("\n").split("\n")
    assert not data.closed
