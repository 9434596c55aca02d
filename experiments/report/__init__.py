"""
Writes the pages of results, docs/results.md with its pictures and experiments/details.md, from the
rows of a grid:

    python -m experiments.report experiments/grid/paper.jsonnet experiments/results/rows.jsonl \\
        --text experiments/results/text.md --out docs/results.md --details experiments/details.md

The tables of the analyses come from the files next to those rows. The output is reproducible byte
for byte. Rows of configs outside the grid are ignored, and cells without a row are marked "not run
yet".
"""
