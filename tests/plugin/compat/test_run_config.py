import json
import os
import signal
from multiprocessing import get_context
from pathlib import Path

import pytest
from allennlp.common import Params
from allennlp.training import util

PARAMS = {"model": {"type": "bilm"}}


def _killed_while_it_writes(file: Path) -> None:
    def dump(*_, **__) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    json.dump = dump
    Params(PARAMS).to_file(str(file))


@pytest.mark.parametrize("recover", [False, True])
def test_a_kill_while_the_config_is_written(tmp_path: Path, recover: bool) -> None:
    """By definition: a new run is none, so that the same command starts it, and a run that is
    recovered keeps its config, so that it can be recovered again, and a file of an editor. Nothing
    else is left."""
    file = tmp_path / "config.json"
    if recover:
        Params(PARAMS).to_file(str(file))
        (tmp_path / ".config.json.swp").touch()
    before = sorted(tmp_path.iterdir())
    run = get_context("fork").Process(target=_killed_while_it_writes, args=(file,))
    run.start()
    run.join()
    assert run.exitcode == -signal.SIGKILL
    util.create_serialization_dir(Params(PARAMS), str(tmp_path), recover=recover, force=False)
    assert sorted(tmp_path.iterdir()) == before
