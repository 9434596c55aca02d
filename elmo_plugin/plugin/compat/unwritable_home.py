"""
`cached_path`, with which AllenNLP opens all files, creates its cache in the home folder also for
local files, which need none. Importing this lets it return those at once, so that commands work
where the home folder cannot be written to. Remove it when `cached_path` does.
"""

import os
from pathlib import Path
from typing import Any

import cached_path

_cached_path = cached_path.cached_path


def _local_or_cached(
    url_or_filename: str | os.PathLike, *args: Any, extract_archive: bool = False, **kwargs: Any
) -> Path:
    local = Path(url_or_filename).expanduser()
    if not extract_archive and local.exists():
        return local
    return _cached_path(url_or_filename, *args, extract_archive=extract_archive, **kwargs)


cached_path.cached_path = _local_or_cached
