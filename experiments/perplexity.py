"""
The exact perplexity of a biLM on held-out texts, with the full softmax, for each initial state.

The forward perplexity covers w_1 .. w_n `</S>` of each sentence, the backward perplexity w_n .. w_1
`<S>`, and the joint perplexity both. Words outside the vocabulary count as `<UNK>`.

With `zero` and `warm` each sentence is read by itself. With `carry` the text is read as 64 rows of
running text: a sentence starts from the state after the previous sentence. This is the default of
`allennlp evaluate`.
"""

import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import torch

import elmo_plugin.plugin  # noqa: F401  registers docs:// and task://
from elmo_plugin import LanguageModel
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import ids_of_corpus_words, vocabulary_words
from elmo_plugin.plugin.models.language_model import BiLMModel
from elmo_plugin.text.corpus import EncodedCorpus
from elmo_plugin.text.special_words import UNKNOWN
from experiments.markdown import table

ROWS = 64
"""Rows of running text."""


class Perplexity(NamedTuple):
    """Perplexities of one text in both directions."""

    forward: float
    backward: float

    @property
    def joint(self) -> float:
        return math.sqrt(self.forward * self.backward)


def perplexity(model: BiLMModel, corpus: EncodedCorpus, initial_state: str) -> Perplexity:
    """
    The perplexity of a corpus.

    # Parameters

    model : `BiLMModel`
        Modified in place: its mode and initial state are set, and its biLM is frozen.
    corpus : `EncodedCorpus`
        Text.
    initial_state : `str`
        One of `INITIAL_STATES`; see above.
    """
    model.eval()
    model.initial_state = initial_state
    with torch.inference_mode():
        if initial_state == "carry":
            return _of_running_text(model, corpus)
        return _of_sentences(model, corpus)


def _of_running_text(model: BiLMModel, corpus: EncodedCorpus) -> Perplexity:
    reader = BiLMDatasetReader(max_characters_per_token=model.bilm.max_characters_per_token)
    loader = BiLMDataLoader(reader, str(corpus.folder), batch_size=ROWS, shuffle=None)
    loader.index_with(model.vocab)
    model.get_metrics(reset=True)
    for batch in loader:
        model(**batch)
    metrics = model.get_metrics(reset=True)
    return Perplexity(metrics["forward_perplexity"], metrics["backward_perplexity"])


def _of_sentences(model: BiLMModel, corpus: EncodedCorpus) -> Perplexity:
    scorer = LanguageModel(
        model.bilm,
        model.softmax,
        vocabulary_words(model.vocab),
        initial_state=model.initial_state,
        precision=model.precision,
    )
    words = corpus.words()
    found = scorer.perplexity([[words[rank] for rank in x] for x in sentences_of_ranks(corpus)])
    return Perplexity(found["forward_perplexity"], found["backward_perplexity"])


def sentences_of_ranks(corpus: EncodedCorpus) -> Iterator[np.ndarray]:
    """The ranks of the words of each sentence."""
    for index, shard in enumerate(corpus.shards):
        tokens = corpus.load_tokens(index)
        yield from np.split(tokens, shard.sentences[1:-1])


def unknown_rate(model: BiLMModel, corpus: EncodedCorpus) -> float:
    """Percentage of tokens outside the model's vocabulary."""
    unknown = ids_of_corpus_words(corpus, model.vocab) == UNKNOWN
    return 100 * float(corpus.counts[unknown].sum()) / corpus.num_tokens


def perplexity_table(
    model: BiLMModel, corpora: dict[str, EncodedCorpus], states: Sequence[str]
) -> str:
    """One row for each text and initial state."""
    columns = ["text", "tokens", "`<UNK>`", "read", "forward", "backward", "joint"]
    rows: list[list[object]] = []
    for name, corpus in corpora.items():
        rate = f"{unknown_rate(model, corpus):.1f} %"
        for state in states:
            found = perplexity(model, corpus, state)
            reading = "running text" if state == "carry" else "by sentence"
            rows.append(
                [name, corpus.num_tokens, rate, f"`{state}`, {reading}", *found, found.joint]
            )
    return table(columns, rows)
