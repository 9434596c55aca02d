"""
Loads the compiled kernels of `csrc/`, which `setup.py` builds where there is a C++ compiler. They
are used on CPUs for the precisions that `KERNEL_DTYPES` lists, unless the environment variable
ELMO_PLUGIN_KERNEL is 0.
"""

import logging
import os
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.ops import char_conv_kernel, lstm_kernel, softmax_kernel
from elmo_plugin.ops.private_torch import ONEDNN_DTYPES

logger = logging.getLogger(__name__)

LIBRARY = Path(__file__).with_name("csrc") / f"kernels{EXTENSION_SUFFIXES[0]}"


def takes(weight: Any) -> bool:
    """Whether the kernels are used for this weight, which is not packed."""
    return (
        isinstance(weight, Tensor)
        and weight.device.type == "cpu"
        and weight.dtype in KERNEL_DTYPES
        and bool(torch.backends.mkldnn.enabled)
        and not torch.compiler.is_compiling()
    )


def _load() -> tuple[frozenset[torch.dtype], str]:
    """Returns `KERNEL_DTYPES` and `KERNEL_STATUS`."""
    if os.environ.get("ELMO_PLUGIN_KERNEL") == "0":
        return frozenset(), "off, because ELMO_PLUGIN_KERNEL is 0"
    if not LIBRARY.exists():
        return frozenset(), "off, because it was not built"
    try:
        torch.ops.load_library(str(LIBRARY))
        built_for = torch.ops.elmo_plugin.torch_version()
        if built_for != torch.__version__.partition("+")[0]:
            raise RuntimeError(f"it was built for PyTorch {built_for}, not {torch.__version__}")
        dtypes = frozenset(filter(torch.ops.elmo_plugin.is_supported, ONEDNN_DTYPES))
        n_threads = torch.get_num_threads()
        torch.set_num_threads(1)  # threads started here would be missing in a forked process
        # The contexts in which the package happens to be imported do not matter.
        plain = (
            torch.inference_mode(False),
            torch.autocast("cpu", enabled=False),
            torch.device("cpu"),
        )
        try:
            with plain[0], plain[1], plain[2]:
                if torch.float32 in dtypes:
                    char_conv_kernel.self_test()
                for dtype in dtypes:
                    lstm_kernel.self_test(dtype)
                    softmax_kernel.self_test(dtype)
        finally:
            torch.set_num_threads(n_threads)
    except Exception as error:  # whatever it is, PyTorch's operators compute the same
        logger.warning("The compiled kernels are not used: %s", error)
        return frozenset(), f"off, because {error}"
    names = " and ".join(sorted(str(dtype).removeprefix("torch.") for dtype in dtypes))
    return dtypes, f"on, for {names}" if names else "off, because this processor has no AVX2"


KERNEL_DTYPES, KERNEL_STATUS = _load()
"""The precisions in which the kernels are used, and whether and why they are on or off."""
