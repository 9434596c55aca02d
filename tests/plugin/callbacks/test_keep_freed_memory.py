import platform

import pytest

from tests.conftest import python

N_BYTES = 2**27

SCRIPT = f"""
import resource, sys
from pathlib import Path
import torch
from allennlp.common import Params
from allennlp.training.callbacks import TrainerCallback
import elmo_plugin

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()

def kept_of_what_is_freed():
    before = resident()
    block = torch.ones({N_BYTES}, dtype=torch.uint8)
    assert resident() - before > {N_BYTES} / 2
    del block
    return resident() - before

before = kept_of_what_is_freed()
params = Params({{"type": "keep_freed_memory"}})
TrainerCallback.from_params(params, serialization_dir=".").on_start(trainer=None)
print(before, kept_of_what_is_freed())
"""


@pytest.mark.long
@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="a setting of glibc")
def test_freed_memory_is_kept() -> None:
    """According to mallopt(3), a large block is unmapped when it is freed, and with the callback it
    stays. The process is a new one, whose heap holds no freed block of that size."""
    before, after = map(int, python("-c", SCRIPT).stdout.splitlines()[-1].split())
    assert before < N_BYTES / 2 < after
