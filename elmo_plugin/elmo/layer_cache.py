"""
A cache on disk for the layers of a frozen biLM, so that it reads each sentence of a task only once
in all epochs and runs. The file holds numbers alone, and nothing in it can run code.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import check_choice, check_number, check_path
from elmo_plugin.files.digest import new_digest
from elmo_plugin.files.sqlite_cache import SQLiteCache

DTYPES = {name: np.dtype(name) for name in ("float32", "float16")}
FILE = "layers.sqlite"


class LayerCache:
    """
    Layers of sentences, by a key of the model and the sentence. Several models, tasks and processes
    may share a cache.

    # Parameters

    folder : `str | os.PathLike`
        The folder of the cache, which is created if it does not exist.
    dtype : `str`
        The type of the stored numbers: `"float32"`, or `"float16"` for half the size. A sentence
        with NaN or with a number that the type cannot hold (above 65504 in float16) is not stored.
    size_gb : `float`
        The highest size of the cache, in GiB. Once it is full, nothing more is stored.

    # Raises

    `InputError`
        If `folder` is not a path, or if `dtype` or `size_gb` has another value.
    `ValueError`
        If the folder cannot be created.
    """

    def __init__(
        self, folder: str | os.PathLike, dtype: str = "float32", size_gb: float = 10.0
    ) -> None:
        check_path("cache_dir", Path(folder) if isinstance(folder, os.PathLike) else folder)
        check_choice("cache_dtype", dtype, DTYPES)
        check_number("cache_size_gb", size_gb, above=0)
        self.folder = Path(folder).resolve()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ValueError(
                f"cache_dir: {folder}: expected a folder, or a path to create one, found: {error}"
            ) from None
        self.dtype = dtype
        self._entries = SQLiteCache(self.folder / FILE, size_gb * 2**30)

    def keys(self, model: bytes, tokens: Tensor, lengths: Sequence[int]) -> list[bytes]:
        """
        One key for each sentence: a digest of the model (see `Elmo.fingerprint`), the dtype and the
        sentence's tokens. `tokens`: character ids of shape `(B, T, C)`. `lengths`: sentence
        lengths, in tokens.
        """
        prefix = model + self.dtype.encode()
        rows = tokens.to("cpu", torch.int32).numpy()
        return [
            new_digest(prefix + row[:length].tobytes()).digest()
            for row, length in zip(rows, lengths)
        ]

    def get(self, keys: Sequence[bytes], layers: Sequence[np.ndarray]) -> list[int]:
        """
        Fills in the layers that are stored and returns the indices of the sentences that are
        missing, whose layers are left as they are. For each sentence of n tokens `layers` has a
        float32 array of shape `(L + 1, n, 2P)`, or n + 2 with boundaries, which is modified in
        place.
        """
        missing = []
        dtype = DTYPES[self.dtype]
        for k, (stored, target) in enumerate(zip(self._entries.get(keys), layers)):
            if stored is None or len(stored) != target.size * dtype.itemsize:
                missing.append(k)
            else:
                target[:] = np.frombuffer(stored, dtype).reshape(target.shape)
        return missing

    def put(self, keys: Sequence[bytes], layers: Sequence[np.ndarray]) -> None:
        """
        Stores layers, and rounds them in place to the numbers that `get` will find. Parameters as
        for `get`.
        """
        values = {}
        for key, computed in zip(keys, layers):
            with np.errstate(over="ignore"):
                rounded = computed.astype(DTYPES[self.dtype])
            if np.isfinite(rounded).all():
                values[key] = rounded.tobytes()
                computed[:] = rounded
        self._entries.put(values)
