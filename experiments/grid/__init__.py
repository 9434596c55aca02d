"""
The paper's comparisons, as a grid of trainings:

    python -m experiments.grid experiments/grid/paper.jsonnet --data DATA --work WORK --dry-run
    python -m experiments.grid experiments/grid/paper.jsonnet --data DATA --work WORK \\
        --rows experiments/results/rows.jsonl

DATA is a folder with the files that tasks.libsonnet names, and WORK gets the runs, the layer caches
and the biLMs with initial weights. A grid is a jsonnet file with tasks, biLMs and tables; a table
lists its cells, and a cell is a complete AllenNLP config with the settings it was made from: task,
biLM, layers, place, fraction of the training data and seed. Each cell is trained in a process of
its own as `allennlp train` trains it, and adds one row to a JSON Lines file when it has finished. A
cell that has a row of the same config and the same biLM is skipped, so that a killed grid continues
where it stopped. Only training and validation data are read.

One row is made again, from nothing, by other files for rows and work:

    python -m experiments.grid experiments/grid/paper.jsonnet --data DATA --work EMPTY \\
        --rows again.jsonl --where table="table 1" task=ner bilm=none seed=1
"""
