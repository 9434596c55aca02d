"""
A text's vectors as an HDF5 file, in the layout of AllenNLP 0.9's `allennlp elmo`: a dataset for each
sentence, named by its line number, and `sentence_to_index`, a JSON string from sentence to name.

The work is done in parts of `PART_SENTENCES` sentences. A part is written whole to a folder beside
the output and all parts become the output at the end, so that an interrupted dump goes on with the
first part that is missing, and ends with the same numbers.
"""

import hashlib
import json
import os
import shutil
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import h5py
import torch
from allennlp.common import Tqdm
from allennlp.common.checks import ConfigurationError

from elmo_plugin.elmo import Elmo
from elmo_plugin.modules import LSTMState

PART_SENTENCES = 2048
TYPICAL_LENGTH = 32
"""A batch holds at most as many tokens as `batch_size` sentences of this length."""

Sentence = tuple[int, list[str]]


def dump(
    elmo: Elmo,
    sentences: Iterable[Sentence],
    out: str | os.PathLike,
    *,
    layer: str,
    settings: dict[str, Any],
    batch_size: int = 64,
    dtype: str = "float32",
    remember_sentences: bool = True,
    total: int | None = None,
) -> None:
    """
    # Parameters

    elmo : `Elmo`
        Under `carry` the sentences are read in their order, else those of a part by length.
    sentences : `Iterable[tuple[int, list[str]]]`
        Line numbers and tokens.
    out : `str`
        The HDF5 file; it appears whole, or not at all.
    layer : `str`
        `"all"`, `"top"` or `"average"`.
    settings : `dict[str, Any]`
        All that the numbers depend on; what was interrupted goes on only where they are the same.
    batch_size : `int`
        How many sentences of ordinary length are read at once.
    dtype : `str`
        Of the numbers written: `"float32"` or `"float16"`.
    remember_sentences : `bool`
        Whether to write `sentence_to_index`.
    total : `int | None`
        How many sentences there are, for the progress bar.

    # Raises

    `ConfigurationError`
        Where `out` is there already, or an interrupted dump had other settings.
    """
    out = Path(out)
    if out.exists():
        raise ConfigurationError(f"{out}: expected to write a new file, found one")
    parts = _parts_folder(out, settings)
    progress = Tqdm.tqdm(total=total, unit=" sentences", desc=out.name)
    n_tokens = 0
    for number, part in enumerate(_groups(sentences, PART_SENTENCES)):
        path = parts / f"{number:08d}.hdf5"
        if path.exists():
            _restore_state(elmo, path)
        else:
            _write_part(elmo, part, path, layer, batch_size, dtype)
            n_tokens += sum(len(tokens) for _, tokens in part)
        progress.update(len(part))
        seconds = progress.format_dict["elapsed"] or 1.0
        progress.set_postfix_str(f"{n_tokens / seconds:,.0f} tokens/s")
    progress.close()
    _join(parts, out, remember_sentences)
    shutil.rmtree(parts)


def _parts_folder(out: Path, settings: dict[str, Any]) -> Path:
    """The folder of an interrupted dump with the same settings, or a new one."""
    parts = out.with_name(f".{out.name}.parts")
    written = json.dumps(settings, sort_keys=True)
    manifest = parts / "settings.json"
    if not manifest.exists():
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir(parents=True)
        manifest.write_text(written)
    elif manifest.read_text() != written:
        raise ConfigurationError(
            f"{parts}: an interrupted dump is there with other settings; remove it to begin anew"
        )
    return parts


def _write_part(
    elmo: Elmo, part: list[Sentence], path: Path, layer: str, batch_size: int, dtype: str
) -> None:
    temporary = path.with_suffix(".tmp")
    with h5py.File(temporary, "w") as file:
        for batch in _batches(part, batch_size, in_order=elmo.initial_state == "carry"):
            vectors = elmo.embed([tokens for _, tokens in batch], layer)
            for (line, tokens), found in zip(batch, vectors):
                dataset = file.create_dataset(str(line), data=found.astype(dtype))
                dataset.attrs["sentence"] = " ".join(tokens)
        state = elmo.carried_state
        if state is not None:
            file["state/memory"], file["state/output"] = (x.cpu().numpy() for x in state)
    os.replace(temporary, path)


def _restore_state(elmo: Elmo, path: Path) -> None:
    with h5py.File(path, "r") as file:
        if "state" in file:
            numbers = (file[f"state/{name}"][()] for name in LSTMState._fields)
            elmo.carried_state = LSTMState(*(torch.from_numpy(x) for x in numbers))


def _batches(part: list[Sentence], batch_size: int, in_order: bool) -> Iterator[list[Sentence]]:
    """Batches of neighbours, or of sentences of about one length and not too many tokens."""
    if in_order:
        yield from _groups(part, batch_size)
        return
    batch: list[Sentence] = []
    for sentence in sorted(part, key=lambda sentence: -len(sentence[1])):
        # The first is the longest, and what the others are padded to.
        n_tokens = (len(batch) + 1) * len((batch or [sentence])[0][1])
        if batch and n_tokens > batch_size * TYPICAL_LENGTH:
            yield batch
            batch = []
        batch.append(sentence)
    if batch:
        yield batch


def _join(parts: Path, out: Path, remember_sentences: bool) -> None:
    temporary = parts / "joined.tmp"
    index: dict[str, str] = {}
    with h5py.File(temporary, "w") as joined:
        for path in sorted(parts.glob("*.hdf5")):
            with h5py.File(path, "r") as part:
                for line, dataset in part.items():
                    if line == "state":
                        continue
                    joined.create_dataset(line, data=dataset[()])
                    index[dataset.attrs["sentence"]] = line
        if remember_sentences:
            string = h5py.special_dtype(vlen=str)
            joined.create_dataset("sentence_to_index", (1,), dtype=string)
            joined["sentence_to_index"][0] = json.dumps(index, ensure_ascii=False)
    os.replace(temporary, out)


def file_digest(path: str | os.PathLike) -> str:
    """What tells one text or model from another: a hash of the file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _groups(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    iterator = iter(items)
    while group := list(islice(iterator, size)):
        yield group

