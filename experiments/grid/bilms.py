"""
The biLMs of a grid, each as an archive, or as a folder with bilm-tf's two files; and transformers
to compare them with.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.files.digest import digest, file_digest
from elmo_plugin.files.local_path import local_path
from elmo_plugin.formats.find import KEYS, PART, find_bilm, one_bilm, split_part
from elmo_plugin.pretrained import pretrained_files
from experiments import random_bilm
from experiments.rows import bilm_digest

KINDS = (
    {"pretrained"},
    {"like", "seed"},
    {"like", "seed", "scaled"},
    {"archive_file"},
    {"options_file", "weight_file"},
    {"transformer", "dim"},
)
"""The keys of a biLM in a grid. A transformer is the name of a folder in that of the data."""
TRANSFORMER_FILES = ("config.json", "tokenizer.json", "model.safetensors")
RESERVED = ("none", "data", "work")


class Bilm(NamedTuple):
    """
    path : `str`
        What `archive_file` takes, or the `model_name` of a transformer.
    digest : `str | None`
        Digest of its options and weights. `None` for a transformer that is not there.
    """

    path: str
    digest: str | None


def check_bilms(source: str, bilms: Any) -> None:
    """
    # Raises

    `InputError`
        If `bilms`, of the grid `source`, are not names with the keys of one of `KINDS`.
    """
    if not isinstance(bilms, dict):
        raise InputError(f"{source}: bilms: expected an object, found {bilms!r}")
    for name, bilm in bilms.items():
        if name in RESERVED:
            raise InputError(f"{source}: bilms: {name}: expected a name that is not reserved")
        if not isinstance(bilm, dict) or set(bilm) not in KINDS:
            found = ", ".join(bilm) if isinstance(bilm, dict) else repr(bilm)
            raise InputError(
                f"{source}: bilms: {name}: expected pretrained, archive_file, options_file and "
                f"weight_file, like and seed, or transformer and dim, found {found}"
            )


def bilm_sizes(bilm: dict[str, Any]) -> dict[str, int]:
    """What `cells.libsonnet` has to know of a biLM; nothing of a transformer."""
    if "transformer" in bilm:
        return {}
    named = {"pretrained": bilm.get("like"), **bilm}
    found = find_bilm(*one_bilm(map(named.get, KEYS)).values()).bilm
    return {
        "dim": found.output_dim,
        "max_characters_per_token": found.max_characters_per_token,
        "n_layers": found.bilstm.n_layers,
    }


def find_bilms(bilms: dict[str, dict[str, Any]], work: Path, data: Path) -> dict[str, Bilm]:
    """
    The biLMs of a grid by name. Those with initial weights are made in `work` if missing, and those
    of two files get a folder with links to them there. Transformers are in `data`.
    """
    return {
        name: _find_transformer(data / bilm["transformer"])
        if "transformer" in bilm
        else _find(name, bilm, work / "bilms")
        for name, bilm in bilms.items()
    }


def _find_transformer(folder: Path) -> Bilm:
    if not folder.is_dir():
        return Bilm(str(folder), None)
    return Bilm(str(folder), _digest_of(folder, TRANSFORMER_FILES))


def _digest_of(folder: Path, files: Sequence[str]) -> str:
    return digest(" ".join(file_digest(folder / file) for file in files).encode())


def _find(name: str, bilm: dict[str, Any], folder: Path) -> Bilm:
    if "archive_file" in bilm:
        name = bilm["archive_file"]
        found = Elmo.from_archive(name)
        archive, part = split_part(os.path.expanduser(name))
        path = os.path.realpath(archive) if os.path.exists(archive) else archive
        return Bilm(f"{path}{PART}{part}" if part else str(path), bilm_digest(found))
    if "pretrained" in bilm:
        folder = Path(pretrained_files(bilm["pretrained"]).options_file).parent
    elif "like" in bilm:
        scaled = bilm.get("scaled", False)
        # Not that of other code, or of other weights of `like`.
        files = [random_bilm.__file__, pretrained_files(bilm["like"]).weight_file]
        made_from = digest(" ".join(map(file_digest, files)).encode())[:12]
        kind = f"{bilm['like']}-{bilm['seed']}{'-scaled' * scaled}"
        folder = folder / f"{name}-{kind}-{made_from}"
        if not (folder / "options.json").exists():
            random_bilm.write_random_bilm(folder, bilm["like"], bilm["seed"], scaled=scaled)
    else:
        folder = folder / name
        folder.mkdir(parents=True, exist_ok=True)
        for key, file in (("options_file", "options.json"), ("weight_file", "weights.hdf5")):
            (folder / file).unlink(missing_ok=True)
            os.symlink(Path(local_path(bilm[key])).resolve(), folder / file)
    return Bilm(str(folder), _digest_of(folder, ("options.json", "weights.hdf5")))
