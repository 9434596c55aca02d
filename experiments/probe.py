"""
A linear probe: POS tagging (UPOS) by multinomial logistic regression on the frozen layers of a
biLM.

    python -m experiments.probe UD_English-EWT small=pretrained://small --work WORK

The classifier is trained on `*-ud-train.conllu` and scored on `*-ud-dev.conllu`, for each layer and
their average, with each initial state. The baseline assigns a word its most frequent tag in the
training data, and unknown words the most frequent tag overall. Each model is `NAME=ARCHIVE`, where
ARCHIVE may be anything that `archive_file` accepts, or the folder of a transformer
(`experiments/transformer.py`), which has no initial state.

With `carry` the sentences are read in batches of 64 in the order of the file, and each row starts
from the final state of the same row in the previous batch, as in bilm-tf.
"""

import time
import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from allennlp_models.structured_prediction import UniversalDependenciesDatasetReader
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from elmo_plugin import Elmo
from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.files.digest import digest
from elmo_plugin.modules.bilm import INITIAL_STATES
from experiments import new_parser, run
from experiments.markdown import table
from experiments.rows import AVERAGE, RESULTS, Row, named_archive, result_row, save_rows
from experiments.transformer import Transformer, load_vectors, names_of_layers

ROWS = 64
"""Rows of a batch with `carry`."""

SENTENCES = 4096
"""Sentences whose vectors are in memory in full precision at a time, with another state."""

ITERATIONS = 200
FILE = RESULTS / "pos.jsonl"
BASELINE = "most frequent tag"


class Tagged(NamedTuple):
    """Sentences of words, and the tags of all words in order."""

    sentences: list[list[str]]
    tags: list[str]


def read_tagged(file: Path) -> Tagged:
    """Read words and UPOS tags from a CoNLL-U file."""
    instances = list(UniversalDependenciesDatasetReader().read(str(file)))
    sentences = [[token.text for token in instance["words"].tokens] for instance in instances]
    tags = [tag for instance in instances for tag in instance["pos_tags"].labels]
    return Tagged(sentences, tags)


def most_frequent_tag_accuracy(train: Tagged, dev: Tagged) -> float:
    """The accuracy of the baseline, in percent."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(_words(train), train.tags):
        counts[word][tag] += 1
    default = Counter(train.tags).most_common(1)[0][0]
    best = {word: tags.most_common(1)[0][0] for word, tags in counts.items()}
    found = [best.get(word, default) for word in _words(dev)]
    return _accuracy(found, dev.tags)


def probe_accuracy(
    train: np.ndarray, train_tags: Sequence[str], dev: np.ndarray, dev_tags: Sequence[str]
) -> float:
    """
    The accuracy of a multinomial logistic regression, in percent.

    # Parameters

    train, dev : `np.ndarray`
        Vectors of the words, shape `(N, D)`.
    train_tags, dev_tags : `Sequence[str]`
        Their tags.
    """
    classifier = make_pipeline(StandardScaler(), LogisticRegression(max_iter=ITERATIONS))
    with warnings.catch_warnings():  # more iterations no longer change the accuracy
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(train, train_tags)
    return _accuracy(classifier.predict(dev), dev_tags)


def layer_vectors(elmo: Elmo | Transformer, sentences: list[list[str]], work: Path) -> np.ndarray:
    """
    The vectors of all words in all layers, shape `(L + 1, N, 2P)`, float16, computed once and
    cached in the folder `work`.
    """
    work.mkdir(parents=True, exist_ok=True)
    text = digest("\n".join(map(" ".join, sentences)).encode("utf-8"))
    file = work / f"{digest(elmo.fingerprint() + text.encode())[:20]}.npy"
    if not file.exists():
        vectors = _compute(elmo, sentences)
        with atomic_write(file) as temporary, open(temporary, "wb") as disk:
            np.save(disk, np.concatenate(vectors, axis=1))
    return np.load(file)


def _compute(elmo: Elmo | Transformer, sentences: list[list[str]]) -> list[np.ndarray]:
    if isinstance(elmo, Elmo):
        elmo.clear_caches()  # with `carry` the first batch starts from zeros
    n_rows = ROWS if elmo.initial_state == "carry" else SENTENCES
    vectors: list[np.ndarray] = []
    for k in range(0, len(sentences), n_rows):
        found = elmo.embed(sentences[k : k + n_rows], layer="all")
        vectors += (x.astype(np.float16) for x in found)
    return vectors


def probe_rows(
    name: str, archive_file: str, data: Path, states: Sequence[str], work: Path
) -> list[Row]:
    """The rows of a biLM, one per initial state and layer; or of a transformer, one per layer."""
    train, dev = read_treebank(data)
    rows = []
    for state in states:
        elmo = load_vectors(archive_file, initial_state=state)
        layers = [layer_vectors(elmo, part.sentences, work) for part in (train, dev)]
        averages = tuple(x.astype(np.float32).mean(axis=0) for x in layers)
        names = names_of_layers(elmo)
        for layer, (a, b) in zip(names, (*zip(*layers), averages)):
            started = time.process_time()
            a, b = a.astype(np.float32), b.astype(np.float32)
            metrics = {"accuracy": probe_accuracy(a, train.tags, b, dev.tags)}
            settings = {"layer": layer, "data": data.name}
            if elmo.initial_state is not None:
                settings["initial_state"] = elmo.initial_state
            rows.append(result_row(name, elmo, settings, metrics, started))
        if elmo.initial_state is None:
            break
    return rows


def baseline_row(data: Path) -> Row:
    """The row of the most frequent tag."""
    started = time.process_time()
    metrics = {"accuracy": most_frequent_tag_accuracy(*read_treebank(data))}
    return result_row(None, None, {"layer": AVERAGE, "data": data.name}, metrics, started)


def rows_table(rows: Sequence[Row]) -> str:
    """
    Rows as Markdown: a line for each biLM and initial state, and one for the baseline; and a table
    for each transformer, whose layers are others.
    """
    lines: dict[str, dict[str, float]] = {}
    others: dict[str, dict[str, float]] = {}
    for found in rows:
        settings, accuracy = found["settings"], found["metrics"]["accuracy"]
        state = f"`{settings['initial_state']}`" if "initial_state" in settings else None
        label = ", ".join(filter(None, (found["bilm"], state))) or BASELINE
        is_other = found["bilm"] and not state
        (others if is_other else lines).setdefault(label, {})[settings["layer"]] = accuracy
    found_layers = {layer for line in lines.values() for layer in line}
    names = sorted(found_layers, key=lambda layer: (layer == AVERAGE, layer != "words", layer))
    cells = ([line.get(name, "") for name in names] for line in lines.values())
    parts = [table(["vectors", *names], ([label, *line] for label, line in zip(lines, cells)))]
    parts += (
        table(["vectors", *line], [[f"`{label}`", *line.values()]])
        for label, line in others.items()
    )
    return "\n\n".join(parts)


def probe_table(archive_file: str, data: Path, states: Sequence[str], work: Path) -> str:
    """The table of a model card: a line for each initial state, and one for the baseline."""
    rows = probe_rows("", archive_file, data, states, work)
    return rows_table([*rows, baseline_row(data)])


def read_treebank(data: Path) -> tuple[Tagged, Tagged]:
    """The training and the development set of a Universal Dependencies treebank."""
    train, dev = (read_tagged(_only(data, f"*-ud-{split}.conllu")) for split in ("train", "dev"))
    return train, dev


def _only(folder: Path, pattern: str) -> Path:
    files = sorted(folder.glob(pattern))
    if len(files) != 1:
        raise FileNotFoundError(f"{folder}: expected one file {pattern}, found {len(files)}")
    return files[0]


def _words(tagged: Tagged) -> list[str]:
    return [word for sentence in tagged.sentences for word in sentence]


def _accuracy(found: Sequence[str], expected: Sequence[str]) -> float:
    return 100 * float(np.mean(np.asarray(found) == np.asarray(expected)))


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("data", type=Path, help="folder of a Universal Dependencies treebank")
    parser.add_argument("models", nargs="*", metavar="NAME=ARCHIVE")
    parser.add_argument("--states", nargs="+", default=INITIAL_STATES, choices=INITIAL_STATES)
    parser.add_argument("--work", type=Path, default=Path("experiments-out"))
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    rows = [baseline_row(arguments.data)]
    for model in arguments.models:
        name, archive_file = named_archive(model)
        rows += probe_rows(name, archive_file, arguments.data, arguments.states, arguments.work)
    save_rows(arguments.results, rows)
    print(rows_table(rows))


if __name__ == "__main__":
    run("probe", main)
