"""Addresses whose content is made on this machine."""

import io
from collections.abc import Callable

from cached_path import SchemeClient
from cached_path.progress import BufferedWriterWithProgress


class LocalSchemeClient(SchemeClient):
    """
    Resolves addresses of a scheme for `cached_path`, which caches their content, without its
    display of a download.
    """

    content: Callable[[], bytes]

    def get_size(self) -> int | None:
        return None

    def get_resource(self, temp_file: io.BufferedWriter) -> None:
        if isinstance(temp_file, BufferedWriterWithProgress):
            temp_file.progress.update(temp_file.task_id, visible=False)
        temp_file.write(self.content())
