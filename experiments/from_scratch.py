"""
Trains the biLM of `training_configs/bilm.jsonnet` and small transformers on the same small text, to
compare what each reaches in which time. Each result becomes a row of
`experiments/results/from_scratch.jsonl`:

    python -m experiments.from_scratch TEXT UD_English-EWT elmo --epochs 6
    python -m experiments.from_scratch TEXT UD_English-EWT words --layers 2 --dim 128 --rate 1e-3

TEXT is a folder of files with one tokenized sentence per line. The last twentieth of each is held
out; `--tokens` takes that many of the others, from the beginnings of all files. The models are

- `elmo`: the biLM, trained by `allennlp train`;
- `words`: a causal transformer over the words of the biLM's vocabulary;
- `pieces`: the same over 8,000 word pieces (BPE of bytes, GPT-2's); the probability of a word is
  the product of those of its pieces;
- `masked`: a transformer over the same pieces that predicts 15 % of them (BERT's), for the probe.

The perplexity is that of the words that the biLM's vocabulary has, given those before them in their
sentence, and of the sentence's end. The probe finds parts of speech from the mean of a model's
layers (`experiments/probe.py`), trained on every second sentence of the treebank.

Transformers are trained by AdamW with dropout 0.1 on streams of shuffled sentences, 16 rows of 128.
Their rate rises in 200 steps and stays. When 1, 2, 4 ... minutes have passed, a copy is trained for
a quarter of the steps done, while its rate falls to zero, and measured; the training ends after
`--minutes`, or when a copy is not better than the one before. The time of a row is the CPU time, on
one thread, of the steps that led to it. Products are in bf16 where the processor has them.
"""

import copy
import json
import math
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
import torch
from allennlp.commands.train import train_model
from allennlp.common import Params
from matplotlib.figure import Figure
from tokenizers import ByteLevelBPETokenizer
from torch import Tensor
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.ops.private_torch import CPU_HAS_BFLOAT16
from experiments import new_parser, run
from experiments.markdown import table
from experiments.probe import Tagged, probe_accuracy, read_treebank
from experiments.report.pictures import COLORS, save
from experiments.rows import ORIGIN, RESULTS, ROOT, Row, known_rows, read_rows, save_rows

FILE = RESULTS / "from_scratch.jsonl"
CONFIG = ROOT / "training_configs" / "bilm.jsonnet"
ROWS, WINDOW = 16, 128
PIECES = 8_000
WARM_UP = 200
BATCH = 32
"""Windows that are measured at once."""
END, UNKNOWN, MASK = 0, 1, 2
SPECIAL = ["</S>", "<UNK>", "<MASK>"]
SHOWN = {
    "elmo": "biLM, `bilm.jsonnet`",
    "words": "causal transformer, words",
    "pieces": "causal transformer, word pieces",
    "masked": "masked transformer, word pieces",
}
"""What tables call a model."""
REACHED = "CPU minutes", "perplexity", "tags, %"


class Text(NamedTuple):
    """Tokenized sentences, and the words that occur three times in those for training."""

    train: list[list[str]]
    heldout: list[list[str]]
    words: list[str]


def read_text(folder: Path, n_tokens: int | None) -> Text:
    """The text of a folder; `n_tokens`: the size of the training text, by default all."""
    files = [
        [line.split() for line in file.read_text("utf-8").splitlines() if line.strip()]
        for file in sorted(folder.glob("*.txt"))
    ]
    parts = [lines[: len(lines) * 19 // 20] for lines in files]
    heldout = [s for lines, part in zip(files, parts) for s in lines[len(part) :]]
    every = sum(len(s) for part in parts for s in part)
    share = min(1.0, n_tokens / every) if n_tokens else 1.0
    train = [s for part in parts for s in part[: round(share * len(part))]]
    counts = Counter(word for s in train for word in s)
    return Text(train, heldout, [w for w, n in counts.most_common() if n >= 3])


class Units:
    """The units of a transformer: words, or word pieces."""

    def __init__(self, text: Text, kind: str) -> None:
        self._pieces = None
        if kind != "words":
            self._pieces = ByteLevelBPETokenizer(add_prefix_space=True)
            self._pieces.train_from_iterator(map(" ".join, text.train), PIECES, 2, False, SPECIAL)
        words = [*SPECIAL, *text.words]
        self._ids = {word: k for k, word in enumerate(words)}
        self.size = self._pieces.get_vocab_size() if self._pieces else len(words)

    def __call__(self, sentence: Sequence[str]) -> list[list[int]]:
        """The units of each word of a sentence."""
        if self._pieces is None:
            return [[self._ids.get(word, UNKNOWN)] for word in sentence]
        return [x.ids for x in self._pieces.encode_batch(list(sentence))]


def new_model(kind: str, size: int, n_layers: int, dim: int) -> Any:
    """A transformer with random weights."""
    if kind == "masked":
        of_bert = BertConfig(size, dim, n_layers, dim // 64, 4 * dim, type_vocab_size=1)
        of_bert.max_position_embeddings = WINDOW
        return BertForMaskedLM(of_bert)
    of_gpt = GPT2Config(size, WINDOW, dim, n_layers, dim // 64, bos_token_id=0, eos_token_id=0)
    return GPT2LMHeadModel(of_gpt)


def streams(sentences: Sequence[list[int]], draw: random.Random) -> Iterator[Tensor]:
    """Batches of rows, shape `(ROWS, WINDOW)`, of sentences that are shuffled in each epoch."""
    order, kept = list(sentences), []
    while True:
        draw.shuffle(order)
        for sentence in order:
            kept += [END, *sentence]
            while len(kept) >= ROWS * WINDOW:
                yield torch.tensor(kept[: ROWS * WINDOW]).view(ROWS, WINDOW)
                kept = kept[ROWS * WINDOW :]


def step(model: Any, kind: str, optimizer: Any, rows: Tensor, rate: float) -> None:
    """A step of training on rows of units."""
    inputs, labels = rows, rows
    if kind == "masked":
        # BERT's: of the chosen units 80 % are masked, 10 % replaced and 10 % left.
        chosen, how = torch.rand(rows.shape) < 0.15, torch.rand(rows.shape)
        labels = rows.masked_fill(~chosen, -100)
        others = torch.randint(len(SPECIAL), model.config.vocab_size, rows.shape)
        inputs = torch.where(chosen & (how < 0.1), others, rows)
        inputs = inputs.masked_fill(chosen & (how >= 0.2), MASK)
    with torch.autocast("cpu", torch.bfloat16, enabled=CPU_HAS_BFLOAT16):
        loss = model(input_ids=inputs, labels=labels).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()


def trained(
    model: Any, kind: str, batches: Iterator[Tensor], rate: float, minutes: float
) -> Iterator[tuple[Any, float, int]]:
    """The copies whose rate fell to zero, their CPU seconds and their number of steps."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
    n, seconds, wanted = 0, 0.0, 60 * min(1, minutes)
    while wanted <= 60 * minutes:
        started = time.process_time()
        while seconds + time.process_time() - started < wanted:
            n += 1
            step(model, kind, optimizer, next(batches), rate * min(1, n / WARM_UP))
        seconds += time.process_time() - started
        wanted *= 2
        started = time.process_time()
        copied = copy.deepcopy(model)
        of_copy = torch.optim.AdamW(copied.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
        of_copy.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        more = n // 4
        for k in range(more):
            step(copied, kind, of_copy, next(batches), rate * (1 - k / more))
        yield copied.eval(), seconds + time.process_time() - started, n + more


@torch.no_grad()
def perplexity(model: Any, units: Units, text: Text) -> float:
    """That of words of the vocabulary and ends of sentences; see above."""
    windows = []  # units, the first that is predicted, and what is counted
    known = set(text.words)
    for sentence in text.heldout:
        ids, counted = [END], [False]
        for word, of_word in zip(sentence, units(sentence)):
            ids += of_word
            counted += [word in known] * len(of_word)
        ids.append(END)
        counted.append(True)
        for start in range(0, max(1, len(ids) - WINDOW // 2 - 1), WINDOW // 2):
            first = 1 if start == 0 else WINDOW // 2 + 1
            part = slice(start, start + WINDOW + 1)
            windows.append((ids[part], first, counted[part]))
    windows.sort(key=lambda x: len(x[0]))
    total = 0.0
    for k in range(0, len(windows), BATCH):
        batch = windows[k : k + BATCH]
        longest = len(batch[-1][0])
        rows = torch.tensor([x + [END] * (longest - len(x)) for x, *_ in batch])
        wanted = torch.zeros(rows.shape, dtype=torch.bool)
        for row, (x, first, counted) in zip(wanted, batch):
            row[first : len(x)] = torch.tensor(counted[first:], dtype=torch.bool)
        logits = model(input_ids=rows[:, :-1]).logits
        losses = F.cross_entropy(logits.float().transpose(1, 2), rows[:, 1:], reduction="none")
        total += float(losses[wanted[:, 1:]].double().sum())
    return math.exp(total / n_counted(text))


def n_counted(text: Text) -> int:
    """The number of words of the vocabulary and ends of sentences in the held-out text."""
    known = set(text.words)
    return sum(1 + sum(word in known for word in s) for s in text.heldout)


@torch.no_grad()
def vectors(model: Any, units: Units, sentences: Sequence[list[str]]) -> np.ndarray:
    """The mean of a transformer's layers, and of a word's units, shape `(N, D)`."""
    found = []
    for sentence in sentences:
        ids, ends = [END], []
        for of_word in units(sentence):
            ids += of_word
            ends.append(len(ids))
        parts = [ids[k : k + WINDOW] for k in range(0, len(ids), WINDOW)]
        states = (
            model(input_ids=torch.tensor([x]), output_hidden_states=True).hidden_states
            for x in parts
        )
        layers = torch.cat([torch.stack(x).mean(0)[0] for x in states])
        means = [layers[a:b].mean(0) for a, b in zip([1, *ends], ends)]
        found.append(torch.stack(means).numpy())
    return np.concatenate(found)


def probe(parts: Sequence[np.ndarray], treebank: Sequence[Tagged]) -> float:
    """The accuracy of the probe, in percent, from the vectors of the sets of a treebank."""
    train, dev = treebank
    return probe_accuracy(parts[0], train.tags, parts[1], dev.tags)


def halved(treebank: tuple[Tagged, Tagged]) -> list[Tagged]:
    """A treebank with every second sentence of its training set."""
    (sentences, tags), dev = treebank
    starts = np.cumsum([0, *map(len, sentences)])
    kept = range(0, len(sentences), 2)
    of_kept = [tag for k in kept for tag in tags[starts[k] : starts[k + 1]]]
    return [Tagged([sentences[k] for k in kept], of_kept), dev]


def of_transformer(
    kind: str, text: Text, treebank: Sequence[Tagged], arguments: Any
) -> Iterator[tuple[Row, Row, float]]:
    """Settings, metrics and seconds of each copy of a transformer."""
    units = Units(text, kind)
    torch.manual_seed(arguments.seed)
    model = new_model(kind, units.size, arguments.layers, arguments.dim).train()
    sentences = [[k for word in units(s) for k in word] for s in text.train]
    batches = streams(sentences, random.Random(arguments.seed))
    best = math.inf
    for copied, seconds, n in trained(model, kind, batches, arguments.rate, arguments.minutes):
        metrics: Row = {"epochs": n * ROWS * WINDOW / sum(map(len, sentences))}
        found = [vectors(copied, units, part.sentences) for part in treebank]
        metrics["accuracy"] = probe(found, treebank)
        if kind != "masked":
            metrics["perplexity"] = perplexity(copied, units, text)
        names = ("layers", "dim", "rate")
        yield {k: getattr(arguments, k) for k in names} | {"steps": n}, metrics, seconds
        reached = metrics.get("perplexity", -metrics["accuracy"])
        if reached >= best:
            return
        best = reached


def of_elmo(text: Text, treebank: Sequence[Tagged], arguments: Any) -> tuple[Row, Row, float]:
    """Settings, metrics and seconds of a biLM."""
    with TemporaryDirectory() as folder:
        for name in ("train", "heldout"):
            lines = "".join(" ".join(s) + "\n" for s in getattr(text, name))
            Path(folder, f"{name}.txt").write_text(lines, "utf-8")
        changes: Row = {
            "train_data_path": f"{folder}/train.txt",
            "validation_data_path": None,
            "vocabulary.corpus": f"{folder}/train.txt",
            "numpy_seed": arguments.seed,
            "pytorch_seed": arguments.seed,
            "random_seed": arguments.seed,
            "model.precision": "bf16",
            "model.dropout": 0.2 if arguments.epochs > 4 else 0.0,
            "trainer.num_epochs": arguments.epochs,
            "trainer.validation_metric": "-sampled_loss",
        }
        params = Params.from_file(CONFIG, json.dumps(changes))
        started = time.process_time()
        train_model(params, f"{folder}/model")
        seconds = time.process_time() - started
        archive = f"{folder}/model/model.tar.gz"
        model, elmo = LanguageModel.from_archive(archive), Elmo.from_archive(archive)
        total = 0.0
        for scores in model.score(text.heldout, base="e"):
            total -= scores.forward[[*scores.in_vocabulary, True]].sum()
        found = [
            np.concatenate([x.mean(0) for x in elmo.embed(part.sentences, layer="all")])
            for part in treebank
        ]
        metrics = {
            "epochs": arguments.epochs,
            "perplexity": math.exp(total / n_counted(text)),
            "accuracy": probe(found, treebank),
        }
    return {"dim": 512, "layers": 2, "steps": arguments.epochs}, metrics, seconds


def sections(folder: Path, pictures: Path) -> dict[str, str]:
    """
    The sections of the results page by title, if the folder of rows has those of this file. The
    picture is written into the other folder.
    """
    rows = known_rows(folder / FILE.name)
    if not rows:
        return {}
    found, title = curves(rows), "A biLM and transformers, trained on the same small text"
    last = [(SHOWN[kind], n, points[-1]) for (n, kind), points in found.items()]
    lines = [[name, n, *_size(x), x["seconds"] / 60, *_reached(x)] for name, n, x in last]
    heads = ["trained until its best result", "tokens", "layers", "rate", *REACHED]
    save(picture(found), pictures / "from_scratch.svg", title, by_time(rows))
    return {
        "From scratch": f"{table(heads, lines)}\n\n![{title}](results/from_scratch.svg)",
        "From scratch by time": by_time(rows),
    }


def quality(row: Row) -> float:
    """How good a result is: minus its perplexity, or the accuracy of a masked transformer."""
    metrics = row["metrics"]
    return -metrics["perplexity"] if "perplexity" in metrics else metrics["accuracy"]


def curves(rows: Sequence[Row]) -> dict[tuple[int, str], list[Row]]:
    """
    The results of each kind of model on each size of the text, by time until the best one: those of
    the first seed, and of the transformer with the best size and rate.
    """
    found: defaultdict[tuple[int, str], list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda x: (x["settings"]["tokens"], x["seconds"])):
        if row["settings"]["seed"] == 0:
            found[row["settings"]["tokens"], row["settings"]["model"]].append(row)
    for key, own in found.items():
        best = max(own, key=quality)
        alike = [row for row in own if _size(row) == _size(best)]
        found[key] = alike[: alike.index(best) + 1]
    return dict(found)


def picture(found: Mapping[tuple[int, str], Sequence[Row]]) -> Figure:
    """Perplexity and accuracy by time, a panel for each and a line for each of the `curves`."""
    figure = Figure(figsize=(9, 4.5), layout="constrained")
    panels = figure.subplots(1, 2)
    for (n_tokens, kind), points in found.items():
        color = COLORS[list(SHOWN).index(kind) + 1]
        style = "o-" if n_tokens == max(n for n, _ in found) else "s--"
        label = f"{SHOWN[kind]}, {n_tokens / 1e6:.1f} M tokens"
        for panel, metric in zip(panels, ("perplexity", "accuracy")):
            values = [row["metrics"].get(metric, math.nan) for row in points]
            minutes = [row["seconds"] / 60 for row in points]
            panel.plot(minutes, values, style, color=color, markersize=4, label=label)
            panel.set_xscale("log")
            panel.xaxis.set_major_formatter("{x:g}")
            panel.set_xlabel("CPU minutes on one thread")
    panels[0].set_ylabel("perplexity of held-out words")
    panels[0].set_yscale("log")
    panels[0].yaxis.set_major_formatter("{x:g}")
    panels[1].set_ylabel("accuracy of the probe for parts of speech, %")
    figure.legend(*panels[1].get_legend_handles_labels(), ncols=2, loc="outside upper center")
    return figure


def _size(row: Row) -> tuple[str, str]:
    of = row["settings"]
    return f"{of['layers']} x {of['dim']}", f"{of['rate']:g}" if "rate" in of else ""


def _reached(row: Row) -> tuple[object, object]:
    return row["metrics"].get("perplexity", ""), row["metrics"]["accuracy"]


def by_time(rows: Sequence[Row]) -> str:
    """A line for each result, in the order of models and of their times."""
    lines = []
    for kind, name in SHOWN.items():
        own = [row for row in rows if row["settings"]["model"] == kind]
        for row in sorted(own, key=lambda x: (x["settings"]["tokens"], _size(x), x["seconds"])):
            of, minutes = row["settings"], row["seconds"] / 60
            line = [name, of["tokens"], *_size(row), of["seed"], row["metrics"]["epochs"]]
            lines.append([*line, minutes, *_reached(row)])
    return table(["model", "tokens", "layers", "rate", "seed", "epochs", *REACHED], lines)


def main() -> None:
    parser = new_parser(__doc__)
    parser.add_argument("text", type=Path)
    parser.add_argument("treebank", type=Path)
    parser.add_argument("model", choices=["elmo", "words", "pieces", "masked"])
    parser.add_argument("--tokens", type=int)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--dim", type=int, default=128)
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--minutes", type=float, default=120)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=FILE)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    text = read_text(arguments.text, arguments.tokens)
    treebank = halved(read_treebank(arguments.treebank))
    kind = arguments.model
    results: Any = (
        [of_elmo(text, treebank, arguments)]
        if kind == "elmo"
        else of_transformer(kind, text, treebank, arguments)
    )
    for settings, metrics, seconds in results:
        common = {"model": kind, "tokens": sum(map(len, text.train)), "seed": arguments.seed}
        row = {
            "bilm": None,
            "settings": common | settings,
            "metrics": metrics,
            "seconds": round(seconds, 1),
            **ORIGIN,
        }
        save_rows(arguments.results, [row])
        print(json.dumps(row), flush=True)
    print(by_time(read_rows(arguments.results)))


if __name__ == "__main__":
    run("from_scratch", main)
