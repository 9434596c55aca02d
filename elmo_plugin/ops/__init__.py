"""Kernels in plain PyTorch, each beside its reference, the equation."""
