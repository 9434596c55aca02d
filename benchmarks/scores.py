"""
Measures how fast a language model scores text, with the exact softmax over all of its words, and
compares it with the machine's limit, and sentences in documents with separate ones. Each
measurement is a first pass over its text, with no word vectors cached.
"""

from functools import partial
from itertools import accumulate, islice, takewhile

from benchmarks.measure import MatrixProductPeak, Record, in_turns, print_table, progress
from benchmarks.operations import reading_operations, softmax_operations
from benchmarks.settings import Settings
from elmo_plugin import LanguageModel
from elmo_plugin.text.lines import read_sentences

N_TOKENS = 5_000
N_DOCUMENTS, SENTENCES_EACH = 64, 20


def run(settings: Settings) -> Record:
    """Print the table and return it, by name."""
    name = "tiny" if settings.quick else "small"
    progress(f"scores of {name}")
    model = LanguageModel.from_pretrained(name)
    sentences = list(read_sentences(settings.text))
    most = 500 if settings.quick else N_TOKENS
    n_used = sum(1 for _ in takewhile(lambda n: n <= most, accumulate(map(len, sentences))))
    sentences = sentences[: max(1, n_used)]
    peak = MatrixProductPeak(quick=settings.quick)

    def score(entropy: bool) -> None:
        model.clear_caches()
        model.score(sentences, entropy)

    score(True)
    _, *times = in_turns(peak, lambda: score(False), lambda: score(True))
    n_tokens = sum(map(len, sentences))
    least = peak.seconds_at_least(operations(model, sentences))
    records: list[Record] = [
        {
            "model": name,
            "words_of_the_softmax": len(model.words),
            "numbers": "log probabilities, entropies" if entropy else "log probabilities",
            "ours": n_tokens / own,
            "gflops_peak": peak.gflops,
            "limit": n_tokens / least,
            "share_of_limit": least / own,
        }
        for entropy, own in zip((False, True), times)
    ]
    print_table(f"Scores, {n_tokens:,} tokens of {settings.text}: tokens/s", records)
    return {"scores": records, "documents": of_documents(settings, model)}


def of_documents(settings: Settings, model: LanguageModel) -> list[Record]:
    """Print and return the speed of sentences in documents, or in one, and of the same apart."""
    n_documents = 4 if settings.quick else N_DOCUMENTS
    sentences = list(islice(read_sentences(settings.text), n_documents * SENTENCES_EACH))
    n_tokens = sum(map(len, sentences))

    def score(documents: list[int] | None) -> None:
        model.clear_caches()
        model.score(sentences, documents=documents)

    sizes = SENTENCES_EACH, len(sentences)
    labels = [[number // size for number in range(len(sentences))] for size in sizes]
    apart, *times = in_turns(*(partial(score, documents) for documents in (None, *labels)))
    records: list[Record] = [
        {
            "documents": len(sentences) // size,
            "sentences_each": size,
            "in_documents": n_tokens / own,
            "apart": n_tokens / apart,
            "ratio": apart / own,
        }
        for size, own in zip(sizes, times)
    ]
    print_table(f"Sentences in documents, {n_tokens:,} tokens: tokens/s", records)
    return records


def operations(model: LanguageModel, sentences: list[list[str]]) -> int:
    """Count both boundaries of each sentence too, and the softmax over all words."""
    options, n_sentences = model.bilm.options, len(sentences)
    tokens = model.characters([[word for sentence in sentences for word in sentence]])
    n_targets = tokens.size(1) + n_sentences
    of_softmax = softmax_operations(options, n_targets, len(model.words) - 1)
    return reading_operations(options, [tokens], 2 * n_sentences) + of_softmax
