"""Functions that a process calls when it forks."""

import os
from typing import Any

at_fork: Any = getattr(os, "register_at_fork", lambda **_: None)
"""`os.register_at_fork`, which Windows lacks, where no process forks."""
