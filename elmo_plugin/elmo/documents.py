"""Documents, in which each sentence is read from the state after the one before it."""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import count, groupby
from operator import itemgetter
from typing import Any

import torch
from torch import Tensor

from elmo_plugin.checks import fail, is_whole
from elmo_plugin.elmo.layers import BiLMLayers, batches_by_length
from elmo_plugin.modules import LSTMState
from elmo_plugin.ops.linear import on_device
from elmo_plugin.text.advice import current
from elmo_plugin.text.forms import by_row, named_rows
from elmo_plugin.text.sentence import Row, groups

MOST_DOCUMENTS = 256
"""Number of documents that are read side by side, to bound the memory of their states."""


def documents_in(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """The lines of each document, between which the numbers of blank lines are missing."""
    for _, document in groupby(enumerate(rows), key=lambda pair: pair[1][0].row - pair[0]):
        yield [row for _, row in document]


def document_groups(rows: Iterable[Row], size: int) -> Iterator[list[Row]]:
    """Divide lines into lists of whole documents, which end when they have `size` lines."""
    group: list[Row] = []
    for document in documents_in(rows):
        group += document
        if len(group) >= size:
            yield group
            group = []
    if group:
        yield group


def documents_of(rows: list[Row], labels: Any) -> list[list[int]]:
    """
    The indices of the sentences of each document among all sentences of rows. `labels`: a label of
    each row; rows that follow one another and have the same label are a document. Warns if a label
    occurs in two places. Raises an `InputError` if not each row has a label.
    """
    own = [x for _, x in named_rows(labels, "documents: expected a label for each sentence")]
    # NaN is not equal to itself, and other missing values cannot be compared.
    if len(own) != len(rows) or not all(isinstance(x, str | bool) or is_whole(x) for x in own):
        fail("documents", f"{len(rows)} labels, each a string or a whole number", own)
    documents = [
        [place for _, of_row in pairs for place in of_row]
        for _, pairs in groupby(zip(own, by_row(rows, count())), key=itemgetter(0))
    ]
    if len(documents) > len(set(own)):
        again = [label for label, n in Counter(x for x, _ in groupby(own)).items() if n > 1]
        current().find("divided documents", len(again), len(set(own)), map(repr, again))
    return documents


def read_documents(
    model: BiLMLayers, rows: list[Row], documents: list[list[int]], max_tokens: int | None
) -> Iterator[tuple[list[int], list[Tensor]]]:
    """
    Read the sentences of `documents_of` in batches as `BiLMLayers.read`: the first sentences of
    many documents, then their second ones, and so on. In both directions a document begins with
    the `initial_state`, or zeros with `carry`, and the model's own carried state stays.
    """
    most = model.max_tokens(max_tokens)
    sentences = model.checked_tokens(rows)
    # Documents of equal length end together, so that batches stay large.
    for group in groups(sorted(documents, key=len, reverse=True), MOST_DOCUMENTS):
        start = model.bilm.initial_state(model.initial_state, len(group))
        state = LSTMState(*(x.clone() for x in start))
        for k in range(len(group[0])):
            places = [document[k] for document in group if k < len(document)]
            for batch in batches_by_length([len(sentences[b]) for b in places], most):
                of_rows = on_device(torch.tensor(batch, device="cpu"), model.device)
                own = [places[row] for row in batch]
                read = model.continued([sentences[b] for b in own], state.select(of_rows))
                for x, after in zip(state, read.state):
                    x.index_copy_(2, of_rows, after.to(x))
                yield own, read.layers
