"""
Kernels in plain PyTorch, one a file. Each file has the definition too: a function `reference_...`,
or the PyTorch expression that the docstring names. Tests compare the two.
"""
