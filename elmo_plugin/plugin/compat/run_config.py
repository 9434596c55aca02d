"""
`allennlp train` writes a run's `config.json` in place, also when it recovers the run. If it is
killed meanwhile, the file is empty, and the run cannot be recovered any more. Importing this lets
the file appear whole or not at all. The temporary file of a process that was killed is removed,
because AllenNLP trains only in an empty folder, or in one that has a config.
"""

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from allennlp.common import Params
from allennlp.models.archival import CONFIG_NAME
from allennlp.training import util

from elmo_plugin.files.atomic_write import atomic_write

TEMPORARY = f".{CONFIG_NAME}.{'[0-9a-f]' * 8}"


def _whole(to_file: Callable[..., None]) -> Callable[..., None]:
    @wraps(to_file)
    def write(self: Params, params_file: str, *args: Any, **kwargs: Any) -> None:
        with atomic_write(params_file) as temporary:
            to_file(self, str(temporary), *args, **kwargs)

    return write


def _without_temporary(create: Callable[..., None]) -> Callable[..., None]:
    @wraps(create)
    def create_serialization_dir(params: Params, folder: str, *args: Any, **kwargs: Any) -> None:
        for temporary in Path(folder).glob(TEMPORARY):
            temporary.unlink(missing_ok=True)
        create(params, folder, *args, **kwargs)

    return create_serialization_dir


Params.to_file = _whole(Params.to_file)  # type: ignore[method-assign]
util.create_serialization_dir = _without_temporary(util.create_serialization_dir)
