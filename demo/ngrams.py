"""Baselines for a biLM: a unigram and an interpolated bigram model of the same text."""

from collections.abc import Iterable

import numpy as np


class KneserNeyBigram:
    """
    A bigram model with interpolated Kneser-Ney smoothing (Chen and Goodman 1999, section 3),

        p(w | v) = max(c(v, w) - d, 0) / c(v) + d N(v) / c(v) * p_1(w)

    where N(v) is the number of distinct words that follow v, p_1(w) is proportional to the number
    of distinct words that w follows, and d = n_1 / (n_1 + 2 n_2), with n_k the number of counts
    that are k. p_1 is smoothed with the uniform distribution, so that every word has some
    probability. Both directions of a text have almost the same perplexity, because the first
    numerator is symmetric in v and w.

    # Parameters

    sentences : `Iterable[np.ndarray]`
        Word numbers of each sentence, including both boundaries.
    n_words : `int`
        V.
    """

    def __init__(self, sentences: Iterable[np.ndarray], n_words: int) -> None:
        self.n_words = n_words
        pairs, counts = np.unique(_pairs(sentences, n_words), return_counts=True)
        before, after = np.divmod(pairs, n_words)
        n_1, n_2 = (counts == 1).sum(), (counts == 2).sum()
        self.discount = n_1 / (n_1 + 2 * n_2) if n_1 and n_2 else 0.5
        self._pairs = pairs
        self._discounted = np.append(counts - self.discount, 0.0)  # the last for unseen pairs
        self._total = np.bincount(before, counts, n_words)  # c(v)
        self._followers = np.bincount(before, minlength=n_words)  # N(v)
        contexts = np.bincount(after, minlength=n_words).astype(float)
        kept = np.maximum(contexts - self.discount, 0) / contexts.sum()
        self.unigram = kept + (1 - kept.sum()) / n_words  # p_1

    def probabilities(self, before: np.ndarray, after: np.ndarray) -> np.ndarray:
        """p(after | before). All shapes `(n,)`."""
        pairs = before * self.n_words + after
        place = np.searchsorted(self._pairs, pairs)
        seen = self._pairs[np.minimum(place, len(self._pairs) - 1)] == pairs
        discounted = self._discounted[np.where(seen, place, -1)]
        total = np.maximum(self._total[before], 1)
        backed_off = np.where(
            self._total[before] > 0, self.discount * self._followers[before] / total, 1.0
        )
        return discounted / total + backed_off * self.unigram[after]


def perplexities(
    train: list[np.ndarray], heldout: list[np.ndarray], n_words: int
) -> dict[str, float]:
    """
    Held-out perplexities of the events that a biLM predicts: forward w_1 .. w_n `</S>`, backward
    w_n .. w_1 `<S>`.

    # Parameters

    train, heldout : `list[np.ndarray]`
        Word numbers of each sentence, including both boundaries.
    n_words : `int`
        V.

    # Returns

    `dict[str, float]`
        `unigram`, `forward_bigram` and `backward_bigram`.
    """
    # Unigrams: every word and one boundary per sentence, add-one smoothed.
    counts = np.bincount(np.concatenate([s[1:] for s in train]), minlength=n_words) + 1.0
    log_unigram = np.log(counts / counts.sum())
    result = {"unigram": _perplexity(log_unigram[np.concatenate([s[1:] for s in heldout])])}
    for direction, step in (("forward", 1), ("backward", -1)):
        model = KneserNeyBigram((s[::step] for s in train), n_words)
        pairs = _pairs((s[::step] for s in heldout), n_words)
        log_p = np.log(model.probabilities(*np.divmod(pairs, n_words)))
        result[f"{direction}_bigram"] = _perplexity(log_p)
    return result


def _pairs(sentences: Iterable[np.ndarray], n_words: int) -> np.ndarray:
    """Each word and the next one, as one number."""
    return np.concatenate([s[:-1] * n_words + s[1:] for s in sentences])


def _perplexity(log_p: np.ndarray) -> float:
    return float(np.exp(-log_p.mean()))
