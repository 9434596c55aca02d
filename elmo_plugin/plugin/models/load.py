import os
from typing import Union

from elmo_plugin.checks import InputError
from elmo_plugin.formats.archive import read_archive
from elmo_plugin.plugin.data.vocabulary import BilmVocabulary
from elmo_plugin.plugin.models.bilm import BilmLanguageModel


def load_language_model(archive_file: Union[str, os.PathLike]) -> BilmLanguageModel:
    """
    Loads the language model of an archive, or of a training run's folder, without running anything
    that is in it; see `read_archive`.

    # Raises

    `InputError`, `DiskFullError`
        As `read_archive`, and if the archive's config has a value that the model refuses.
    """
    archive = read_archive(archive_file)
    try:
        model = BilmLanguageModel(BilmVocabulary.from_words(archive.words), **archive.parameters)
    except InputError as error:
        raise InputError(f"{archive_file}: {error}") from error
    model.load_state_dict(archive.state)
    return model
