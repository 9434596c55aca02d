from pathlib import Path

from elmo_plugin.files.atomic_write import atomic_write
from experiments import agreement, blimp, dwug, new_parser, reading_times, run, syntaxgym
from experiments import report as package
from experiments.from_scratch import page as from_scratch
from experiments.grid.cells import read_grid
from experiments.report.analyses import analysis_sections
from experiments.report.page import grid_sections, page, read_text
from experiments.report.statistics import Results
from experiments.report.two_pages import two_pages
from experiments.rows import read_rows


def write_page(
    grid: Path, rows: Path, text: Path | None, out: Path, details: Path | None = None
) -> None:
    """
    Write the page, and its pictures into the folder `results` next to it; `details` gets all but
    the main results. The rows of the analyses are next to those of the grid.
    """
    results = Results(read_grid(grid), read_rows(rows), str(rows))
    pictures = out.parent / "results"
    sections = grid_sections(results, pictures) | analysis_sections(rows.parent)
    for analysis in (blimp, syntaxgym, reading_times, from_scratch):
        sections |= analysis.sections(rows.parent, pictures)
    for without_picture in (agreement, dwug):
        sections |= without_picture.sections(rows.parent)
    content = page(sections, read_text(text) if text else {}, results)
    pages = {out: content}
    if details is not None:
        pages[out], pages[details] = two_pages(content, out, details)
    for file, of_file in pages.items():
        with atomic_write(file) as temporary:
            temporary.write_text(of_file, "utf-8")


def main() -> None:
    parser = new_parser(package.__doc__)
    parser.prog = "python -m experiments.report"
    parser.add_argument("grid", type=Path, help="jsonnet file")
    parser.add_argument("rows", type=Path, help="JSON Lines file of the grid")
    parser.add_argument("--text", type=Path, help="prose, by sections of the page")
    parser.add_argument("--out", type=Path, default=Path("docs/results.md"))
    parser.add_argument("--details", type=Path, help="a file for all but the main results")
    arguments = parser.parse_args()
    write_page(arguments.grid, arguments.rows, arguments.text, arguments.out, arguments.details)


if __name__ == "__main__":
    run("report", main)
