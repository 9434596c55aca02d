"""
N-gram models over the same events as a biLM: the words of a vocabulary, `<UNK>` for all others, and
sentence ends.

    python -m experiments.ngrams vocabulary.txt train heldout/news.txt heldout/novels.txt

The 5-gram model uses interpolated modified Kneser-Ney smoothing (Chen and Goodman 1998) from KenLM
(Heafield et al. 2013), whose programs must be on the PATH. Build them from the source distribution
of the package `kenlm` with CMake and Boost:

    pip download kenlm==0.3.0 --no-deps --no-binary kenlm --no-build-isolation
    tar xzf kenlm-0.3.0.tar.gz && cmake -S kenlm-0.3.0 -B kenlm-build -DBUILD_TESTING=OFF
    make -C kenlm-build lmplz build_binary query && export PATH=$PWD/kenlm-build/bin:$PATH

The backward model is a forward model of reversed sentences, so that both directions and the joint
perplexity are comparable with a biLM's. The unigram model is add-one smoothed.
"""

import argparse
import json
import re
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from allennlp.data import Vocabulary

from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.digest import digest
from elmo_plugin.formats.bilm_tf.vocabulary_file import read_vocabulary_file
from elmo_plugin.plugin.data.vocabulary import (
    WORDS_NAMESPACE,
    BiLMVocabulary,
    ids_of_corpus_words,
    vocabulary_words,
)
from elmo_plugin.text.corpus import EncodedCorpus
from elmo_plugin.text.corpus_cache import open_corpus
from elmo_plugin.text.special_words import END
from experiments.markdown import table
from experiments.perplexity import Perplexity, sentences_of_ranks

ORDER = 5
PROGRAMS = ("lmplz", "build_binary", "query")


class NGrams(NamedTuple):
    """Perplexities of the n-gram models for one text."""

    unigram: float
    kneser_ney: Perplexity


class NGramModels:
    """
    A unigram and the Kneser-Ney 5-grams of both directions.

    # Parameters

    vocab : `Vocabulary`
        Vocabulary of type `bilm`, usually that of a biLM.
    train : `EncodedCorpus`
        Training text of the models.
    work : `Path`
        Folder that stores the estimated models for the next run.
    discount_fallback : `bool`, optional (default = `False`)
        Whether to use KenLM's constants for discounts that a small text does not determine.
    """

    def __init__(
        self, vocab: Vocabulary, train: EncodedCorpus, work: Path, discount_fallback: bool = False
    ) -> None:
        for program in PROGRAMS:
            if shutil.which(program) is None:
                raise FileNotFoundError(
                    f"expected KenLM's program {program} on the PATH, found none; "
                    "experiments/ngrams.py explains how to build it"
                )
        self._vocab = vocab
        self._work = work
        work.mkdir(parents=True, exist_ok=True)
        fallback = ["--discount_fallback"] if discount_fallback else []
        counts = self._counts(train) + 1
        self._log_unigram = np.log(counts / counts.sum())
        self._files = {step: self._estimate(train, step, fallback) for step in (1, -1)}

    def perplexities(self, text: EncodedCorpus) -> NGrams:
        """The perplexities of a held-out text."""
        counts = self._counts(text)
        unigram = float(np.exp(-counts @ self._log_unigram / counts.sum()))
        n_events = text.num_tokens + text.num_sentences
        found = []
        for step, file in self._files.items():
            lines = _lines(text, self._vocab, step)
            printed = _run("query", "-v", "summary", file, text=lines)
            summary = dict(re.findall(r"^(.+):\s+(\S+)$", printed, re.MULTILINE))
            if int(summary["Tokens"]) != n_events:
                raise ValueError(f"query: expected {n_events} events, found {summary['Tokens']}")
            found.append(float(summary["Perplexity including OOVs"]))
        return NGrams(unigram, Perplexity(*found))

    def _counts(self, corpus: EncodedCorpus) -> np.ndarray:
        """Counts of the vocabulary's words, with one boundary per sentence."""
        ids = ids_of_corpus_words(corpus, self._vocab)
        n_words = self._vocab.get_vocab_size(WORDS_NAMESPACE)
        counts = np.bincount(ids, weights=corpus.counts, minlength=n_words)
        counts[END] += corpus.num_sentences
        return counts

    def _estimate(self, train: EncodedCorpus, step: int, options: list[str]) -> Path:
        facts = [train.description["digests"], vocabulary_words(self._vocab), ORDER, step, options]
        file = self._work / f"{digest(json.dumps(facts).encode('utf-8'))[:20]}.binary"
        if not file.exists():
            with TemporaryDirectory(dir=self._work) as folder, atomic_write(file) as temporary:
                arpa = f"{folder}/model.arpa"
                estimate = ["lmplz", "-o", ORDER, "-S", "2G", "-T", folder, "--arpa", arpa]
                _run(*estimate, *options, text=_lines(train, self._vocab, step))
                _run("build_binary", "probing", arpa, temporary)
        return file


def _run(*command: object, text: bytes = b"") -> str:
    """Run a KenLM program on a text and return its output."""
    done = subprocess.run(list(map(str, command)), input=text, capture_output=True)
    if done.returncode:
        raise ValueError(f"{command[0]}: {done.stderr.decode()[-500:]}")
    return done.stdout.decode()


def _lines(corpus: EncodedCorpus, vocab: Vocabulary, step: int) -> bytes:
    """
    One sentence per line. Words are written as vocabulary numbers, because `<s>` or `<unk>` would
    have a special meaning for KenLM. Sentences are reversed if `step` is -1.
    """
    ids = ids_of_corpus_words(corpus, vocab)
    lines = (" ".join(map(str, ids[s[::step]].tolist())) for s in sentences_of_ranks(corpus))
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def ngram_table(models: NGramModels, corpora: dict[str, EncodedCorpus]) -> str:
    """One row for each text."""
    rows = []
    for name, corpus in corpora.items():
        unigram, found = models.perplexities(corpus)
        rows.append([name, unigram, *found, found.joint])
    names = [f"{ORDER}-gram {direction}" for direction in ("forward", "backward", "joint")]
    return table(["text", "unigram", *names], rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("vocabulary", help="vocabulary file of the biLM")
    parser.add_argument("train", help="training text, as in train_data_path")
    parser.add_argument("texts", nargs="+", help="held-out texts")
    parser.add_argument("--work", type=Path, default=Path("experiments-out"))
    arguments = parser.parse_args()
    vocab = BiLMVocabulary.from_words(read_vocabulary_file(arguments.vocabulary))
    models = NGramModels(vocab, open_corpus(arguments.train), arguments.work)
    corpora = {Path(text).stem: open_corpus(text) for text in arguments.texts}
    print(ngram_table(models, corpora))


if __name__ == "__main__":
    main()
