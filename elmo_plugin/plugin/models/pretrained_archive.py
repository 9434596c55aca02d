"""
The models that come with the package as archives: `pretrained://small` stands for a `model.tar.gz`
wherever AllenNLP takes one.

    allennlp predict pretrained://small sentences.txt
"""

import io
import shutil
import tempfile
from pathlib import Path

from cached_path import SchemeClient, add_scheme_client

from elmo_plugin.files.digest import digest, file_digest
from elmo_plugin.plugin.models.import_files import import_files
from elmo_plugin.pretrained import pretrained_files
from elmo_plugin.version import VERSION


class PretrainedArchiveClient(SchemeClient):
    """
    Resolves `pretrained://NAME` for `cached_path`, which makes the archive once and caches it.
    """

    scheme = "pretrained"

    def __init__(self, resource: str) -> None:
        super().__init__(resource)
        try:
            self.files = pretrained_files(resource.split("://", 1)[1])
        except ValueError as error:
            raise FileNotFoundError(f"{resource}: {error}") from None

    def get_etag(self) -> str:
        """A digest of the model's files; the cached archive is replaced when it changes."""
        return digest("".join([VERSION, *map(file_digest, self.files)]).encode())

    def get_size(self) -> int | None:
        return None

    def get_resource(self, temp_file: io.BufferedWriter) -> None:
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "model.tar.gz"
            import_files(*self.files, str(archive))
            with open(archive, "rb") as file:
                shutil.copyfileobj(file, temp_file)


add_scheme_client(PretrainedArchiveClient)
