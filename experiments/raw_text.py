"""
Sentences in raw English text, measured on the paragraphs of a treebank of Universal Dependencies in
CoNLL-U, such as UD English EWT:

    python -m experiments.raw_text en_ewt-ud-dev.conllu

Prints the precision and the recall of the boundaries within paragraphs; the share of unknown tokens
and the perplexity of `small` for its sentences and for documents of ten; and the number of uses of
frequent nouns in its sentences and in its paragraphs, wrapped at 70 columns.
"""

import argparse
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from elmo_plugin import LanguageModel
from elmo_plugin.elmo.raw_text import RUNNING, split_sentences
from elmo_plugin.elmo.uses import find_uses, word_forms


def paragraphs(file: Path) -> Iterator[list[str]]:
    """The sentences of each paragraph."""
    paragraph: list[str] = []
    for line in file.read_text("utf-8").splitlines():
        if line.startswith(("# newpar", "# newdoc")) and paragraph:
            yield paragraph
            paragraph = []
        if line.startswith("# text = "):
            paragraph.append(" ".join(line.removeprefix("# text = ").split()))
    yield paragraph


def boundaries(
    split: Callable[[str], list[tuple[int, int]]], texts: list[list[str]]
) -> tuple[float, float]:
    """The precision and the recall of the ends of sentences, except those of paragraphs."""
    counts: Counter[str] = Counter()
    for sentences in texts:
        text = " ".join(sentences)
        found = {end for _, end in split(text)[:-1]}
        ends = {len(" ".join(sentences[:k])) for k in range(1, len(sentences))}
        counts.update(found=len(found), ends=len(ends), both=len(found & ends))
    return counts["both"] / counts["found"], counts["both"] / counts["ends"]


def unknown(model: LanguageModel, texts: list[str]) -> float:
    """The share of tokens that the softmax lacks."""
    scores = model.score(texts, raw=True)
    return 1 - sum(x.in_vocabulary.sum() for x in scores) / sum(len(x.tokens) for x in scores)


def frequent_nouns(file: Path) -> list[str]:
    """The nouns in lower case that occur ten times or more."""
    rows = (line.split("\t") for line in file.read_text("utf-8").splitlines())
    nouns = Counter(row[1] for row in rows if len(row) > 3 and row[3] == "NOUN")
    return [word for word, n in nouns.items() if n >= 10 and word.isalpha() and word.islower()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("treebank", type=Path)
    file = parser.parse_args().treebank
    texts = list(paragraphs(file))
    precision, recall = boundaries(split_sentences, texts)
    print(f"precision {precision:.3f}, recall {recall:.3f}")
    sentences = [sentence for text in texts for sentence in text]
    documents = [" ".join(sentences[k : k + 10]) for k in range(0, len(sentences), 10)]
    model = LanguageModel.from_pretrained("small")
    for rows in (sentences, documents):
        perplexity = model.perplexity(rows, raw=True)["perplexity"]
        print(f"{len(rows)} rows: {unknown(model, rows):.3f} unknown, perplexity {perplexity:.1f}")
    forms = word_forms(frequent_nouns(file))
    with TemporaryDirectory() as folder:
        lines, wrapped = Path(folder) / "lines", Path(folder) / "wrapped"
        lines.write_text("\n".join(sentences))
        wrapped.write_text("\n\n".join(textwrap.fill(" ".join(text), 70) for text in texts))
        for name, raw in ((lines, True), (wrapped, True), (wrapped, RUNNING)):
            n_uses = sum(1 for _ in find_uses(name, forms, raw))
            print(f"{name.name}, {raw}: {n_uses:,} uses of {len(forms)} nouns")


if __name__ == "__main__":
    main()
