"""
The paper's comparisons, as a grid of trainings:

    python -m experiments.grid experiments/grid/paper.jsonnet --data DATA --work WORK --dry-run
    python -m experiments.grid experiments/grid/paper.jsonnet --data DATA --work WORK \\
        --rows experiments/results/rows.jsonl

DATA is a folder with the files that tasks.libsonnet names. WORK receives the runs, the layer caches
and the biLMs with initial weights. A grid is a jsonnet file with tasks, biLMs and tables. A table
lists its cells; a cell is a complete AllenNLP config with the settings that produced it: task,
biLM, layers, place, fraction of the training data and seed. Each cell is trained in a separate
process as with `allennlp train`, and appends one row to a JSON Lines file. A cell that has a row
with the same config and biLM is skipped, and a run that was killed continues after its last whole
epoch, so that a killed grid resumes. Only training and validation data are read.

To reproduce one row from scratch, use other files for rows and work:

    python -m experiments.grid experiments/grid/paper.jsonnet --data DATA --work EMPTY \\
        --rows again.jsonl --where table="table 1" task=ner bilm=none seed=1
"""
