"""
Adds the accuracy of a language model on the minimal pairs of BLiMP (Warstadt et al. 2020) to the
rows of the results page, `experiments/results/blimp.jsonl`:

    python -m elmo_plugin score --pairs blimp/*.jsonl --raw --pretrained small --format jsonl \\
        --output-file scores.jsonl
    python -m experiments.blimp small --scores scores.jsonl

The published accuracies are those of the rows that are there, from the results file that the
authors corrected after their paper. `python -m experiments.report` then writes the page.
"""

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from statistics import mean
from typing import Any

from matplotlib.figure import Figure
from scipy.stats import ttest_1samp

from elmo_plugin.files.atomic_write import atomic_write
from experiments import new_parser, run
from experiments.markdown import table
from experiments.report.pictures import COLORS, save
from experiments.rows import RESULTS, Row, known_rows, read_rows

FILE = RESULTS / "blimp.jsonl"
DIRECTIONS = ("forward", "backward", "both")
PUBLISHED = {"ngram": "5-gram", "lstm": "LSTM", "txl": "Transformer-XL", "gpt2": "GPT-2 large"}
HUMAN = 88.6
"""The accuracy of single people (Warstadt et al. 2020)."""
ALL = "all"


def merged(bilm: str, scores: Iterable[Row], published: dict[str, Row]) -> list[Row]:
    """
    The rows of the paradigms, with the published accuracies in percent. Raises a `ValueError` if
    the scores are not of the paradigms that have been published.
    """
    rows = [row for row in scores if row["level"] == "paradigm"]
    if other := {row["name"] for row in rows} ^ published.keys():
        raise ValueError(
            f"expected scores of the {len(published)} paradigms in the results, found "
            f"{len(rows)}, with or without {', '.join(sorted(other)[:3])}"
        )
    return [
        {"bilm": bilm} | row | {key: published[row["name"]][key] for key in PUBLISHED}
        for row in rows
    ]


def by_bilm(rows: Iterable[Row]) -> dict[str, list[Row]]:
    found: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        found[row["bilm"]].append(row)
    return dict(found)


def phenomena(rows: Iterable[Row]) -> dict[str, Row]:
    """The means over the paradigms of each phenomenon and of all, which have the same size."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["phenomenon"].replace("_", " ")].append(row)
        groups[ALL].append(row)
    order = sorted(groups.keys() - {ALL}) + [ALL]
    return {name: {"paradigms": len(groups[name]), **_means(groups[name])} for name in order}


def _means(rows: list[Row]) -> dict[str, Any]:
    keys = [*DIRECTIONS, *PUBLISHED, *(f"{d}_{x}" for d in DIRECTIONS for x in ("ties", "known"))]
    found: dict[str, Any] = {
        key: mean(values)
        for key in keys
        if (values := [r[key] for r in rows if r[key] is not None])
    }
    return found | {key: sum(r[key] for r in rows) for key in ("pairs", "unknown_pairs")}


def sections(folder: Path, pictures: Path) -> dict[str, str]:
    """
    The sections of the results page by title, if the folder of rows has those of BLiMP. The
    picture is written into the other folder.
    """
    rows = known_rows(folder / FILE.name)
    if not rows:
        return {}
    found = {name: phenomena(of_bilm) for name, of_bilm in by_bilm(rows).items()}
    totals = {name: means[ALL] for name, means in found.items()}
    title, shown = "Accuracy on the minimal pairs of BLiMP, from left to right", accuracies(totals)
    values = "; ".join(f"{name} {accuracy:.1f} %" for name, accuracy in shown.items())
    save(picture(totals), pictures / "blimp.svg", title, f"{values}; people {HUMAN} %")
    image = f"![{title}: {values}](results/blimp.svg)"
    return {
        "Minimal pairs (BLiMP)": "\n\n".join([image, *differences_table(by_bilm(rows))]),
        "BLiMP by phenomenon": "\n\n".join([phenomena_table(found), unknown_table(found)]),
    }


def phenomena_table(found: dict[str, dict[str, Row]]) -> str:
    """A row for each phenomenon, with the directions of each biLM and the published models."""
    heads = [f"`{bilm}`, {d}" for bilm in found for d in DIRECTIONS]
    lines: list[list[object]] = []
    for name, first in next(iter(found.values())).items():
        own = [means[name][d] for means in found.values() for d in DIRECTIONS]
        lines.append([name, first["paradigms"], *own, *(first[key] for key in PUBLISHED)])
    return table(["phenomenon", "paradigms", *heads, *PUBLISHED.values()], lines)


def differences_table(rows: dict[str, list[Row]]) -> list[str]:
    """
    How much better each other biLM is than the first, as a table, if there are several. The 95 %
    interval is that of a paired t-test over the paradigms.
    """
    first, *others = rows
    lines: list[list[object]] = []
    for other in others:
        accuracies = {row["name"]: row for row in rows[other]}
        for d in DIRECTIONS:
            gains = [accuracies[row["name"]][d] - row[d] for row in rows[first]]
            low, high = ttest_1samp(gains, 0).confidence_interval(0.95)
            lines.append([f"`{other}`, {d}", mean(gains), f"{low:.1f} to {high:.1f}"])
    heads = ["", f"better than `{first}` by", "95 % interval over paradigms"]
    return [table(heads, lines)] if lines else []


def unknown_table(found: dict[str, dict[str, Row]]) -> str:
    """The accuracy without the pairs that differ only in unknown words."""
    lines: list[list[object]] = []
    for bilm, means in found.items():
        total = means[ALL]
        pairs = f"{total['unknown_pairs']:,} of {total['pairs']:,}"
        for d in DIRECTIONS:
            shown = total[d], pairs, total[f"{d}_known"], f"{total[f'{d}_ties']:.2f}"
            lines.append([f"`{bilm}`, {d}", *shown])
    return table(["", "all pairs", "unknown pairs", "without these", "ties, %"], lines)


def accuracies(totals: dict[str, Row]) -> dict[str, float]:
    """Of each model, the best last. Published ones read from left to right, so `forward` is
    comparable."""
    first = next(iter(totals.values()))
    bars = {name: first[key] for key, name in PUBLISHED.items()}
    bars |= {f"{bilm}, forward": total["forward"] for bilm, total in totals.items()}
    return dict(sorted(bars.items(), key=lambda bar: bar[1]))


def picture(totals: dict[str, Row]) -> Figure:
    """A bar for each model, and lines for chance and for people."""
    bars = accuracies(totals)
    figure = Figure(figsize=(7, 1.1 + 0.4 * len(bars)), layout="constrained")
    panel = figure.subplots()
    for label, color, own in (("published", COLORS[0], False), ("this package", COLORS[2], True)):
        part = {name: x for name, x in bars.items() if name.endswith(", forward") == own}
        places = [list(bars).index(name) for name in part]
        drawn = panel.barh(places, list(part.values()), label=label, color=color)
        panel.bar_label(drawn, fmt="%.1f", padding=-32, color="white")
    panel.set_yticks(range(len(bars)), list(bars))
    panel.axvline(50, color="#999999", linestyle="--", label="chance, 50")
    panel.axvline(HUMAN, color="black", linestyle=":", label=f"people, {HUMAN}")
    panel.set_xlim(0, 105)
    pairs = next(iter(totals.values()))["pairs"]
    panel.set_xlabel(f"accuracy on {pairs:,} minimal pairs, %")
    figure.legend(ncols=4, loc="outside upper center")
    return figure


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("bilm", help="its name on the page")
    parser.add_argument("--scores", type=Path, required=True)
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    rows = by_bilm(read_rows(arguments.results))
    published = {row["name"]: row for of_bilm in rows.values() for row in of_bilm}
    rows[arguments.bilm] = merged(arguments.bilm, read_rows(arguments.scores), published)
    with atomic_write(arguments.results) as temporary:
        lines = [json.dumps(row) + "\n" for of_bilm in rows.values() for row in of_bilm]
        temporary.write_text("".join(lines))


if __name__ == "__main__":
    run("blimp", main)
