"""
Triton and its language. Where it is not installed, something stands in for it with which modules
that define kernels can be imported, because `--include-package` imports all modules.
"""

from importlib import import_module
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

triton: Any = SimpleNamespace(jit=lambda function=None, **_: function or (lambda f: f))
tl: Any = SimpleNamespace(constexpr=int)
if find_spec("triton") is not None:
    triton, tl = import_module("triton"), import_module("triton.language")
