"""
A disk cache for the layers of a frozen biLM, so that each sentence of a task is computed only once
in all epochs and runs. The file contains only numbers; loading it never executes code.
"""

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import InputError, check_path
from elmo_plugin.elmo.frozen import FrozenBiLM
from elmo_plugin.files.digest import new_digest
from elmo_plugin.files.sqlite_cache import SQLiteCache

DTYPES = {name: np.dtype(name) for name in ("float32", "float16")}
FILE = "layers.sqlite"


class LayerCache:
    """
    Layers of sentences, keyed by model and sentence. Several models, tasks and processes may share
    a cache. See `Elmo` for the parameters. Sentences with NaN or with numbers outside the range of
    `dtype` (above 65504 in float16) are not stored, nor is anything once the file has `size_gb`
    GiB.

    Raises an `InputError` if the path is invalid or the folder cannot be created.
    """

    def __init__(
        self, folder: str | os.PathLike, dtype: str = "float32", size_gb: float = 10.0
    ) -> None:
        check_path("cache_dir", folder)
        self.folder = Path(folder).expanduser().resolve()
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(
                f"cache_dir: {folder}: expected a folder, or a path to create one, found: {error}"
            ) from None
        self.dtype = dtype
        self._entries = SQLiteCache(self.folder / FILE, size_gb * 2**30)

    @torch.no_grad()
    def layers(
        self, frozen: FrozenBiLM, tokens: Tensor, lengths: Tensor, boundaries: bool
    ) -> list[Tensor]:
        """
        `FrozenBiLM.layers` with this cache. The sentences that it lacks are computed as one smaller
        batch, and stored.
        """
        bilm, more = frozen.bilm, 2 if boundaries else 0
        model = frozen.digest + (b"" if boundaries else b"without boundaries")
        keys = self.keys(model, tokens, lengths.tolist())
        shape = len(tokens), tokens.size(1) + more, bilm.output_dim
        layers = np.zeros((bilm.bilstm.n_layers + 1, *shape), dtype=np.float32)
        sizes = (lengths + more).tolist()
        sentences = [layers[:, row, :size] for row, size in enumerate(sizes)]
        if missing := self.get(keys, sentences):
            if len(missing) < len(keys):
                lengths = lengths[missing]
                tokens = tokens[missing, : int(lengths.max())]
            computed = [x.float().cpu().numpy() for x in frozen.layers(tokens, lengths, boundaries)]
            for k, row in enumerate(missing):
                for layer, target in zip(computed, sentences[row], strict=True):
                    target[:] = layer[k, : sizes[row]]
            # Another thread may have written to the weights since the digest was computed.
            if frozen.is_unwritten():
                self.put([keys[row] for row in missing], [sentences[row] for row in missing])
        return list(torch.from_numpy(layers).to(bilm.device, bilm.warm_state.output.dtype))

    def keys(self, model: bytes, tokens: Tensor, lengths: Sequence[int]) -> list[bytes]:
        """
        One key per sentence: a digest of the model (see `Elmo.fingerprint`), the dtype and the
        sentence's tokens. `tokens`: character ids, shape `(B, T, C)`. `lengths`: sentence lengths
        in tokens.
        """
        prefix = model + self.dtype.encode()
        rows = tokens.to("cpu", torch.int32).numpy()
        return [
            new_digest(prefix + row[:length].tobytes()).digest()
            for row, length in zip(rows, lengths)
        ]

    def get(self, keys: Sequence[bytes], layers: Sequence[np.ndarray]) -> list[int]:
        """
        Fill in the stored layers and return the indices of the missing sentences. `layers`: for
        each sentence of n tokens an array to fill, shape `(L + 1, n, 2P)`, float32, or n + 2 with
        boundaries.
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
        Store layers, and round them in place to the stored precision. Parameters as for `get`.
        """
        values = {}
        for key, computed in zip(keys, layers):
            with np.errstate(over="ignore"):
                rounded = computed.astype(DTYPES[self.dtype])
            if np.isfinite(rounded).all():
                values[key] = rounded.tobytes()
                computed[:] = rounded
        self._entries.put(values)
