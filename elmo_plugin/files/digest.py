"""
Digests, which tell a file as it was written from any other. They notice damage, not malice: who can
write a file can write its digest.
"""

import json
import os
from hashlib import blake2b
from hashlib import file_digest as _hash_file
from typing import Any

DIGEST = "digest"
"""The key of a sealed JSON object's own digest."""


def new_digest(data: Any = b"", size: int = 20) -> blake2b:
    """A digest of `size` bytes to update piece by piece; `data` is the first piece."""
    return blake2b(data, digest_size=size)


def digest(data: Any) -> str:
    """The digest of bytes, or of a contiguous array's numbers."""
    return new_digest(data).hexdigest()


def file_digest(path: str | os.PathLike) -> str:
    """The digest of a file's bytes, in memory a piece at a time."""
    with open(path, "rb") as file:
        return _hash_file(file, new_digest).hexdigest()


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """A JSON object with a digest of its content."""
    return {**content, DIGEST: _digest_of_content(content)}


def is_sealed(content: Any) -> bool:
    """True for what `sealed` gave, written as JSON and read again; false for any other value."""
    return isinstance(content, dict) and content.get(DIGEST) == _digest_of_content(content)


def _digest_of_content(content: dict[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != DIGEST}
    return digest(json.dumps(rest, sort_keys=True).encode("utf-8"))
