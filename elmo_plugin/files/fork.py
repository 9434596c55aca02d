"""Functions that a process calls when it forks."""

import os
from collections.abc import Callable
from typing import Any


def _never(**functions: Any) -> None:
    """No process of Windows forks."""


at_fork: Callable[..., None] = getattr(os, "register_at_fork", _never)
"""`os.register_at_fork`, which Windows lacks."""
