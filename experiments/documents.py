"""
The effect of reading a document as one sentence, as coreference and SQuAD do, instead of sentence
by sentence:

    python -m experiments.documents litbank.dev.gold_conll squad-dev.json small=pretrained://small

For each text the table has the perplexity of its words in both readings, with the initial state
`warm` and without sentence boundaries as events; the same without the first and the last word of
each sentence, whose context changes most; and the mean cosine of a word's vectors in both readings.

With `--treebank`, a linear POS tagger (see `experiments.probe`) is trained and scored on sentences,
and on `JOINED` consecutive sentences read as one.

`--without` excludes documents of `*.gold_conll`, such as those that a biLM was trained on.
Sentences are those of the file; in SQuAD they end at `.`, `!` or `?` before white space and a
capital letter.
"""

import argparse
import json
import re
import time
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from allennlp_models.common.ontonotes import Ontonotes
from nltk.tokenize.treebank import TreebankWordTokenizer

from elmo_plugin import Elmo
from elmo_plugin.plugin.data.vocabulary import word_ids
from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.plugin.models.language_model import LanguageModel
from elmo_plugin.text.characters import words_to_characters
from elmo_plugin.text.special_words import UNKNOWN
from experiments.markdown import table
from experiments.probe import Tagged, layer_vectors, probe_accuracy, read_treebank
from experiments.rows import (
    RESULTS,
    Row,
    bilm_digest,
    layer_names,
    named_archive,
    result_row,
    save_rows,
)

FILE = RESULTS / "documents.jsonl"
JOINED = 20
READINGS = ("sentences", "document")

Document = list[list[str]]
"""Sentences of words."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[\"'(]?[A-Z])")


def read_documents(file: Path, without: Collection[str] = ()) -> list[Document]:
    """
    The documents of a `*.gold_conll` except those in `without`, or the paragraphs of SQuAD's JSON.
    """
    if file.suffix == ".json":
        return list(_squad(json.loads(file.read_text("utf-8"))))
    documents = Ontonotes().dataset_document_iterator(str(file))
    return [
        [sentence.words for sentence in document]
        for document in documents
        if document[0].document_id not in without
    ]


def _squad(content: dict[str, Any]) -> Iterator[Document]:
    tokenizer = TreebankWordTokenizer()
    for article in content["data"]:
        for paragraph in article["paragraphs"]:
            sentences = _SENTENCE_END.split(paragraph["context"].strip())
            yield [tokenizer.tokenize(sentence) for sentence in sentences]


def read_as(document: Document, reading: str) -> Document:
    """The document as sentences, or as one sentence with all of its words."""
    return document if reading == "sentences" else [[w for s in document for w in s]]


def word_losses(model: LanguageModel, sentences: Document) -> np.ndarray:
    """
    The negative log likelihoods in nats of all words, shape `(2, N)` for both directions. Each
    sentence is read by itself.
    """
    ids = word_ids(model.vocab)
    n_characters = model.bilm.options.char_cnn.max_characters_per_token
    found = []
    with torch.inference_mode():
        for words in sentences:
            targets = torch.tensor([[ids.get(word, UNKNOWN) for word in words]])
            tokens = torch.from_numpy(words_to_characters(words, n_characters)).long()[None]
            hidden, goals = model.read_sentences(tokens, targets)
            losses = -model.softmax.log_probabilities(hidden[:, :, 0], goals[:, :, 0])
            # Positions are <S> w_1 .. w_n </S>: the forward direction predicts w_k at the position
            # of w_{k-1}, and the backward direction at that of w_{k+1}.
            found.append(torch.stack([losses[0, :-2], losses[1, 2:]]).numpy())
    return np.concatenate(found, axis=1)


def edges(document: Document) -> np.ndarray:
    """Whether each word is the first or the last of its sentence, shape `(N,)`."""
    return np.array([i in (0, len(s) - 1) for s in document for i in range(len(s))], dtype=bool)


def cosines(elmo: Elmo, document: Document) -> np.ndarray:
    """
    The cosines of the words' vectors in both readings, for each layer and the average, shape
    `(L + 2, N)`.
    """
    a, b = (
        np.concatenate(elmo.embed(read_as(document, reading), layer="all"), axis=1)
        for reading in READINGS
    )
    a, b = (np.concatenate([x, x.mean(axis=0, keepdims=True)]) for x in (a, b))
    return (a * b).sum(-1) / np.linalg.norm(a, axis=-1) / np.linalg.norm(b, axis=-1)


def text_rows(name: str, archive_file: str, file: Path, documents: list[Document]) -> list[Row]:
    """The rows of a biLM and a text, one for each reading."""
    model = load_language_model(archive_file).eval()
    model.initial_state = "warm"
    elmo = Elmo.from_archive(archive_file)
    inner = ~np.concatenate([edges(document) for document in documents])
    alike = np.concatenate([cosines(elmo, document) for document in documents], axis=1)
    rows = []
    for reading in READINGS:
        started = time.process_time()
        parts = [word_losses(model, read_as(document, reading)) for document in documents]
        losses = np.concatenate(parts, axis=1)
        forward, backward = np.exp(losses.mean(axis=1)).tolist()
        metrics = {
            "documents": len(documents),
            "words": len(inner),
            "forward": forward,
            "backward": backward,
            "joint": float(np.exp(losses.mean())),
            "joint_inner": float(np.exp(losses[:, inner].mean())),
            "cosines": dict(zip(layer_names(elmo.n_layers), alike.mean(axis=1).tolist())),
        }
        settings = {"text": file.stem.split(".")[0], "reading": reading}
        seconds = round(time.process_time() - started, 1)
        rows.append(result_row(name, bilm_digest(elmo), settings, metrics, seconds))
    return rows


def joined(tagged: Tagged) -> Tagged:
    """Every `JOINED` consecutive sentences as one."""
    starts = range(0, len(tagged.sentences), JOINED)
    parts = (tagged.sentences[k : k + JOINED] for k in starts)
    return Tagged([[word for s in part for word in s] for part in parts], tagged.tags)


def treebank_rows(name: str, archive_file: str, data: Path, work: Path) -> list[Row]:
    """The rows of a biLM and a treebank, one for each reading."""
    elmo = Elmo.from_archive(archive_file)
    rows = []
    for reading in READINGS:
        started = time.process_time()
        parts = read_treebank(data)
        if reading == "document":
            parts = joined(parts[0]), joined(parts[1])
        train, dev = (layer_vectors(elmo, part.sentences, work) for part in parts)
        a, b = (x.astype(np.float32).mean(axis=0) for x in (train, dev))
        accuracy = probe_accuracy(a, parts[0].tags, b, parts[1].tags)
        settings = {"text": data.name, "reading": reading}
        seconds = round(time.process_time() - started, 1)
        metrics = {"accuracy": accuracy}
        rows.append(result_row(name, bilm_digest(elmo), settings, metrics, seconds))
    return rows


def documents_table(rows: Sequence[Row]) -> str:
    """Rows as Markdown."""
    columns = ["biLM", "text", "documents", "words", "read as"]
    columns += ["forward", "backward", "joint", "inner words"]
    lines: list[list[object]] = []
    for row in rows:
        metrics, settings = row["metrics"], row["settings"]
        if "joint" in metrics:
            numbers = [metrics[key] for key in ("forward", "backward", "joint", "joint_inner")]
            text = [settings["text"], *(metrics[key] for key in ("documents", "words"))]
            text.append(settings["reading"])
            lines.append([row["bilm"], *text, *numbers])
    return table(columns, lines)


def cosines_table(rows: Sequence[Row]) -> str:
    """The cosines of both readings as Markdown."""
    found = [row for row in rows if row["settings"]["reading"] == "document"]
    found = [row for row in found if "cosines" in row["metrics"]]
    names = list(found[0]["metrics"]["cosines"]) if found else []
    return table(
        ["biLM", "text", *names],
        (
            [row["bilm"], row["settings"]["text"]]
            + [f"{cosine:.3f}" for cosine in row["metrics"]["cosines"].values()]
            for row in found
        ),
    )


def accuracy_table(rows: Iterable[Row]) -> str:
    """The accuracies of the classifier as Markdown."""
    return table(
        ["biLM", "text", "read as", "accuracy"],
        (
            [row["bilm"], *row["settings"].values(), row["metrics"]["accuracy"]]
            for row in rows
            if "accuracy" in row["metrics"]
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("texts", nargs="+", type=Path, help="*.gold_conll or SQuAD's JSON")
    parser.add_argument("model", metavar="NAME=ARCHIVE", help="archive of a bilm")
    parser.add_argument("--treebank", type=Path, help="a Universal Dependencies treebank")
    parser.add_argument("--without", nargs="+", default=[], help="names of documents")
    parser.add_argument("--most", type=int, help="maximum number of documents per text")
    parser.add_argument("--work", type=Path, default=Path("experiments-out"))
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    name, archive_file = named_archive(arguments.model)
    rows = []
    for text in arguments.texts:
        documents = read_documents(text, arguments.without)[: arguments.most]
        rows += text_rows(name, archive_file, text, documents)
    if arguments.treebank:
        rows += treebank_rows(name, archive_file, arguments.treebank, arguments.work)
    save_rows(arguments.results, rows)
    print(documents_table(rows), cosines_table(rows), accuracy_table(rows), sep="\n\n")


if __name__ == "__main__":
    main()
