"""
A frozen biLM's layers on disk, so that each sentence of a task is read once, whatever the number of
epochs and of runs. What is stored are numbers; nothing in the file can run code.
"""

import os
from collections.abc import Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo_plugin.checks import check_choice, check_number, check_path
from elmo_plugin.files.digest import new_digest
from elmo_plugin.files.sqlite_cache import SQLiteCache
from elmo_plugin.ops.numerics_key import tensor_versions

DTYPES = {name: np.dtype(name) for name in ("float32", "float16")}
FILE = "layers.sqlite"


class LayerCache:
    """
    # Parameters

    folder : `str | os.PathLike`
        Made if it is not there. Several models, tasks and processes may share it.
    dtype : `str`
        Of the numbers kept: `"float32"`, or `"float16"` for half the size. What is read now and
        what is read later are the same numbers either way. A sentence with numbers that this type
        cannot hold (in float16 those above 65504), or with NaN, is neither stored nor rounded.
    size_gb : `float`
        The most that the folder may take, in GiB. When it is full, what is new is computed each
        time, as without a cache.

    # Raises

    `ParameterError`
        For another dtype or size, or what is no path.
    `ValueError`
        For a folder that cannot be made.
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
                f"cache_dir: {folder}: expected a folder, or a place for one, found: {error}"
            ) from None
        self.dtype = dtype
        self._entries = SQLiteCache(self.folder / FILE, size_gb * 2**30)

    def keys(self, model: bytes, tokens: Tensor, lengths: Sequence[int]) -> list[bytes]:
        """
        One key for each sentence: a digest of the model, the dtype and the sentence's tokens.

        # Parameters

        model : `bytes`
            See `Fingerprint`.
        tokens : `Tensor`
            Character ids of shape `(B, T, C)` or word ids of shape `(B, T)`.
        lengths : `Sequence[int]`
            Sentence lengths, in tokens.
        """
        prefix = model + self.dtype.encode()
        rows = tokens.to("cpu", torch.int32).numpy()
        return [
            new_digest(prefix + row[:length].tobytes()).digest()
            for row, length in zip(rows, lengths)
        ]

    def get(self, keys: Sequence[bytes], layers: Sequence[Tensor]) -> list[int]:
        """
        Fills in the layers that are stored and returns the indices of the sentences that are
        missing, whose layers are left as they are.

        # Parameters

        keys : `Sequence[bytes]`
            The sentences' keys.
        layers : `Sequence[Tensor]`
            For each sentence of n tokens a float32 tensor of shape `(L + 1, n + 2, 2P)`, on the
            CPU. Modified in place.
        """
        missing = []
        dtype = DTYPES[self.dtype]
        for k, (stored, target) in enumerate(zip(self._entries.get(keys), layers)):
            if stored is None or len(stored) != target.numel() * dtype.itemsize:
                missing.append(k)
            else:
                target.numpy()[:] = np.frombuffer(stored, dtype).reshape(target.shape)
        return missing

    def put(self, keys: Sequence[bytes], layers: Sequence[Tensor]) -> None:
        """
        Stores layers, and rounds them in place to the numbers that `get` will find. Parameters as
        for `get`.
        """
        values = {}
        for key, computed in zip(keys, layers):
            with np.errstate(over="ignore"):
                rounded = computed.numpy().astype(DTYPES[self.dtype])
            if np.isfinite(rounded).all():
                values[key] = rounded.tobytes()
                computed.numpy()[:] = rounded
        self._entries.put(values)


class Fingerprint:
    """A hash of all that a biLM's layers depend on beside the sentence: found once, and anew
    whenever any of it changes."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        self._seen: Any = None
        self._digest = b""

    def __call__(self, bilm: nn.Module, facts: Sequence[Any]) -> bytes:
        """
        # Parameters

        bilm : `nn.Module`
            For its parameters and buffers.
        facts : `Sequence[Any]`
            What else the numbers depend on; told apart by what `repr` says of them.
        """
        tensors = list(chain(bilm.parameters(), bilm.buffers()))
        seen = repr(facts), tensor_versions(tensors)
        if seen != self._seen:
            digest = new_digest(repr(facts).encode())
            for tensor in tensors:
                numbers = tensor.detach().cpu().contiguous().view(-1)
                digest.update(numbers.view(torch.uint8).numpy().data)
            self._seen, self._digest = seen, digest.digest()
        return self._digest
