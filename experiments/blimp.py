"""
Writes the tables and the picture of docs/blimp.md: the accuracy of a language model on the minimal
pairs of BLiMP (Warstadt et al. 2020), next to the published models.

    python -m elmo_plugin score --pairs blimp/*.jsonl --raw --pretrained small --format jsonl \\
        --output-file scores.jsonl
    python -m experiments.blimp --scores scores.jsonl --published published.jsonl

`--published` has a line with UID, ngram, lstm, txl and gpt2 for each paradigm. Both are merged into
the file of `--results`; without them, the page is written from this file.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.figure import Figure

from elmo_plugin.files.atomic_write import atomic_write
from experiments import new_parser, run
from experiments.markdown import table
from experiments.report.pictures import save
from experiments.rows import RESULTS, ROOT, Row, read_rows

FILE = RESULTS / "blimp.jsonl"
PAGE = ROOT / "docs" / "blimp.md"
PICTURE = ROOT / "docs" / "pictures" / "blimp.svg"
OWN = {"forward": "forward", "backward": "backward", "both": "both"}
PUBLISHED = {"ngram": "5-gram", "lstm": "LSTM", "txl": "Transformer-XL", "gpt2": "GPT-2"}
ALL = "all"


def merged(scores: Iterable[Row], published: Iterable[Row]) -> list[Row]:
    """The rows of the paradigms, with the published accuracies in percent."""
    known = {row["UID"]: row for row in published}
    return [
        row | {key: round(100 * known[row["name"]][key], 1) for key in PUBLISHED}
        for row in scores
        if row["level"] == "paradigm"
    ]


def phenomena(rows: Iterable[Row]) -> list[Row]:
    """The means over the paradigms of each phenomenon and of all, which have the same size."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["phenomenon"].replace("_", " ")].append(row)
        groups[ALL].append(row)
    order = sorted(groups.keys() - {ALL}) + [ALL]
    return [
        {"phenomenon": name, "paradigms": len(groups[name]), **_means(groups[name])}
        for name in order
    ]


def _means(rows: list[Row]) -> dict[str, Any]:
    keys = [*OWN, *PUBLISHED, *(f"{d}_{x}" for d in OWN for x in ("ties", "known"))]
    found: dict[str, Any] = {
        key: mean(values)
        for key in keys
        if (values := [r[key] for r in rows if r[key] is not None])
    }
    return found | {key: sum(r[key] for r in rows) for key in ("pairs", "unknown_pairs")}


def tables(rows: list[Row]) -> dict[str, str]:
    """The tables of the page by name."""
    columns = [*OWN, *PUBLISHED]
    heads = [*(f"`small`, {x}" for x in OWN.values()), *PUBLISHED.values()]
    of_phenomena = phenomena(rows)
    total = of_phenomena[-1]
    unknown = [[d, total[d], total[f"{d}_known"], f"{total[f'{d}_ties']:.2f}"] for d in OWN]
    return {
        "phenomena": table(
            ["phenomenon", "paradigms", *heads],
            [[r["phenomenon"], r["paradigms"], *(r[c] for c in columns)] for r in of_phenomena],
        ),
        "unknown": f"{total['unknown_pairs']:,} of {total['pairs']:,} pairs.\n\n"
        + table(["direction", "all pairs", "other pairs", "ties"], unknown),
        "paradigms": table(
            ["paradigm", *heads], [[f"`{r['name']}`", *(r[c] for c in columns)] for r in rows]
        ),
    }


def with_tables(page: str, found: dict[str, str]) -> str:
    """The page with the tables between its marks."""
    for name, text in found.items():
        begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
        before, _, rest = page.partition(begin)
        _, is_there, after = rest.partition(end)
        if not is_there:
            raise ValueError(f"expected a page with {begin.strip()} and {end}, found none")
        page = f"{before}{begin}\n{text}\n\n{end}{after}"
    return page


def picture(rows: list[Row]) -> Figure:
    """The accuracy of each model by phenomenon."""
    of_phenomena = phenomena(rows)
    figure = Figure(figsize=(7, 5), layout="constrained")
    panel = figure.subplots()
    names = [row["phenomenon"] for row in of_phenomena]
    marks = {"ngram": "v", "lstm": "s", "txl": "D", "gpt2": "^", "forward": "o", "both": "*"}
    labels = PUBLISHED | {"forward": "small, forward", "both": "small, both"}
    for k, (key, mark) in enumerate(marks.items()):
        is_own = key in OWN
        panel.plot(
            [row[key] for row in of_phenomena],
            names,
            mark,
            color=f"C{k}",
            label=labels[key],
            markersize=9 if is_own else 6,
            alpha=1 if is_own else 0.6,
        )
    panel.axvline(50, color="#999999", linestyle=":")
    panel.invert_yaxis()
    panel.grid(axis="y", color="#eeeeee")
    panel.set_xlabel("accuracy, %; chance is 50")
    panel.legend(ncols=3, loc="lower center", bbox_to_anchor=(0.4, 1.0))
    return figure


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("--scores", type=Path)
    parser.add_argument("--published", type=Path)
    parser.add_argument("--results", type=Path, default=FILE)
    parser.add_argument("--page", type=Path, default=PAGE)
    parser.add_argument("--picture", type=Path, default=PICTURE)
    arguments = parser.parse_args()
    if arguments.scores and arguments.published:
        rows = merged(read_rows(arguments.scores), read_rows(arguments.published))
        with atomic_write(arguments.results) as temporary:
            temporary.write_text("".join(json.dumps(row) + "\n" for row in rows))
    rows = read_rows(arguments.results)
    page = with_tables(arguments.page.read_text("utf-8"), tables(rows))
    with atomic_write(arguments.page) as temporary:
        temporary.write_text(page, "utf-8")
    save(picture(rows), arguments.picture)


if __name__ == "__main__":
    run("blimp", main)
