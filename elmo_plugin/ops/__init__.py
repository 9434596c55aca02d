"""
The operators of the biLM. A folder is an operator: `reference.py` is its equation, `torch_ops.py`
computes it fast with PyTorch's operators, and `kernel.cpp` is compiled; where there is a
`kernel.py`, it prepares the arguments. Tests compare them.
"""

from elmo_plugin.ops import backend, char_conv, lstm, softmax

__all__ = ["char_conv", "lstm", "softmax"]

# Here, because all operators are compared with the library once it is loaded.
backend.KERNEL_DTYPES, backend.KERNEL_STATUS = backend.load_kernels([char_conv, lstm, softmax])
