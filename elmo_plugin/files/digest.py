"""
Digests (BLAKE2b), which identify content: two different contents never have the same digest. Use
them for keys, for comparing inputs, and for files that are read once. They detect damage, not
malice, because whoever can write a file can write its digest. They run at 0.9 GiB/s on a core; for
vectors, which are written and read much more often, use `checksum`.
"""

import json
import os
from hashlib import blake2b
from hashlib import file_digest as _hash_file
from typing import Any

DIGEST = "digest"
"""The key of the digest in a sealed JSON object."""


def new_digest(data: Any = b"", size: int = 20) -> blake2b:
    """A digest of `size` bytes to update piece by piece; `data` is the first piece."""
    return blake2b(data, digest_size=size)


def digest(data: Any) -> str:
    """The digest of bytes, or of the numbers of a contiguous array."""
    return new_digest(data).hexdigest()


def file_digest(path: str | os.PathLike) -> str:
    """The digest of a file, which is read piece by piece."""
    with open(path, "rb") as file:
        return _hash_file(file, new_digest).hexdigest()


def sealed(content: dict[str, Any]) -> dict[str, Any]:
    """The JSON object `content` with a digest of it."""
    return {**content, DIGEST: _digest_of_content(content)}


def is_sealed(content: Any) -> bool:
    """Whether a value read from JSON is an undamaged result of `sealed`."""
    return isinstance(content, dict) and content.get(DIGEST) == _digest_of_content(content)


def _digest_of_content(content: dict[str, Any]) -> str:
    rest = {key: value for key, value in content.items() if key != DIGEST}
    return digest(json.dumps(rest, sort_keys=True).encode("utf-8"))
