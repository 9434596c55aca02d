"""
The page of results, docs/results.md with its pictures, from the rows of a grid:

    python -m experiments.report experiments/grid/paper.jsonnet experiments/results/rows.jsonl \\
        --text experiments/results/text.md --out docs/results.md

The tables of the analyses are from the files next to those rows. The same rows give the same
bytes. Rows of configs that the grid does not have are ignored, and cells without a row are named
as not run yet.
"""
