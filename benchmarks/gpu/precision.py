"""The precisions to compare, and what each rounds to."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch


class Precision(NamedTuple):
    """
    name : `str`
    bilm : `str`
        Argument of `BiLM.set_precision`.
    tf32 : `bool`
        Whether a GPU rounds the factors of fp32 products and convolutions to TF32.
    rounding : `float`
        Relative error of a product: of fp32 sums over a thousand numbers, 2 ** -24 for each and
        as a random walk, or of the rounded factors (TF32 may cut off its last bit).
    """

    name: str
    bilm: str
    tf32: bool
    rounding: float

    @property
    def dtype(self) -> torch.dtype:
        """Type of the factors of a product."""
        return torch.bfloat16 if self.bilm == "bf16" else torch.float32


PRECISIONS = [
    Precision("fp32", "fp32", False, 2**-19),
    Precision("TF32", "fp32", True, 2**-10),
    Precision("bf16", "bf16", True, 2**-9),
]


@contextmanager
def precise_to(precision: Precision) -> Iterator[None]:
    """
    Set what PyTorch does with fp32 factors; the CPU is not affected. These functions set all of
    PyTorch's switches, old and new, alike.
    """
    before = torch.get_float32_matmul_precision(), torch.backends.cudnn.allow_tf32
    backends: Any = torch.backends
    products = backends.cuda.matmul, backends.mkldnn.matmul
    defaults = [product.fp32_precision for product in products]
    try:
        torch.set_float32_matmul_precision("high" if precision.tf32 else "highest")
        torch.backends.cudnn.allow_tf32 = precision.tf32
        yield
    finally:
        torch.set_float32_matmul_precision(before[0])
        torch.backends.cudnn.allow_tf32 = before[1]
        for product, default in zip(products, defaults):
            product.fp32_precision = default  # "none" by default, which the old switch cannot set
