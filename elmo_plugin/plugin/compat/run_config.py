"""
`allennlp train` writes a run's `config.json` in place, also when it recovers the run. If it is
killed meanwhile, the file is empty, and the run cannot be recovered any more. Importing this lets
the file appear whole or not at all. The temporary file of a process that was killed is removed,
because AllenNLP trains only in an empty folder, or in one that has a config.
"""

from pathlib import Path
from typing import Any

from allennlp.common import Params
from allennlp.models.archival import CONFIG_NAME
from allennlp.training import util

from elmo_plugin.files.atomic_write import atomic_write

TEMPORARY = f".{CONFIG_NAME}.{'[0-9a-f]' * 8}"

_to_file = Params.to_file
_create_serialization_dir = util.create_serialization_dir


def _write_whole(self: Params, params_file: str, *args: Any, **kwargs: Any) -> None:
    with atomic_write(params_file) as temporary:
        _to_file(self, str(temporary), *args, **kwargs)


def _create_without_temporary(params: Params, folder: str, *args: Any, **kwargs: Any) -> None:
    for temporary in Path(folder).glob(TEMPORARY):
        temporary.unlink(missing_ok=True)
    _create_serialization_dir(params, folder, *args, **kwargs)


Params.to_file = _write_whole  # type: ignore[method-assign]
util.create_serialization_dir = _create_without_temporary  # type: ignore[assignment]
