import tarfile
from os import PathLike
from typing import Union

from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import load_archive

from elmo_plugin.models.bilm import BilmLanguageModel


def load_language_model(archive_file: Union[str, PathLike]) -> BilmLanguageModel:
    """
    The language model of an archive, or of a training run's folder.

    # Raises

    `ConfigurationError`
        Where the archive is of another kind of model.
    """
    try:
        model = load_archive(archive_file).model
    except (tarfile.TarError, EOFError) as error:
        raise ConfigurationError(
            f"{archive_file}: expected a whole model.tar.gz, found damage ({error})"
        ) from error
    if not isinstance(model, BilmLanguageModel):
        raise ConfigurationError(
            f"{archive_file}: expected the archive of a model of type bilm, "
            f"found a {type(model).__name__}"
        )
    return model
