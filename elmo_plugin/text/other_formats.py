"""Refuses files that are not text, but could be read as text."""

import re

from elmo_plugin.checks import InputError

# Named here and looked for first, because otherwise the error would be about the encoding.
OTHER_MAGIC = {b"PK\x03\x04": "a zip archive"} | {
    b"BZh%d1AY&SY" % level: "a file compressed by bzip2" for level in range(1, 10)
}

# A tar archive begins with the name of its first file.
TAR_MAGIC = b"ustar\0", b"ustar  \0"  # POSIX and GNU
TAR_MAGIC_POSITION = 257

# Data of a task is not text: its tags and numbers would become words.
TASK_DATA = re.compile(r'\s*(?:\{\s*"|-DOCSTART-|#begin document)')
"""The beginning of JSON, and of the files of CoNLL-2003 and CoNLL-2012."""
TAG_AT_END = re.compile(r".*\S\s(?:O|[BIELSU]-\S+)\s*")
"""A token's line whose last column is the tag of a span."""
COLUMN_LINES = 1000
"""Number of lines at the start of a file in which columns are looked for."""
FEW_LINES = 2
FEW_TABS = 5
"""So few may be those of a short text."""


def refuse_other_formats(data: bytes, name: str) -> None:
    """
    Raise an `InputError` if a file begins like one in another encoding, or an archive. `data`: its
    first lines; `name`: the file in the error.
    """
    if data.startswith(TAR_MAGIC, TAR_MAGIC_POSITION):
        raise InputError(f"{name}: expected text, found a tar archive; unpack it first")
    for magic, kind in OTHER_MAGIC.items():
        if data.startswith(magic):
            raise InputError(
                f"{name}: expected text, plain or compressed by gzip, xz or zstd, found {kind}"
            )
    # UTF-16 without a byte order mark can be valid UTF-8. Its line feeds have a NUL beside them.
    end = data.find(b"\n")
    if b"\0" in data[:4] or (end > 0 and b"\0" in data[end - 1 : end + 2]):
        raise InputError(
            f"{name}: expected text in UTF-8, found NUL bytes as in UTF-16; "
            "iconv -f UTF-16LE -t UTF-8 converts what Windows calls Unicode"
        )
    body = data.rstrip(b"\r\n")
    if body.count(b"\r") - body.count(b"\r\n") > data.count(b"\n"):
        raise InputError(
            f"{name}: expected lines that end in LF, found CR as on old Macintoshes; "
            "tr '\\r' '\\n' converts them"
        )


def refuse_task_data(lines: list[str], name: str) -> None:
    """Raise an `InputError` if the first lines of a file are the data of a task."""
    rows = [x for x in lines[:COLUMN_LINES] if x.strip() and not x.startswith("#")]
    tabs = [n for row in rows if (n := row.strip().count("\t"))]
    n_tagged = sum(TAG_AT_END.fullmatch(row) is not None for row in rows)
    fix = ""
    if TASK_DATA.match("\n".join(lines[:2])):
        found = "JSON or CoNLL data"
    elif len(tabs) > max(FEW_LINES, len(rows) / 2) and sum(tabs) > FEW_TABS:
        found = "tabs in most lines, as in CoNLL or TSV data"
        fix = "; if the tabs separate tokens: tr '\\t' ' '"
    elif n_tagged > max(FEW_LINES, len(rows) / 2):
        found = "a tag at the end of most lines, as in CoNLL data"
    else:
        return
    raise InputError(
        f"{name}: expected text, one sentence per line, found {found}; name the data of a task as "
        f"task://CONFIG#train_data_path, whose reader gives the text{fix}"
    )
