"""
CRC-32C in NumPy, at about 0.3 gigabytes per second. `zlib` has only the CRC-32 of another
polynomial.

A message is a polynomial over GF(2), and its CRC is the remainder of the division by another. So
word k of n words counts as itself times x^(32 (n - k)), and all words of a row can be computed at
once: a row times x^(its length), plus the next row, and so on; then the first half of the sum times
x^(its length), plus the second half, until one word is left.
"""

from functools import cache

import numpy as np

POLYNOMIAL = 0x82F63B78
"""Castagnoli's polynomial. In all numbers here the highest bit is the coefficient of x^0."""
ONE = 1 << 31
ROW_WORDS = 1 << 14
ALL_BITS = 0xFFFFFFFF


def crc32c(data: np.ndarray, before: int = 0) -> int:
    """
    The CRC-32C of bytes, shape `(N,)`, uint8. `before` is that of the bytes before them, as in
    `zlib.crc32`.
    """
    start = _product(before ^ ALL_BITS, _power(len(data)))
    return start ^ _remainder(data) ^ ALL_BITS


def masked(crc: int) -> int:
    """The form in which LevelDB and TensorFlow store a CRC."""
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & ALL_BITS


def _remainder(data: np.ndarray) -> int:
    """The CRC with neither an initial value nor a final inversion; zeros in front do not count."""
    n_rows = max(1, -(-len(data) // (4 * ROW_WORDS)))
    padded = np.zeros(n_rows * 4 * ROW_WORDS, np.uint8)
    padded[len(padded) - len(data) :] = data
    words, *rows = padded.view("<u4").reshape(n_rows, ROW_WORDS)
    for row in rows:
        words = _times_power(words, ROW_WORDS) ^ row
    while half := len(words) // 2:
        words = _times_power(words[:half], half) ^ words[half:]
    return int(_times_power(words, 1)[0])


def _times_power(words: np.ndarray, n: int) -> np.ndarray:
    """Each word times x^(32 n)."""
    low, high = _tables(n)
    # All indices are valid, and with this mode NumPy does not look.
    return low.take(words & 0xFFFF, mode="wrap") ^ high.take(words >> 16, mode="wrap")


@cache
def _tables(n: int) -> np.ndarray:
    """The products of all low and of all high halves of a word with x^(32 n)."""
    factor = _power(4 * n)
    tables = np.zeros((2, 1 << 16), np.uint32)
    for k in range(32):
        table, bit = tables[k // 16], 1 << k % 16
        table[bit : 2 * bit] = table[:bit] ^ np.uint32(_product(1 << k, factor))
    return tables


def _power(n: int) -> int:
    """x^(8 n)."""
    power, square = ONE, ONE >> 8
    while n:
        power = _product(power, square) if n & 1 else power
        square = _product(square, square)
        n >>= 1
    return power


def _product(a: int, b: int) -> int:
    product = 0
    for k in range(31, -1, -1):
        product ^= b * (a >> k & 1)
        b = b >> 1 ^ POLYNOMIAL * (b & 1)  # times x
    return product
