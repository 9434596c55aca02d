"""
The exact perplexity of a biLM on held-out texts, with the full softmax, for each initial state.

The forward perplexity covers w_1 .. w_n `</S>` of each sentence, the backward perplexity w_n .. w_1
`<S>`, and the joint perplexity both. Words outside the vocabulary count as `<UNK>`.

With `zero` and `warm` each sentence is read by itself. With `carry` the text is read as 64 rows of
running text: a sentence starts from the state after the previous sentence. This is the default of
`allennlp evaluate`.
"""

from collections.abc import Sequence

import torch

import elmo_plugin.plugin  # noqa: F401  registers docs:// and task://
from elmo_plugin import LanguageModel
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import ids_of_corpus_words, vocabulary_words
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.text.characters import UNKNOWN
from elmo_plugin.text.corpus import EncodedCorpus
from experiments.markdown import table

ROWS = 64
"""Rows of running text."""


Perplexities = dict[str, float]
"""`forward_perplexity`, `backward_perplexity` and, of both, `perplexity`."""


def perplexity(model: BiLMModel, corpus: EncodedCorpus, initial_state: str) -> Perplexities:
    """
    The perplexities of a corpus.

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


def _of_running_text(model: BiLMModel, corpus: EncodedCorpus) -> Perplexities:
    reader = BiLMDatasetReader(max_characters_per_token=model.bilm.max_characters_per_token)
    loader = BiLMDataLoader(reader, str(corpus.folder), batch_size=ROWS, shuffle=None)
    loader.index_with(model.vocab)
    model.get_metrics(reset=True)
    for batch in loader:
        model(**batch)
    return model.get_metrics(reset=True)


def _of_sentences(model: BiLMModel, corpus: EncodedCorpus) -> Perplexities:
    scorer = LanguageModel(
        model.bilm,
        model.softmax,
        vocabulary_words(model.vocab),
        initial_state=model.initial_state,
        precision=model.precision,
    )
    return scorer.perplexity(list(corpus.sentences()))


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
            numbers = (found[f"{kind}perplexity"] for kind in ("forward_", "backward_", ""))
            rows.append([name, corpus.num_tokens, rate, f"`{state}`, {reading}", *numbers])
    return table(columns, rows)
