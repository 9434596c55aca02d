"""
Makes archives of language models from bilm-tf's files.

`pretrained://small` is the archive of an installed model. It can be used wherever AllenNLP
expects a `model.tar.gz`:

    python -m elmo_plugin predict pretrained://small sentences.txt
"""

import json
import tempfile
from pathlib import Path

import torch
from allennlp.common.meta import META_NAME, Meta
from allennlp.models.archival import archive_model
from cached_path import add_scheme_client

from elmo_plugin.checks import InputError, named
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.digest import digest, file_digest
from elmo_plugin.files.torch_file import save_torch_file
from elmo_plugin.formats.find import File, find_bilm
from elmo_plugin.plugin.data.local_scheme import LocalSchemeClient
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.pretrained import pretrained_files
from elmo_plugin.version import VERSION


def import_files(
    options: File,
    weights: File | None,
    vocabulary: File | None,
    archive: File,
    softmax: File | None = None,
) -> None:
    """
    Make the archive of a language model from bilm-tf's three files, with the softmax in the weight
    file or in a fourth file, or from one of its TensorFlow checkpoints, with a config that suffices
    for `evaluate` and `predict`. Raises an `InputError` if a file is damaged or missing, if there
    is no softmax, or if its size differs from the vocabulary's; and a `DiskFullError` if the disk
    is full.
    """
    found = find_bilm(options, weights, vocabulary, softmax_file=softmax, with_softmax=True)
    with named(str(options)):
        if found.softmax is None or found.words is None:
            raise InputError(
                "expected a softmax with its vocabulary, which a language model needs, found none"
            )
        vocab = BiLMVocabulary.from_words(found.words)
    n_characters = found.bilm.max_characters_per_token
    config = {
        "dataset_reader": {"type": "bilm", "max_characters_per_token": n_characters},
        "vocabulary": {"type": "bilm"},
        "model": {"type": "bilm", "n_negative_samples": None, **found.options.to_dict()},
        "data_loader": {"type": "bilm", "batch_size": 32, "shuffle": None},
    }
    model = torch.nn.ModuleDict({"bilm": found.bilm, "softmax": found.softmax})
    with (
        atomic_write(archive) as temporary,
        tempfile.TemporaryDirectory(dir=temporary.parent, prefix=f"{temporary.name}.") as name,
    ):
        run = Path(name)
        vocab.save_to_files(str(run / "vocabulary"))
        save_torch_file(model.state_dict(), run / "best.th")
        (run / "config.json").write_text(json.dumps(config, indent=2))
        Meta.new().to_file(run / META_NAME)
        Path(archive_model(run)).replace(temporary)


class PretrainedArchiveClient(LocalSchemeClient):
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

    def content(self) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            archive = Path(folder) / "model.tar.gz"
            import_files(*self.files, archive)
            return archive.read_bytes()


add_scheme_client(PretrainedArchiveClient)
