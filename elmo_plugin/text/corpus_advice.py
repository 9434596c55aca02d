"""The advice about an encoded corpus: what training reads otherwise than its user may think."""

from collections.abc import Callable

import numpy as np

from elmo_plugin.text.advice import MAY_BE_FOUND, UNSPLIT, Advice, advised, ends_sentence, in_lines
from elmo_plugin.text.characters import WordLimit
from elmo_plugin.text.corpus import EncodedCorpus


def advise_of_corpus(corpus: EncodedCorpus, name: str, max_characters_per_token: int) -> None:
    """
    Say what is found in the words of the text `name`, and in the sentences of its first shard.
    """
    words, counts = corpus.words(), corpus.counts
    limit = WordLimit(max_characters_per_token - 2)
    with in_lines(), advised(Advice(name)) as advice:
        is_cut = corpus.word_lengths() > limit.most
        examples = [repr(words[rank]) for rank in np.flatnonzero(is_cut & (counts > 0))[:3]]
        n_cut = int(counts[is_cut].sum())
        advice.find("cut words", n_cut, corpus.num_tokens, examples, limit=limit, equal="")
        of_words = {x: int(n) for x, n in zip(words, counts) if n and MAY_BE_FOUND.search(x)}
        advice.of_odd_words(of_words, corpus.num_tokens)

        tokens, places = corpus.shards[0]
        first, last = (np.array(tokens[k]) for k in (places[:-1], places[1:] - 1))
        is_open = ~_which(words, last, ends_sentence)[:-1]
        is_lower = _which(words, first, lambda word: word[:1].islower())[1:]
        by_kind = np.bincount(2 * is_open + is_lower, minlength=4).tolist()
        advice.of_lines(by_kind, "for training, ")
        unsplit = last[_which(words, last, UNSPLIT.search)]
        examples = [repr(words[rank]) for rank in dict.fromkeys(unsplit[:100].tolist())]
        hint = "; divide text for training into sentences and tokens first"
        advice.find("unsplit sentences", len(unsplit), len(last), examples, hint=hint)


def _which(words: list[str], ranks: np.ndarray, has: Callable[[str], object]) -> np.ndarray:
    """Whether each of the words `ranks` has a property, shape `(N,)`, bool."""
    distinct, numbers = np.unique(ranks, return_inverse=True)
    return np.array([bool(has(words[rank])) for rank in distinct.tolist()])[numbers]
