"""Log probabilities, perplexities and lexical substitutes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from elmo_plugin.checks import InputError, check_choice, check_count, check_flag, fail, is_whole
from elmo_plugin.elmo.documents import documents_of, read_documents
from elmo_plugin.elmo.frozen import weights_digest
from elmo_plugin.elmo.layers import BiLMLayers, check_bilm, from_snapshot
from elmo_plugin.elmo.scores import BASES, BY_DIRECTION, DIRECTIONS, SentenceScores, joined_scores
from elmo_plugin.formats.find import PRETRAINED, find_bilm
from elmo_plugin.formats.format import FoundBiLM
from elmo_plugin.modules import BiLM, SampledSoftmax
from elmo_plugin.modules.sampled_softmax import CHUNK_NUMBERS, log_uniform
from elmo_plugin.ops.linear import on_device
from elmo_plugin.ops.private_torch import not_compiled
from elmo_plugin.ops.softmax import entropies
from elmo_plugin.text.advice import advised
from elmo_plugin.text.characters import BEGIN, END, SPECIAL_WORDS, UNKNOWN
from elmo_plugin.text.forms import by_row, named_rows, phrases_of, rows_of
from elmo_plugin.text.raw_text import FIRST_WORDS
from elmo_plugin.text.sentence import Row, Sentence, tokens_of_row


class Substitute(NamedTuple):
    """
    A word of the softmax for the position of another word.

    word : `str`
        The word.
    probability : `float`
        Its probability at this position; see `LanguageModel.substitutes`.
    """

    word: str
    probability: float


class LanguageModel(BiLMLayers):
    """
    A trained language model: a biLM and its softmax, which give words their probabilities.

        model = LanguageModel.from_pretrained("small")
        scores = model.score("He threw the stick to the dog .")
        scores.surprisal   # of each word, in bits

    The forward direction predicts each word from those before it, and the sum of its log
    probabilities is the log probability of the sentence. So is the sum of the backward direction,
    which is another model. The sum of both directions is not: it is a score that, like a
    pseudo-log-likelihood, uses the context on both sides of a word, for comparing sentences or
    words with each other.

    # Parameters

    bilm : `BiLM`
        The biLM. Modified in place, as by `Elmo`, and frozen unless another module trains it.
    softmax : `SampledSoftmax`
        The softmax for both directions.
    words : `Sequence[str]`
        The words of the softmax's rows; the first are `<S>`, `</S>` and `<UNK>`.
    initial_state, precision
        See `Elmo`. `precision` does not concern the softmax, which is computed in fp32.
    """

    def __init__(
        self,
        bilm: BiLM,
        softmax: SampledSoftmax,
        words: Sequence[str],
        *,
        initial_state: str = "warm",
        precision: str | None = None,
    ) -> None:
        check_bilm(bilm)
        if not isinstance(softmax, SampledSoftmax):
            fail("softmax", "a SampledSoftmax", softmax)
        if tuple(words[: len(SPECIAL_WORDS)]) != SPECIAL_WORDS or len(words) != softmax.n_words:
            fail("words", f"{', '.join(SPECIAL_WORDS)}, .., {softmax.n_words} in total", words)
        super().__init__(bilm, initial_state=initial_state, precision=precision)
        self.softmax = softmax
        self.words = list(words)
        self.known_words = self.words[:FIRST_WORDS]
        self._ids = {word: number for number, word in enumerate(self.words)}

    @property
    def _knows(self) -> Callable[[str], bool]:
        return lambda word: self._ids.get(word, UNKNOWN) != UNKNOWN

    @classmethod
    def from_pretrained(cls, name: str, **kwargs: Any) -> LanguageModel:
        """Load an installed model. `kwargs` are those of `LanguageModel`."""
        return cls.from_archive(PRETRAINED + str(name).removeprefix(PRETRAINED), **kwargs)

    @classmethod
    def from_archive(cls, archive_file: str | os.PathLike, **kwargs: Any) -> LanguageModel:
        """
        Load a model from all that `Elmo.from_archive` accepts, if it has a softmax. `kwargs` are
        those of `LanguageModel`. Raises an `InputError` if there is no softmax.
        """
        return cls.from_found(find_bilm(archive_file, with_softmax=True), archive_file, **kwargs)

    @classmethod
    def from_files(
        cls,
        options_file: str | os.PathLike,
        weight_file: str | os.PathLike,
        vocabulary_file: str | os.PathLike,
        softmax_file: str | os.PathLike | None = None,
        **kwargs: Any,
    ) -> LanguageModel:
        """
        Load a model from bilm-tf's files. `vocabulary_file` has the words of the softmax, and
        `softmax_file` its weights if they are not in `weight_file`. `kwargs` are those of
        `LanguageModel`.
        """
        files = options_file, weight_file, vocabulary_file
        loaded = find_bilm(*files, softmax_file=softmax_file, with_softmax=True)
        return cls.from_found(loaded, weight_file, **kwargs)

    @classmethod
    def from_found(cls, loaded: FoundBiLM, name: str | os.PathLike, **kwargs: Any) -> LanguageModel:
        """
        Make a model of what `find_bilm` found for `name`. Raises an `InputError` if there is no
        softmax.
        """
        if loaded.softmax is None or loaded.words is None:
            raise InputError(
                f"{name}: expected the softmax of a language model and its words, found a biLM "
                "without them, which has vectors but no probabilities"
            )
        return cls(loaded.bilm, loaded.softmax, loaded.words, **kwargs)

    @not_compiled
    @torch.no_grad()
    @advised()
    def score(
        self,
        sentences: str | Sequence[str] | Sequence[Sequence[str]],
        entropy: bool = False,
        base: int | str = 2,
        *,
        raw: bool = False,
        max_tokens: int | None = None,
        documents: Any = None,
        rank: bool = False,
        unknown_missing: bool = False,
    ) -> Any:
        """
        Compute the log probability of each word, of the end and of the beginning.

        # Parameters

        sentences : `str | Sequence[str] | Sequence[Sequence[str]]`
            A sentence or several; see `Elmo.embed`.
        entropy : `bool`, optional (default = `False`)
            Whether to compute the entropies of the distributions too.
        base : `int | str`, optional (default = `2`)
            Base of the logarithms: 2 for bits, or `"e"` for nats.
        raw : `bool`, optional (default = `False`)
            Whether each sentence is a string of raw text, as in `Elmo.embed`. If it has several
            sentences, a word is scored in its own, and their scores follow one another.
        max_tokens : `int`, optional
            See `Elmo.embed`.
        documents : `Sequence`, optional
            A label for each sentence, a string or a whole number. Sentences that follow one another
            and have the same label are a document: in both directions, each continues from the
            state after the one before, and the first one starts as `initial_state` says, under
            `carry` from zeros. By default each sentence is a document.
        rank : `bool`, optional (default = `False`)
            Whether to compute the rank of each word in its distribution too, 1 for the most
            probable word.
        unknown_missing : `bool`, optional (default = `False`)
            Whether words outside the vocabulary have NaN, and not the scores of `<UNK>`.

        # Returns

        `SentenceScores`, or a list with one per sentence
            The log probabilities of the words, of the end and of the beginning, in `base`.

        # Raises

        As `Elmo.embed`, and `InputError` if another argument has a wrong value.
        """
        check_flag("entropy", entropy)
        base = check_choice("base", base, BASES)
        check_flag("rank", rank)
        check_flag("unknown_missing", unknown_missing)
        rows, is_single = rows_of(sentences, raw)
        wanted = base, entropy, rank, unknown_missing
        of_sentences = self._score_rows(rows, wanted, max_tokens, documents)
        scores = [joined_scores(*x) for x in zip(rows, by_row(rows, of_sentences))]
        return scores[0] if is_single else scores

    @from_snapshot
    def _score_rows(
        self, rows: list[Row], wanted: tuple, max_tokens: int | None = None, documents: Any = None
    ) -> list[SentenceScores]:
        """The scores of each sentence of rows. `wanted`: the last arguments of `_scores`."""
        sentences = [x.tokens for row in rows for x in row]
        scores: dict[int, SentenceScores] = {}
        for places, top in self._read(rows, max_tokens, documents):
            scores.update(zip(places, self._scores([sentences[b] for b in places], top, *wanted)))
        return [scores[b] for b in range(len(sentences))]

    def _scores(
        self, sentences: list[list[str]], top: Tensor, base: Any, *flags: bool
    ) -> Iterator[SentenceScores]:
        """
        The scores of a batch. `top`: its top layer by direction, including the boundaries, shape
        `(2, B, T + 2, P)`. `flags`: `entropy`, `rank` and `unknown_missing` of `score`.
        """
        entropy, rank, unknown_missing = flags
        ids = [[self._ids.get(word, UNKNOWN) for word in sentence] for sentence in sentences]
        vectors = [h for row, own in enumerate(ids) for h in _predicting(top[:, row], len(own))]
        targets = torch.tensor([k for own in ids for k in (*own, END, BEGIN, *own)])
        hidden = torch.cat(vectors)
        goals = on_device(targets, hidden.device)
        numbers = [self.softmax.log_probabilities(hidden, goals)]
        if entropy:
            numbers.append(entropies(hidden, self.softmax.weight, self.softmax.bias))
        arrays = torch.stack(numbers).cpu().double().numpy() / BASES[base]
        if rank:
            arrays = np.vstack([arrays, self.softmax.ranks(hidden, goals).cpu().numpy()])
        if unknown_missing:  # entropies do not depend on the word
            arrays[:: 1 + entropy, targets.numpy() == UNKNOWN] = np.nan
        names = BY_DIRECTION[: 2 + 2 * entropy] + BY_DIRECTION[4 : 4 + 2 * rank]
        ends = np.cumsum([2 * len(own) + 2 for own in ids])[:-1]
        for sentence, own, array in zip(sentences, ids, np.split(arrays, ends, axis=1)):
            in_vocabulary = np.array([k != UNKNOWN for k in own], dtype=bool)
            of_names: Any = dict(zip(names, array.reshape(len(names), -1)))  # each (n + 1,)
            yield SentenceScores(sentence, in_vocabulary, base=base, **of_names)

    @not_compiled
    @torch.no_grad()
    @advised()
    def perplexity(
        self,
        sentences: str | Sequence[str] | Sequence[Sequence[str]],
        *,
        raw: bool = False,
        documents: Any = None,
    ) -> dict[str, float]:
        """
        Compute `perplexity` (of both directions), `forward_perplexity` and `backward_perplexity`,
        as `allennlp evaluate` does: each word and each boundary of a sentence has the same weight.
        Perplexities of models with different words cannot be compared, because `<UNK>` counts as a
        word. A blank string or line is no sentence, and does not count. `sentences`, `raw`: see
        `Elmo.embed`. `documents`: see `score`.
        """
        rows = [[x for x in row if x.tokens] for row in rows_of(sentences, raw)[0]]
        scores = self._score_rows(rows, ("e", False, False, False), documents=documents)
        if not scores:
            fail("sentences", "at least one", sentences)
        n = sum(x.n_predictions for x in scores)
        forward, backward = (-sum(getattr(x, d).sum() for x in scores) / n for d in DIRECTIONS[1:])
        means = {"": (forward + backward) / 2, "forward_": forward, "backward_": backward}
        return {f"{name}perplexity": float(np.exp(mean)) for name, mean in means.items()}

    @not_compiled
    @torch.no_grad()
    @advised()
    def score_continuations(
        self, prefixes: Any, continuations: Any, base: int | str = 2, unknown_missing: bool = False
    ) -> Any:
        """
        Compute the log probability of words or phrases after the beginning of a sentence: for a
        phrase, the sum over its words, each given those before it. The forward direction alone
        gives it, because the backward direction would need the rest of the sentence. With `carry`
        a sentence starts from zeros, and the carried state stays as it is. There is no `raw` and no
        `documents`: tokens are separated by spaces, and a beginning is read without the sentences
        before it. In the context of others, `score` with `documents` the sentence that ends with
        the continuation, and add up the last values of its `surprisal`.

        # Parameters

        prefixes : `str | Sequence[str] | Sequence[Sequence[str]]`
            The beginning of a sentence, which may be empty, or several, such as a column of a
            DataFrame; see `Elmo.embed`.
        continuations : `Sequence`
            Strings or lists of tokens; a single string is one continuation. For several beginnings,
            a list or tuple of strings is shared by all, a column or an array of strings has one for
            each, and anything else is a list of strings or lists of tokens for each.
        base, unknown_missing
            See `score`.

        # Returns

        `numpy.ndarray`
            A number for each continuation, shape `(n,)`, float64; for several beginnings, a list of
            such arrays, or for a column of strings one array with a number for each beginning.

        # Raises

        As `score`, and `InputError` if a continuation has no words.
        """
        base = check_choice("base", base, BASES)
        check_flag("unknown_missing", unknown_missing)
        rows, is_single = rows_of(prefixes)
        phrases, one_each = phrases_of(continuations, len(rows), is_single)
        beginnings = map(tokens_of_row, rows)
        sentences = [[Sentence(x + end)] for x, own in zip(beginnings, phrases) for end in own]
        alone = range(len(sentences))  # also with `carry`
        scores = self._score_rows(sentences, (base, False, False, unknown_missing), documents=alone)
        sums = [x.forward[-1 - len(words) : -1].sum() for x, words in zip(scores, chain(*phrases))]
        is_flat = is_single or one_each
        return np.array(sums) if is_flat else list(map(np.array, by_row(phrases, sums)))

    @not_compiled
    @torch.no_grad()
    @advised()
    @from_snapshot
    def substitutes(
        self,
        sentences: str | Sequence[str] | Sequence[Sequence[str]],
        targets: Iterable[Any] | int | None = None,
        k: int = 5,
        direction: str = "both",
        *,
        raw: bool = False,
    ) -> Any:
        """
        Find the most probable words at given positions, from the context alone. With both
        directions, the left and the right context are assumed to be independent given the word, so
        by Bayes' rule

            p(w | left, right)  ~  p(w | left) p(w | right) / p(w),

        where p(w) is the log-uniform distribution of the word's rank, which is close to Zipf's law.
        The word itself is not read. Words are those of the softmax without the boundaries and
        `<UNK>`, and their probabilities add up to 1. With `carry` the carried state stays as it is.

        # Parameters

        sentences : `str | Sequence[str] | Sequence[Sequence[str]]`
            A sentence or several; see `Elmo.embed`.
        targets : `int | Iterable`, optional
            The positions to find words for, counted from 0: for one sentence a position or a list
            of them, for several sentences a list or a column with one such list for each. By
            default all.
        k : `int`, optional (default = `5`)
            How many words to find.
        direction : `str`, optional (default = `"both"`)
            The context to use: `"both"`, or `"forward"` for the words before the position, or
            `"backward"` for the words after it.
        raw : `bool`, optional (default = `False`)
            See `Elmo.embed`. The positions in a raw text count the tokens of all its sentences, but
            the context of a word is its own sentence.

        # Returns

        `list`
            For each position a list of `Substitute`, the most probable first; for several sentences
            a list of these for each, and for a single position its substitutes alone.
        """
        k = check_count("k", k)
        check_choice("direction", direction, DIRECTIONS)
        rows, is_single = rows_of(sentences, raw)
        lengths = [sum(len(x.tokens) for x in row) for row in rows]
        is_number = is_single and is_whole(targets)
        wanted: Any = [[targets]] if is_number else [targets] if is_single else targets
        if targets is None:
            wanted = list(map(range, lengths))
        wanted = _check_targets(wanted, lengths)
        before = self.carried.state
        try:
            contexts = self._contexts(rows, direction)
        finally:
            self.carried.state = before
        words = [
            self._most_probable([x[places] for x in of_row], k)
            for of_row, places in zip(contexts, wanted)
        ]
        return words[0][0] if is_number else words[0] if is_single else words

    def _contexts(self, rows: list[Row], direction: str) -> list[list[Tensor]]:
        """The vectors that predict the tokens of each row, by direction, each `(n, P)`."""
        n_tokens = [len(x.tokens) for row in rows for x in row]
        contexts: list[Any] = [None] * len(n_tokens)
        for places, top in self._read(rows, None):
            for number, b in enumerate(places):
                # The forward direction predicts a word from its left context, the backward from
                # its right one.
                left, right = top[0, number, : n_tokens[b]], top[1, number, 2 : n_tokens[b] + 2]
                both = {"forward": left, "backward": right}
                contexts[b] = [x for name, x in both.items() if direction in (name, "both")]
        return [list(map(torch.cat, zip(*some))) for some in by_row(rows, contexts)]

    def _most_probable(self, contexts: list[Tensor], k: int) -> list[list[Substitute]]:
        """`contexts`: top layers that predict the same words, one or two of shape `(n, P)`."""
        rank = torch.arange(self.softmax.n_words, device=contexts[0].device)
        # The prior is for the second context only: the product of two counts it twice.
        offset = (1 - len(contexts)) * torch.log(log_uniform(rank, len(rank)))
        offset[: len(SPECIAL_WORDS)] = -torch.inf
        n_best = min(k, len(rank) - len(SPECIAL_WORDS))
        substitutes = []
        for parts in zip(*(x.split(max(1, CHUNK_NUMBERS // len(rank))) for x in contexts)):
            p = sum(map(self.softmax.logits, parts)) + offset
            best = p.softmax(dim=-1).topk(n_best)
            substitutes += [
                [Substitute(self.words[i], q) for q, i in zip(*row)]
                for row in zip(best.values.tolist(), best.indices.tolist())
            ]
        return substitutes

    def _read(
        self, rows: list[Row], max_tokens: int | None, documents: Any = None
    ) -> Iterator[tuple[list[int], Tensor]]:
        """
        The indices of the sentences that are read together, and their top layer by direction,
        including the boundaries, shape `(2, B, T + 2, P)`. `documents`: see `score`.
        """
        batches: Any = self.read(rows, max_tokens)
        if documents is not None:
            batches = read_documents(self, rows, documents_of(rows, documents), max_tokens)
        self.cache_words({word for row in rows for x in row for word in x.tokens})
        for places, layers, *_ in batches:
            yield places, torch.stack(layers[-1].chunk(2, dim=-1))

    @from_snapshot
    def fingerprint(self) -> bytes:
        """A digest of the weights and the settings that the scores depend on."""
        digest = weights_digest(self.softmax)
        digest.update(super().fingerprint())
        digest.update("\n".join(self.words).encode("utf-8", "surrogatepass"))
        return digest.digest()


def _predicting(top: Tensor, n_tokens: int) -> tuple[Tensor, Tensor]:
    """
    The vectors of a sentence that predict its words and the end, and the beginning and its words,
    each of shape `(n + 1, P)`. `top`: shape `(2, T + 2, P)`.
    """
    return top[0, : n_tokens + 1], top[1, 1 : n_tokens + 2]


def _check_targets(wanted: Any, lengths: list[int]) -> list[list[int]]:
    """The places of each sentence as integers, which are below its length."""
    expected = f"a list of places for each of {len(lengths)} sentences"
    rows = [places for _, places in named_rows(wanted, f"targets: expected {expected}")]
    if len(rows) != len(lengths):
        fail("targets", expected, wanted)
    checked = []
    for k, (row, n) in enumerate(zip(rows, lengths)):
        places = named_rows(row, f"targets[{k}]: expected a list of places")
        checked.append([check_count(f"targets[{k}]", x, least=0, most=n - 1) for _, x in places])
    return checked
