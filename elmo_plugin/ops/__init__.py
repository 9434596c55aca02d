"""
The operators of the biLM. A folder is an operator: `reference.py` is its equation, `torch_ops.py`
computes it fast with PyTorch's operators, and `kernel.cpp` is compiled; where there is a
`kernel.py`, it prepares the arguments. Tests compare them.
"""

# Each compares its kernels with its definition, before `backend.KERNEL_STATUS` is read.
from elmo_plugin.ops import char_conv, lstm, softmax

__all__ = ["char_conv", "lstm", "softmax"]
