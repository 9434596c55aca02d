"""
The operators of the biLM. A folder is an operator: `reference.py` is its equation, `torch_ops.py`
computes it fast with PyTorch's operators, and `kernel.py` calls the compiled `kernel.cpp`. Tests
compare them.
"""

# Each compares its kernels with its definition, before `kernels.KERNEL_STATUS` is read.
from elmo_plugin.ops import char_conv, lstm, softmax

__all__ = ["char_conv", "lstm", "softmax"]
