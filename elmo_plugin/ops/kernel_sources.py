"""Identifies the sources of the compiled kernels, for `setup.py` and for `kernels.py`."""

import hashlib
from pathlib import Path


def sources_digest() -> str | None:
    """A digest of the sources in `csrc/`, or `None` where they are absent, as in a wheel."""
    folder = Path(__file__).with_name("csrc")
    files = sorted([*folder.glob("*.cpp"), *folder.glob("*.h")])
    content = b"".join(b"\0".join([file.name.encode(), file.read_bytes(), b""]) for file in files)
    return hashlib.sha256(content).hexdigest() if files else None
