"""
Kernels in plain PyTorch, one per file, and three in C++, in `csrc/`. Each has a reference
implementation: a function `reference_...`, or the PyTorch expression in its docstring. Tests
compare the two.
"""
