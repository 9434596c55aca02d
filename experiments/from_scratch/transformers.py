"""Small transformers over words or word pieces."""

import copy
import math
import random
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer
from torch import Tensor
from torch.nn import functional as F
from transformers import BertConfig, BertForMaskedLM, GPT2Config, GPT2LMHeadModel

from elmo_plugin.ops.private_torch import CPU_HAS_BFLOAT16
from experiments.from_scratch.text import Text, n_counted

ROWS, WINDOW = 16, 128
PIECES = 8_000
WARM_UP = 200
BATCH = 32
"""Windows that are measured at once."""
END, UNKNOWN, MASK = 0, 1, 2
SPECIAL = ["</S>", "<UNK>", "<MASK>"]


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
    model: Any, kind: str, batches: Iterator[Tensor], rate: float, minutes: Sequence[float]
) -> Iterator[tuple[Any, float, int]]:
    """The copies whose rate fell to zero, their CPU seconds and their number of steps."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.98), weight_decay=0.01)
    n, seconds = 0, 0.0
    for wanted in minutes:
        started = time.process_time()
        while seconds + time.process_time() - started < 60 * wanted:
            n += 1
            step(model, kind, optimizer, next(batches), rate * min(1, n / WARM_UP))
        seconds += time.process_time() - started
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
