"""
A plain writer of TensorFlow checkpoints, from LevelDB's description of its table format and from
TensorFlow's `tensor_bundle.proto`.
"""

import re
from pathlib import Path
from typing import Any

import h5py
import numpy as np

Field = int | bytes
Message = list[tuple[int, Field]]
"""Fields with their numbers, in order."""

TYPES = {"float16": 19, "float32": 1, "float64": 2, "int32": 3, "int64": 9}
CHECKSUM = 6


def crc32c(data: bytes) -> int:
    """CRC-32C, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def stored_crc(data: bytes) -> bytes:
    """Rotated right by 15 bits, and a constant added, as LevelDB stores it."""
    crc = crc32c(data)
    rotated = (crc >> 15) | (crc << 17) & 0xFFFFFFFF
    return ((rotated + 0xA282EAD8) % 2**32).to_bytes(4, "little")


def varint(number: int) -> bytes:
    out = b""
    while number >= 128:
        out += bytes([number % 128 + 128])
        number //= 128
    return out + bytes([number])


def encoded(message: Message) -> bytes:
    out = b""
    for number, value in message:
        if isinstance(value, bytes):
            out += varint(number * 8 + 2) + varint(len(value)) + value
        elif number == CHECKSUM:
            out += varint(number * 8 + 5) + value.to_bytes(4, "little")
        else:
            out += varint(number * 8) + varint(value)
    return out


def block(items: list[tuple[bytes, bytes]], compression: int = 0) -> bytes:
    """A block with its trailer. Every 16th key is written in full."""
    out, places, before = b"", [], b""
    for k, (key, value) in enumerate(items):
        shared = 0
        if k % 16 == 0:
            places.append(len(out))
        else:
            while shared < min(len(key), len(before)) and key[shared] == before[shared]:
                shared += 1
        rest = key[shared:]
        out += varint(shared) + varint(len(rest)) + varint(len(value)) + rest + value
        before = key
    places = places or [0]
    out += b"".join(place.to_bytes(4, "little") for place in [*places, len(places)])
    out += bytes([compression])
    return out + stored_crc(out)


def table(items: list[tuple[bytes, bytes]], per_block: int, compression: int = 0) -> bytes:
    out, places = b"", []

    def add(items: list[tuple[bytes, bytes]]) -> bytes:
        nonlocal out
        content = block(items, compression)
        place = varint(len(out)) + varint(len(content) - 5)
        out += content
        return place

    for start in range(0, len(items), per_block):
        part = items[start : start + per_block]
        places.append((part[-1][0], add(part)))
    footer = add([]) + add(places)
    return out + footer.ljust(40, b"\0") + 0xDB4775248B80FB57.to_bytes(8, "little")


def write_checkpoint(
    prefix: Path,
    variables: dict[str, np.ndarray],
    *,
    n_shards: int = 1,
    per_block: int = 1000,
    compression: int = 0,
    big_endian: bool = False,
    edit: dict[str, Message] | None = None,
) -> None:
    """
    Write the files `PREFIX.index` and `PREFIX.data-*`. `edit`: further fields of an entry, of which
    the last counts.
    """
    items = [(b"", encoded([(1, n_shards), (2, int(big_endian)), (3, encoded([(1, 1)]))]))]
    shards = [b""] * n_shards
    for k, name in enumerate(sorted(variables)):
        array = variables[name]
        data = array.astype(array.dtype.newbyteorder("<")).tobytes()
        shard = k % n_shards
        shape = encoded([(2, encoded([(1, size)])) for size in array.shape])
        checksum = int.from_bytes(stored_crc(data), "little")
        entry: Message = [(1, TYPES[array.dtype.name]), (2, shape), (3, shard)]
        entry += [(4, len(shards[shard])), (5, len(data)), (CHECKSUM, checksum)]
        items.append((name.encode(), encoded(entry + (edit or {}).get(name, []))))
        shards[shard] += data
    for k, data in enumerate(shards):
        Path(f"{prefix}.data-{k:05d}-of-{n_shards:05d}").write_bytes(data)
    Path(f"{prefix}.index").write_bytes(table(items, per_block, compression))


def their_name(name: str, n_layers: int) -> str:
    """By hand: the name of bilm-tf's variable in TensorFlow for an array in HDF5."""
    cell = re.fullmatch(r"(RNN_\d)/RNN/MultiRNNCell/Cell(\d)/LSTMCell/(\w+)", name)
    if cell is None:
        return f"lm/{name}"
    direction, layer, last = cell.groups()
    level = f"multi_rnn_cell/cell_{layer}/" if n_layers > 1 else ""
    variable = {"W_0": "kernel", "B": "bias", "W_P_0": "projection/kernel"}[last]
    return f"lm/{direction}/rnn/{level}lstm_cell/{variable}"


def variables_of(hdf5: Path, n_layers: int) -> dict[str, np.ndarray]:
    """
    The variables of the arrays in a weight file, those that the optimizer stores for them, and two
    scalars.
    """
    variables: dict[str, np.ndarray] = {
        "global_step": np.array(1250, np.int64),
        "train_perplexity": np.array(np.nan, np.float32),
    }

    def add(name: str, item: Any) -> None:
        if isinstance(item, h5py.Dataset) and not name.startswith("warm_state"):
            variables[their_name(name, n_layers)] = item[()]
            variables[f"{their_name(name, n_layers)}/Adagrad"] = np.ones_like(item[()])

    with h5py.File(hdf5) as file:
        file.visititems(add)
    return variables
