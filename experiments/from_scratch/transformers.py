"""Small transformers over words or word pieces."""

import copy
import math
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from tokenizers import ByteLevelBPETokenizer
from torch import Tensor, nn
from transformers import BertConfig, BertModel, GPT2Config, GPT2Model
from transformers.models.bert.modeling_bert import BertPredictionHeadTransform

from elmo_plugin.modules.sampled_softmax import IGNORE, SampledSoftmax
from elmo_plugin.ops.private_torch import CPU_HAS_BFLOAT16
from experiments.from_scratch.text import Text, n_counted

ROWS, WINDOW = 16, 128
PIECES = 8_000
NEGATIVE_SAMPLES = 1024
"""Those of `training_configs/bilm.jsonnet`."""
WARM_UP = 200
BATCH = 32
"""Windows that are measured at once."""
END, UNKNOWN, MASK = 0, 1, 2
SPECIAL = ["</S>", "<UNK>", "<MASK>"]


class Units:
    """The units of a transformer, words or word pieces, numbered by descending frequency."""

    def __init__(self, text: Text, kind: str) -> None:
        self._pieces = None
        ordered: Sequence[Any] = text.words
        if kind != "words":
            self._pieces = ByteLevelBPETokenizer(add_prefix_space=True)
            self._pieces.train_from_iterator(map(" ".join, text.train), PIECES, 2, False, SPECIAL)
            every = range(len(SPECIAL), self._pieces.get_vocab_size())
            counts = Counter(
                k for s in text.train for x in self._pieces.encode_batch(s) for k in x.ids
            )
            ordered = sorted(every, key=counts.__getitem__, reverse=True)
        self._ids = {unit: k for k, unit in enumerate(ordered, start=len(SPECIAL))}
        self.size = len(SPECIAL) + len(ordered)

    def __call__(self, sentence: Sequence[str]) -> list[list[int]]:
        """The units of each word of a sentence."""
        if self._pieces is None:
            return [[self._ids.get(word, UNKNOWN)] for word in sentence]
        return [[self._ids[k] for k in x.ids] for x in self._pieces.encode_batch(list(sentence))]


class Transformer(nn.Module):
    """
    The layers of GPT-2, or of BERT for a masked transformer, with random weights, and the biLM's
    softmax, whose weight is that of the embeddings.
    """

    def __init__(self, kind: str, size: int, n_layers: int, dim: int, dropout: float = 0.1) -> None:
        super().__init__()
        self.is_masked, n_heads = kind == "masked", dim // 64
        if self.is_masked:
            of_bert = BertConfig(size, dim, n_layers, n_heads, 4 * dim, type_vocab_size=1)
            of_bert.max_position_embeddings, of_bert.pad_token_id = WINDOW, None
            of_bert.hidden_dropout_prob = of_bert.attention_probs_dropout_prob = dropout
            self.layers: Any = BertModel(of_bert, add_pooling_layer=False)
            self.last: nn.Module = BertPredictionHeadTransform(of_bert)
        else:
            of_gpt = GPT2Config(size, WINDOW, dim, n_layers, n_heads)
            of_gpt.embd_pdrop = of_gpt.resid_pdrop = of_gpt.attn_pdrop = dropout
            of_gpt.activation_function = "gelu_pytorch_tanh"  # GPT-2's, in one operation
            self.layers = GPT2Model(of_gpt)
            self.last = nn.Identity()
        self.softmax = SampledSoftmax(n_words=size, dim=dim, n_negative_samples=NEGATIVE_SAMPLES)
        self.softmax.weight = self.layers.get_input_embeddings().weight
        self.softmax.precision = torch.bfloat16 if CPU_HAS_BFLOAT16 else None

    def forward(self, ids: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        """The vectors for the softmax, shape `(R, n, D)`, and those of each layer."""
        found = self.layers(ids, output_hidden_states=True)
        return self.last(found.last_hidden_state), found.hidden_states


def streams(sentences: Sequence[list[int]], draw: random.Random) -> Iterator[Tensor]:
    """Batches of rows, shape `(ROWS, WINDOW + 1)`, of sentences that are shuffled in each epoch."""
    order, kept, n = list(sentences), [], ROWS * (WINDOW + 1)
    while True:
        draw.shuffle(order)
        for sentence in order:
            kept += [END, *sentence]
            while len(kept) >= n:
                yield torch.tensor(kept[:n]).view(ROWS, -1)
                kept = kept[n:]


def adam(model: Transformer) -> torch.optim.Optimizer:
    options: Any = {"betas": (0.9, 0.98), "weight_decay": 0.01, "fused": True}
    return torch.optim.AdamW(model.parameters(), **options)


def step(model: Transformer, optimizer: Any, rows: Tensor, rate: float) -> None:
    """A step of training on rows of units."""
    ids, targets = rows[:, :-1], rows[:, 1:]
    if model.is_masked:
        # BERT's: of the chosen units 80 % are masked, 10 % replaced and 10 % left.
        chosen, how = torch.rand(ids.shape) < 0.15, torch.rand(ids.shape)
        targets = ids.masked_fill(~chosen, IGNORE)
        others = torch.randint(len(SPECIAL), model.softmax.n_words, ids.shape)
        ids = torch.where(chosen & (how < 0.1), others, ids)
        ids = ids.masked_fill(chosen & (how >= 0.2), MASK)
    with torch.autocast("cpu", torch.bfloat16, enabled=CPU_HAS_BFLOAT16):
        hidden, _ = model(ids)
    loss = model.softmax(hidden.float(), targets) / (targets != IGNORE).sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.step()
    optimizer.zero_grad()


def trained(
    model: Transformer, batches: Iterator[Tensor], rate: float, minutes: Sequence[float]
) -> Iterator[tuple[Transformer, float, int]]:
    """The copies whose rate fell to zero, their CPU seconds and their number of steps."""
    optimizer, n, seconds = adam(model), 0, 0.0
    for wanted in minutes:
        started = time.process_time()
        while seconds + time.process_time() - started < 60 * wanted:
            n += 1
            step(model, optimizer, next(batches), rate * min(1, n / WARM_UP))
        seconds += time.process_time() - started
        started = time.process_time()
        copied = copy.deepcopy(model)
        of_copy = adam(copied)
        of_copy.load_state_dict(copy.deepcopy(optimizer.state_dict()))
        more = n // 4
        for k in range(more):
            step(copied, of_copy, next(batches), rate * (1 - k / more))
        yield copied.eval(), seconds + time.process_time() - started, n + more


@torch.no_grad()
def perplexity(model: Transformer, units: Units, text: Text) -> float:
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
        targets = torch.full(rows.shape, IGNORE)
        for row, ids, (x, first, counted) in zip(targets, rows, batch):
            part = slice(first, len(x))
            row[part] = ids[part].where(torch.tensor(counted[first:]), IGNORE)
        hidden, _ = model(rows[:, :-1])
        total -= float(model.softmax.log_probabilities(hidden, targets[:, 1:]).double().sum())
    return math.exp(total / n_counted(text))


@torch.no_grad()
def vectors(model: Transformer, units: Units, sentences: Sequence[list[str]]) -> np.ndarray:
    """The mean of a transformer's layers, and of a word's units, shape `(N, D)`."""
    found = []
    for sentence in sentences:
        ids, ends = [END], []
        for of_word in units(sentence):
            ids += of_word
            ends.append(len(ids))
        parts = [ids[k : k + WINDOW] for k in range(0, len(ids), WINDOW)]
        layers = torch.cat([torch.stack(model(torch.tensor([x]))[1]).mean(0)[0] for x in parts])
        means = [layers[a:b].mean(0) for a, b in zip([1, *ends], ends)]
        found.append(torch.stack(means).numpy())
    return np.concatenate(found)
