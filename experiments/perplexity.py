"""
The exact perplexity of a biLM on held-out texts, with the full softmax, for each initial state:

    python -m experiments.perplexity model.tar.gz heldout/news.txt heldout/novels.txt

The forward perplexity covers w_1 .. w_n `</S>` of each sentence, the backward perplexity w_n .. w_1
`<S>`, and the joint perplexity both. Words outside the vocabulary count as `<UNK>`.

With `zero` and `warm` each sentence is read by itself. With `carry` the text is read as 64 rows of
running text: a sentence starts from the state after the previous sentence. This is the default of
`allennlp evaluate`.
"""

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

import elmo_plugin.plugin  # noqa: F401  registers docs:// and task://
from elmo_plugin.checks import InputError
from elmo_plugin.elmo.sentences import batches_by_length
from elmo_plugin.modules.bilm import INITIAL_STATES
from elmo_plugin.modules.sampled_softmax import IGNORE, SampledSoftmax
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.data.dataset_reader import BiLMDatasetReader
from elmo_plugin.plugin.data.vocabulary import ids_of_corpus_words, vocabulary_words
from elmo_plugin.plugin.models.archives import load_language_model
from elmo_plugin.plugin.models.language_model import BiLMModel
from elmo_plugin.text.characters import words_to_characters
from elmo_plugin.text.corpus import EncodedCorpus
from elmo_plugin.text.corpus_cache import open_corpus
from elmo_plugin.text.special_words import BEGIN, END, UNKNOWN
from experiments import new_parser, run
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


def perplexity(
    model: BiLMModel,
    corpus: EncodedCorpus,
    initial_state: str,
    known: Collection[str] | None = None,
) -> Perplexity:
    """
    The perplexity of a corpus.

    # Parameters

    model : `BiLMModel`
        Modified in place: its mode and initial state are set.
    corpus : `EncodedCorpus`
        Text.
    initial_state : `str`
        One of `INITIAL_STATES`; see above.
    known : `Collection[str]`, optional
        Words that are predicted as such, if not all words of the vocabulary; all others count as
        `<UNK>`, with the sum of their probabilities. Only for `zero` and `warm`.

    # Raises

    `InputError`
        If the model lacks some of the known words, so that it predicts other events than a model
        that has them, or if there are known words with `carry`.
    """
    if known is not None:
        _check_known(model, initial_state, known)
    model.eval()
    model.initial_state = initial_state
    with torch.inference_mode():
        if initial_state == "carry":
            return _of_running_text(model, corpus)
        return _of_sentences(model, corpus, known)


def _check_known(model: BiLMModel, initial_state: str, known: Collection[str]) -> None:
    if initial_state == "carry":
        raise InputError('known: expected none with "carry", found words')
    missing = sorted(set(known) - set(vocabulary_words(model.vocab)))
    if missing:
        raise InputError(
            f"known: expected words that the model has, found {len(missing):,} others, such as "
            f"{missing[0]!r}"
        )


def _of_running_text(model: BiLMModel, corpus: EncodedCorpus) -> Perplexity:
    reader = BiLMDatasetReader(max_characters_per_token=model.bilm.max_characters_per_token)
    loader = BiLMDataLoader(reader, str(corpus.folder), batch_size=ROWS, shuffle=None)
    loader.index_with(model.vocab)
    model.get_metrics(reset=True)
    for batch in loader:
        model(**batch)
    metrics = model.get_metrics(reset=True)
    return Perplexity(metrics["forward_perplexity"], metrics["backward_perplexity"])


def _of_sentences(
    model: BiLMModel, corpus: EncodedCorpus, known: Collection[str] | None
) -> Perplexity:
    sums = np.zeros(2)
    sentences = list(sentences_of_ranks(corpus))
    ids = torch.from_numpy(ids_of_corpus_words(corpus, model.vocab))
    words = corpus.words()
    loss: Callable[[Tensor, Tensor], Tensor] = model.softmax
    if known is not None:
        is_known = torch.tensor([word in known for word in vocabulary_words(model.vocab)])
        is_known[BEGIN], is_known[END], is_known[UNKNOWN] = True, True, False
        loss = partial(loss_of_known_words, model.softmax, is_known)
    for batch in batches_by_length([len(sentence) for sentence in sentences]):
        longest = len(sentences[batch[0]])
        targets = torch.full((len(batch), longest), IGNORE)
        tokens = torch.zeros(
            len(batch), longest, model.bilm.max_characters_per_token, dtype=torch.long
        )
        for row, k in enumerate(batch):
            ranks = sentences[k]
            targets[row, : len(ranks)] = ids[ranks]
            characters = words_to_characters([words[rank] for rank in ranks], tokens.size(2))
            tokens[row, : len(ranks)] = torch.from_numpy(characters)
        hidden, goals = model.read_sentences(tokens, targets)
        for direction, (h, goal) in enumerate(zip(hidden, goals)):
            real = goal != IGNORE
            sums[direction] += float(loss(h[real], goal[real]))
    n_events = corpus.num_tokens + corpus.num_sentences
    return Perplexity(*np.exp(sums / n_events).tolist())


def loss_of_known_words(
    softmax: SampledSoftmax, is_known: Tensor, hidden: Tensor, targets: Tensor
) -> Tensor:
    """
    The sum of the negative log likelihoods, a scalar, where all words that are not known are one.
    `is_known`: shape `(V,)`. `hidden`: shape `(n, P)`. `targets`: shape `(n,)`.
    """
    loss = hidden.new_zeros(())
    for h, target in zip(hidden.split(256), targets.split(256)):
        log_p = softmax.logits(h).log_softmax(-1)
        own = log_p.gather(1, target.unsqueeze(1)).squeeze(1)
        unknown = log_p[:, ~is_known].logsumexp(-1)
        loss -= torch.where(is_known[target], own, unknown).sum()
    return loss


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


def named_texts(texts: Sequence[str]) -> dict[str, str]:
    """Texts by the names of their files, or by all of their paths if two names are the same."""
    names = [Path(text).stem for text in texts]
    return dict(zip(names if len(set(names)) == len(names) else texts, texts))


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("model", help="archive of a bilm")
    parser.add_argument("texts", nargs="+", help="texts as in train_data_path")
    parser.add_argument("--states", nargs="+", default=INITIAL_STATES, choices=INITIAL_STATES)
    arguments = parser.parse_args()
    model = load_language_model(arguments.model)
    corpora = {name: open_corpus(text) for name, text in named_texts(arguments.texts).items()}
    print(perplexity_table(model, corpora, arguments.states))


if __name__ == "__main__":
    run("perplexity", main)
