import os
from typing import Union

from allennlp.common.checks import ConfigurationError

from elmo_plugin.models.archive import read_archive
from elmo_plugin.models.bilm import BilmLanguageModel


def load_language_model(archive_file: Union[str, os.PathLike]) -> BilmLanguageModel:
    """
    Loads the language model of an archive, or of a training run's folder, without running anything
    that is in it; see `read_archive`.

    # Raises

    `ConfigurationError`, `DiskFullError`
        As `read_archive`, and if the archive's config has a value that the model refuses.
    """
    archive = read_archive(archive_file)
    try:
        model = BilmLanguageModel(archive.vocab, **archive.parameters)
    except ConfigurationError as error:
        raise ConfigurationError(f"{archive_file}: {error}") from error
    model.load_state_dict(archive.state)
    return model
