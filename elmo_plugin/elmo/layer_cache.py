"""
A frozen biLM's layers on disk, so that each sentence of a task is read once, whatever the number of
epochs and of runs.

They lie in LMDB, which AllenNLP brings along: one file, mapped into memory, that any number of
processes may read and write at once, and that a kill leaves whole. It wants a disk of the machine's
own, not one shared over a network. What is stored are numbers; nothing in the file can run code.
"""

import logging
import os
from collections.abc import Callable, Sequence
from hashlib import blake2b
from itertools import chain
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import torch
from torch import Tensor, nn

from elmo_plugin.ops.numerics_key import tensor_versions

logger = logging.getLogger(__name__)

DTYPES = {"float32": np.float32, "float16": np.float16}
MAP_SIZE = 2**40
"""Of addresses, which cost nothing. The file has the size of what is in it."""


class LayerCache:
    """
    # Parameters

    folder : `str | os.PathLike`
        Made if it is not there. Several models, tasks and processes may share it.
    dtype : `str`
        Of the numbers kept: `"float32"`, or `"float16"` for half the size. What is read now and
        what is read later are the same numbers either way.
    size_gb : `float`
        The most that the folder may take, in GiB. When it is full, what is new is computed each
        time, as without a cache.

    # Raises

    `ValueError`
        For another dtype or size, a folder that cannot be written to, or a damaged file in it.
    """

    def __init__(
        self, folder: str | os.PathLike, dtype: str = "float32", size_gb: float = 10.0
    ) -> None:
        if dtype not in DTYPES:
            raise ValueError(f"cache_dtype: expected float32 or float16, found {dtype!r}")
        if not size_gb > 0:
            raise ValueError(f"cache_size_gb: expected a size above 0, found {size_gb}")
        self.folder = Path(folder).resolve()
        self.dtype = dtype
        self.size = int(size_gb * 2**30)
        self.is_full = False
        _environment(self.folder)

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
        new = self._get(keys, [layers[:, row, : n + 2] for row, n in enumerate(counts)])
        if new:
            if len(new) < len(keys):
                tokens = tokens[new, : max(counts[row] for row in new)]
            computed = torch.stack(read(tokens)).float().cpu().numpy()  # (L + 1, B', T' + 2, 2P)
            computed = computed.astype(DTYPES[self.dtype])
            layers[:, new, : computed.shape[2]] = computed
            self._put([(keys[b], computed[:, row, : counts[b] + 2]) for row, b in enumerate(new)])
        return list(torch.from_numpy(layers).to(tokens.device))

    def _get(self, keys: list[bytes], places: list[np.ndarray]) -> list[int]:
        """Fills those of the places, shape `(L + 1, n + 2, 2P)`, that are there; says which are
        not."""
        absent = []
        try:
            with _environment(self.folder).begin(buffers=True) as transaction:
                for row, (key, place) in enumerate(zip(keys, places)):
                    found = transaction.get(key)
                    if found is None:
                        absent.append(row)
                    else:
                        place[:] = np.frombuffer(found, DTYPES[self.dtype]).reshape(place.shape)
        except lmdb.Error as error:
            raise ValueError(
                f"{self.folder}: expected a whole cache of layers, found: {error}; remove it"
            ) from None
        return absent

    def _put(self, items: Sequence[tuple[bytes, np.ndarray]]) -> None:
        if self.is_full:
            return
        environment = _environment(self.folder)
        try:
            with environment.begin(write=True) as transaction:
                page = environment.stat()["psize"]
                used = page * (environment.info()["last_pgno"] + 1)
                # A record has a page's header, and fills its last page.
                if used + sum(numbers.nbytes + 2 * page for _, numbers in items) <= self.size:
                    for key, numbers in items:
                        # Of two processes that read a sentence at once, the first is right.
                        transaction.put(key, numbers.tobytes(), overwrite=False)
                    return
            reason = "is full"
        except lmdb.Error as error:
            reason = f"takes no more ({error})"
        self.is_full = True
        logger.warning(
            "%s: the cache of layers %s; sentences that are not in it are read each time",
            self.folder,
            reason,
        )


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


_environments: dict[Path, tuple[int, lmdb.Environment]] = {}
"""By folder: LMDB allows one environment a file and process, however many models there are."""


def _environment(folder: Path) -> lmdb.Environment:
    file = folder / "data.mdb"
    inode, environment = _environments.get(folder, (None, None))
    if environment is not None:
        if file.exists() and file.stat().st_ino == inode:
            return environment
        _environments.pop(folder)
        environment.close()  # the folder was removed, and perhaps made anew
    try:
        folder.mkdir(parents=True, exist_ok=True)
        environment = lmdb.open(str(folder), map_size=MAP_SIZE, metasync=False)
    except (OSError, lmdb.Error) as error:
        raise ValueError(
            f"cache_dir {folder}: expected a folder that can be written to, with a whole cache in "
            f"it or none, found: {error}"
        ) from None
    # Where pages are missing, to read them would kill the process.
    expected = environment.stat()["psize"] * (environment.info()["last_pgno"] + 1)
    if file.stat().st_size < expected:
        environment.close()
        raise ValueError(
            f"{file}: expected {expected} bytes, found {file.stat().st_size}; it was cut short: "
            "remove the folder"
        )
    _environments[folder] = file.stat().st_ino, environment
    return environment


def _close_inherited() -> None:
    """A forked process must open its own."""
    for _, environment in _environments.values():
        environment.close()
    _environments.clear()


os.register_at_fork(after_in_child=_close_inherited)
