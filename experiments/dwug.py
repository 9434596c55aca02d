"""
Change of meaning: do the scores of `changes` order words as annotators do? The data are DWUG EN
3.0.0 (Schlechtweg et al. 2021, 2024): uses of 46 English words of 1810 to 1860 and of 1960 to 2010,
pairs of which annotators judged from 1 (unrelated) to 4 (identical), and sense clusters that were
computed from these judgments.

    python -m experiments.dwug DWUG small=pretrained://small

The folder DWUG has `data/WORD/uses.csv`, `data/WORD/judgments.csv` and `clusters/opt/WORD.csv`.
Graded change is the Jensen-Shannon distance (base 2, the square root of the divergence) of the
clusters of the two periods, without -1, which is no cluster. It is compared with `apd` and `prt` of
each word by Spearman's rank correlation over the words. The cosine of each judged pair is compared
with the mean of its judgments without 0, which is no decision: over the pairs of all words, and
within each word, of which the mean is taken. Intervals come from resampling the words.

The tokens are those of the data. Only numbers by word are saved. Each model is `NAME=ARCHIVE`,
where ARCHIVE may be anything that `archive_file` accepts, or the folder of a transformer
(`experiments/transformer.py`).
"""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas
from scipy.stats import rankdata

from elmo_plugin import Elmo
from elmo_plugin.corpora import changes, vectors_of
from experiments import new_parser, run
from experiments.intervals import Interval, resampled
from experiments.markdown import table
from experiments.rows import RESULTS, Row, known_rows, named_archive, result_row, save_rows
from experiments.transformer import Transformer, load_vectors, names_of_layers

FILE = RESULTS / "dwug.jsonl"
PERIODS = 1, 2
MEASURES = "apd", "prt"
PAIR_SAMPLES = 1_000
"""Resamples of the words for the pairs of all words, which are ranked again in each sample."""
DIGITS = 6
"""To which cosines of pairs and numbers of words are rounded."""


def read_table(files: Sequence[Path]) -> pandas.DataFrame:
    """The rows of files without quoting, with their word."""
    options: dict[str, Any] = {"sep": "\t", "quoting": 3, "keep_default_na": False}
    return pandas.concat([pandas.read_csv(file, **options) for file in files], ignore_index=True)


def read_uses(folder: Path) -> pandas.DataFrame:
    """
    The uses with `word`, `period`, `sentence` (tokens with spaces between them), `start` (the
    number of the token), `identifier` and `cluster`.
    """
    data = read_table(sorted(folder.glob("data/*/uses.csv")))
    found = read_table(sorted(folder.glob("clusters/opt/*.csv")))
    return pandas.DataFrame(
        {
            "word": data["lemma"],
            "period": data["grouping"],
            "sentence": data["context_tokenized"],
            "start": data["indexes_target_token_tokenized"],
            "identifier": data["identifier"],
            "cluster": data["identifier"].map(found.set_index("identifier")["cluster"]),
        }
    )


def read_pairs(folder: Path, uses: pandas.DataFrame) -> pandas.DataFrame:
    """The judged pairs with the row of each use, `a` and `b`, their `word` and mean `judgment`."""
    data = read_table(sorted(folder.glob("data/*/judgments.csv")))
    data = data[data["judgment"] > 0]
    row_of = pandas.Series(uses.index, index=uses["identifier"])
    rows = np.sort(np.stack([data[f"identifier{k}"].map(row_of) for k in (1, 2)]), axis=0)
    pairs = pandas.DataFrame({"a": rows[0], "b": rows[1], "judgment": data["judgment"].to_numpy()})
    pairs = pairs.groupby(["a", "b"], as_index=False)["judgment"].mean()
    return pairs.assign(word=uses["word"].to_numpy()[pairs["a"]])


def use_vectors(model: Elmo | Transformer, uses: pandas.DataFrame) -> np.ndarray:
    """The vectors of the uses in all layers and their average, shape `(L + 2, N, D)`."""
    if isinstance(model, Elmo):
        layers = model.embed_spans(
            uses["sentence"], uses["start"], uses["start"] + 1, "all", unit="tokens"
        ).swapaxes(0, 1)
    else:
        found = model.embed([text.split() for text in uses["sentence"]])
        layers = np.stack([own[:, k] for own, k in zip(found, uses["start"])], axis=1)
    return np.concatenate([layers, layers.mean(axis=0, keepdims=True)])


def spearman(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation along the last axis; NaN if one of them does not vary."""
    a, b = (rankdata(values, axis=-1) for values in (x, y))
    a, b = (ranks - ranks.mean(axis=-1, keepdims=True) for ranks in (a, b))
    with np.errstate(invalid="ignore"):
        return (a * b).sum(axis=-1) / np.sqrt((a**2).sum(axis=-1) * (b**2).sum(axis=-1))


def dwug_rows(name: str, archive_file: str, folder: Path) -> list[Row]:
    """A row for each layer of a model."""
    started = time.process_time()
    model = load_vectors(archive_file)
    uses = read_uses(folder)
    pairs = read_pairs(folder, uses)
    rows = []
    for layer, vectors in zip(names_of_layers(model), use_vectors(model, uses)):
        metrics = layer_metrics(uses.assign(vector=list(vectors)), pairs)
        rows.append(result_row(name, model, {"layer": layer}, metrics, started))
    return rows


def layer_metrics(uses: pandas.DataFrame, pairs: pandas.DataFrame) -> Row:
    """
    For each word, its numbers of uses, its graded `change`, its scores, and the correlation of its
    pairs; and that of the pairs of all words. `uses`: with a column `vector`.
    """
    old, new = (uses[uses["period"] == period] for period in PERIODS)
    scores = changes(old, new, measures=[*MEASURES, "jsd"], labels="cluster").set_index("word")
    unit = vectors_of(uses)
    unit /= np.linalg.norm(unit, axis=1, keepdims=True)
    # In the layer of the words, equal forms have equal vectors, so that their cosines are ties.
    cosines = (unit[pairs["a"]] * unit[pairs["b"]]).sum(axis=1).round(DIGITS)
    pairs = pairs.assign(cosine=cosines)
    judged = {x: own[["cosine", "judgment"]].to_numpy().T for x, own in pairs.groupby("word")}
    words = {}
    for word, own in judged.items():
        of_word = scores.loc[word]
        numbers = {"change": np.sqrt(of_word["jsd"]), "pairs_spearman": spearman(*own)}
        numbers |= {key: of_word[key] for key in MEASURES}
        words[word] = {
            "uses": [int(of_word["first"]), int(of_word["second"])],
            "pairs": own.shape[1],
            **{key: round(float(x), DIGITS) for key, x in numbers.items()},
        }
    values = list(judged.values())

    def over_all(drawn: np.ndarray) -> np.ndarray:
        samples = (np.concatenate([values[k] for k in row], axis=1) for row in np.atleast_2d(drawn))
        found = np.array([spearman(*sample) for sample in samples])
        return found if drawn.ndim > 1 else found[0]

    found = resampled(over_all, len(values), PAIR_SAMPLES)
    return {"words": words, "all_pairs": [round(x, DIGITS) for x in found]}


def column(row: Row, key: str) -> np.ndarray:
    """A number of each word."""
    return np.array([word[key] for word in row["metrics"]["words"].values()])


def correlation(row: Row, measure: str, other: Row | None = None) -> Interval:
    """
    The correlation of a score with graded change, or how much it is above that of another row.
    """
    change, scores = column(row, "change"), column(row, measure)
    if other is None:
        return resampled(lambda own: spearman(scores[own], change[own]), len(change))
    others = column(other, measure)
    return resampled(
        lambda own: spearman(scores[own], change[own]) - spearman(others[own], change[own]),
        len(change),
    )


def within(row: Row) -> Interval:
    """The mean over words of the correlation of a word's pairs."""
    values = column(row, "pairs_spearman")
    return resampled(lambda own: np.nanmean(values[own], axis=-1), len(values))


def all_pairs(row: Row) -> Interval:
    return Interval(*row["metrics"]["all_pairs"])


def headline_table(rows: Sequence[Row]) -> str:
    """The default score and layer of `changes` and `uses`, of each biLM: `apd`, the last LSTM."""
    tops = [row for row in rows if row is last_lstm(rows, row["bilm"])]
    n_words, first = len(column(tops[0], "change")), tops[0]["bilm"]
    heads = ["", f"change of {n_words} words, `apd`", f"above `{first}`"]
    heads += ["judged pairs, all words", "within words"]
    lines = []
    for row in tops:
        above = "" if row is tops[0] else correlation(row, "apd", tops[0]).text("+.2f")
        found = (correlation(row, "apd"), all_pairs(row), within(row))
        apd, over_all, inside = (x.text(".2f") for x in found)
        lines.append([f"`{row['bilm']}`", apd, above, over_all, inside])
    return table(heads, lines)


def last_lstm(rows: Sequence[Row], bilm: str) -> Row | None:
    """The row of the last LSTM layer of a biLM; a transformer has none."""
    own = [x for x in rows if x["bilm"] == bilm and x["settings"]["layer"].startswith("LSTM")]
    return own[-1] if own else None


def layers_table(rows: Sequence[Row]) -> str:
    """A line for each model and layer, with both scores and the pairs."""
    lines = []
    for row in rows:
        found = [correlation(row, measure) for measure in MEASURES]
        found += [all_pairs(row), within(row)]
        texts = [x.text(".2f") for x in found]
        lines.append([f"`{row['bilm']}`", row["settings"]["layer"], *texts])
    heads = ["vectors", "layer", *(f"`{x}`" for x in MEASURES), "pairs, all words", "within words"]
    return table(heads, lines)


def sections(folder: Path) -> dict[str, str]:
    """The sections of the results page by title, if the folder of rows has those of DWUG."""
    rows = known_rows(folder / FILE.name)
    if not rows:
        return {}
    return {
        "Change of meaning": headline_table(rows),
        "Change of meaning by layer": layers_table(rows),
    }


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("models", nargs="+", metavar="NAME=ARCHIVE")
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    rows = []
    for model in arguments.models:
        rows += dwug_rows(*named_archive(model), arguments.folder)
    save_rows(arguments.results, rows)
    print(layers_table(rows))


if __name__ == "__main__":
    run("dwug", main)
