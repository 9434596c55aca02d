"""
Compares encoding text and reading windows with AllenNLP's method: a `Vocabulary` from instances,
and batches of their character ids. Also measures the memory, which does not grow with the text.
"""

import contextlib
import io
import tempfile
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path

from allennlp.data import Batch, Instance, Vocabulary
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import ELMoTokenCharactersIndexer, SingleIdTokenIndexer
from allennlp.data.tokenizers import Token

from benchmarks.measure import Record, in_turns, memory_of, print_table, progress
from benchmarks.settings import Settings
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import BiLMVocabulary
from elmo_plugin.text.encoding import encode
from elmo_plugin.text.lines import find_files, read_blocks, read_sentences

ROWS, WINDOW = 64, 20
PEER_SENTENCES = 2000
"""AllenNLP reads these in about a second; its time grows in proportion."""


def run(settings: Settings) -> Record:
    """Print the tables and return them, by name."""
    progress("the corpus")
    files = find_files(settings.text)
    with tempfile.TemporaryDirectory() as folder:
        with quiet():
            corpus = encode(files, Path(folder) / "corpus")
        vocabulary = BiLMVocabulary.from_corpus(str(corpus.folder), min_count=1)
        n_peer = sum(map(len, first_sentences(settings.text)))
        with quiet():
            encoding, splitting, counting = in_turns(
                lambda: encode(files, Path(tempfile.mkdtemp(dir=folder)) / "corpus"),
                lambda: split_lines(files),
                lambda: Vocabulary.from_instances(instances(settings.text)),
            )
            windows, batches = in_turns(
                lambda: read_epoch(corpus.folder, vocabulary),
                lambda: read_batches(settings.text, vocabulary),
            )
    n_tokens = corpus.num_tokens
    speeds = [
        record("encoding", n_tokens / encoding, n_peer / counting, n_tokens / splitting),
        record("loading", n_tokens / windows, n_peer / batches, None),
    ]
    print_table(
        f"{settings.text}, {n_tokens:,} tokens, {corpus.num_words:,} distinct words: tokens/s; the "
        "limit is reading the lines and splitting them",
        speeds,
    )
    lengths = (n_tokens, 2 * n_tokens) if settings.quick else (10_000_000, 100_000_000)
    memories = [
        {"tokens": n * n_tokens, **memory_of(encode_and_read, files, n)._asdict()}
        for n in (round(length / n_tokens) for length in lengths)
    ]
    print_table(
        "Memory of a process that encodes the text, so many times over, and reads an epoch, MiB",
        memories,
    )
    return {"speed": speeds, "memory": memories}


def record(work: str, ours: float, allennlp: float, limit: float | None) -> Record:
    return {
        "work": work,
        "ours": ours,
        "allennlp": allennlp,
        "ratio": ours / allennlp,
        "limit": limit,
        "share_of_limit": ours / limit if limit else None,
    }


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Disable progress bars."""
    with contextlib.redirect_stderr(io.StringIO()):
        yield


def split_lines(files: Sequence[Path]) -> None:
    for file in files:
        for lines in read_blocks(file):
            for line in lines:
                line.split()


def read_epoch(folder: Path, vocabulary: Vocabulary) -> None:
    """Make all windows of an epoch."""
    loader = BiLMDataLoader(BiLMDatasetReader(), str(folder), batch_size=ROWS, window=WINDOW)
    loader.index_with(vocabulary)
    for batch in loader:
        batch["window"].tensors()


def encode_and_read(files: Sequence[Path], n_times: int) -> None:
    with tempfile.TemporaryDirectory() as folder, quiet():
        corpus = encode([*files] * n_times, Path(folder) / "corpus")
        read_epoch(
            corpus.folder,
            BiLMVocabulary.from_corpus(str(corpus.folder), max_size=50_000, min_count=1),
        )


def first_sentences(text: str) -> Iterator[list[str]]:
    return islice(read_sentences(text), PEER_SENTENCES)


def instances(text: str) -> Iterator[Instance]:
    """Return the first sentences as allennlp-models' `simple_language_modeling` makes them."""
    indexers = {"tokens": SingleIdTokenIndexer(), "characters": ELMoTokenCharactersIndexer()}
    for words in first_sentences(text):
        yield Instance({"source": TextField([Token(word) for word in words], indexers)})


def read_batches(text: str, vocabulary: Vocabulary) -> None:
    stream = instances(text)
    while chunk := list(islice(stream, ROWS)):
        batch = Batch(chunk)
        batch.index_instances(vocabulary)
        batch.as_tensor_dict()
