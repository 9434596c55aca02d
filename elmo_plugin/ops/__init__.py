"""
Kernels in plain PyTorch, one a file, and two in C++, in `csrc/`. Each has its definition too: a
function `reference_...`, or the PyTorch expression that the docstring names. Tests compare the two.
"""
