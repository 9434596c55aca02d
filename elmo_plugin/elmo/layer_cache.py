"""
A frozen biLM's layers on disk, so that each sentence of a task is read once, whatever the number of
epochs and of runs. What is stored are numbers; nothing in the file can run code.
"""

import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo_plugin.checks import check_choice, check_number, check_path
from elmo_plugin.files.sqlite_cache import SQLiteCache
from elmo_plugin.ops.numerics_key import tensor_versions

DTYPES = {"float32": np.float32, "float16": np.float16}
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

    @torch.no_grad()
    def __call__(
        self,
        model: bytes,
        tokens: Tensor,
        lengths: Tensor,
        sizes: tuple[int, int],
        read: Callable[[Tensor], list[Tensor]],
    ) -> list[Tensor]:
        """
        The layers of a batch: from the cache those that are there; the other sentences are read as
        one smaller batch, and kept.

        # Parameters

        model : `bytes`
            See `Fingerprint`.
        tokens : `Tensor`
            Shape `(B, T, C)` or `(B, T)`, B > 0.
        lengths : `Tensor`
            Shape `(B,)`: how many tokens of each row are real; those come first.
        sizes : `tuple[int, int]`
            The number of layers, L + 1, and of numbers in a vector, 2P.
        read : `Callable[[Tensor], list[Tensor]]`
            From `(B', T', C)` tokens to L + 1 layers of shape `(B', T' + 2, 2P)`.

        # Returns

        `list[Tensor]`
            L + 1 layers of shape `(B, T + 2, 2P)`, fp32, zeros at padding.
        """
        n_layers, dim = sizes
        counts: list[int] = lengths.tolist()
        keys = _keys(model + self.dtype.encode(), tokens, counts)
        layers = np.zeros((n_layers, len(keys), tokens.size(1) + 2, dim), dtype=np.float32)
        places = [layers[:, row, : n + 2] for row, n in enumerate(counts)]
        new = self._get(keys, places)
        if new:
            if len(new) < len(keys):
                tokens = tokens[new, : max(counts[row] for row in new)]
            computed = torch.stack(read(tokens)).float().cpu().numpy()  # (L + 1, B', T' + 2, 2P)
            found = [(row, computed[:, k, : counts[row] + 2]) for k, row in enumerate(new)]
            self._put([(keys[row], numbers, places[row]) for row, numbers in found])
        return list(torch.from_numpy(layers).to(tokens.device))

    def _get(self, keys: list[bytes], places: list[np.ndarray]) -> list[int]:
        """Fills those of the places, shape `(L + 1, n + 2, 2P)`, that are there; says which are
        not."""
        absent = []
        dtype = np.dtype(DTYPES[self.dtype])
        for row, (stored, place) in enumerate(zip(self._entries.get(keys), places)):
            if stored is None or len(stored) != place.size * dtype.itemsize:
                absent.append(row)
            else:
                place[:] = np.frombuffer(stored, dtype).reshape(place.shape)
        return absent

    def _put(self, items: Sequence[tuple[bytes, np.ndarray, np.ndarray]]) -> None:
        """Stores what was computed for a key, and fills its place with it as it will be found."""
        values = {}
        for key, computed, place in items:
            with np.errstate(over="ignore"):
                rounded = computed.astype(DTYPES[self.dtype])
            if np.isfinite(rounded).all():
                values[key] = rounded.tobytes()
                place[:] = rounded
            else:
                place[:] = computed
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
            digest = blake2b(repr(facts).encode(), digest_size=16)
            for tensor in tensors:
                numbers = tensor.detach().cpu().contiguous().view(-1)
                digest.update(numbers.view(torch.uint8).numpy().data)
            self._seen, self._digest = seen, digest.digest()
        return self._digest


def _keys(model: bytes, tokens: Tensor, counts: list[int]) -> list[bytes]:
    """Each sentence's name in the cache: a hash of the model and of the row's real tokens."""
    rows = tokens.to("cpu", torch.int32).numpy()
    return [
        blake2b(model + row[:n].tobytes(), digest_size=32).digest() for row, n in zip(rows, counts)
    ]
