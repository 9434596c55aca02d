import shutil
from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from elmo_plugin.text.characters import BEGIN, END
from elmo_plugin.text.corpus import EncodedCorpus
from elmo_plugin.text.windows import NOTHING, Epoch, Window
from tests.text.shards import encode_in_shards

Sentence = tuple[int, ...]


def make_corpus(folder: Path, lengths: list[int], shard_tokens: int) -> EncodedCorpus:
    """Encode sentences of these lengths, in which every word is another."""
    number = iter(range(10**6))
    text = "".join(" ".join(f"w{next(number)}" for _ in range(n)) + "\n" for n in lengths)
    (folder / "text").write_text(text)
    shutil.rmtree(folder / "corpus", ignore_errors=True)
    return encode_in_shards([folder / "text"], folder / "corpus", shard_tokens)


def sentences_of(corpus: EncodedCorpus) -> list[Sentence]:
    return [
        tuple(shard.tokens[start:end].tolist())
        for shard in corpus.shards
        for start, end in zip(shard.sentences[:-1], shard.sentences[1:], strict=True)
    ]


def join(windows: list[Window]) -> list[list[tuple[int, int, int, int]]]:
    """Return each row's time steps, one after the other, up to its end."""
    whole = [np.concatenate(parts, axis=1) for parts in zip(*windows, strict=True)]
    parts = [part.tolist() for part in whole]
    rows = [list(zip(*row, strict=True)) for row in zip(*parts, strict=True)]
    for row in rows:
        while row and row[-1][1] == NOTHING:
            row.pop()
    return rows


def split(row: list[tuple[int, int, int, int]]) -> list[Sentence]:
    """Return the sentences of a row by an independent reading of the definition: the forward inputs
    from one <S> to the next. It checks everything else that has to hold for them."""
    bounds = [*(index for index, step in enumerate(row) if step[0] == BEGIN), len(row)]
    assert bounds[0] == 0
    sentences = []
    for start, end in pairwise(bounds):
        forward_in, forward_out, backward_in, backward_out = zip(*row[start:end], strict=True)
        sentence = forward_in[1:]
        assert forward_out == (*sentence, END)
        assert backward_in == (END, *sentence[::-1])
        assert backward_out == (*sentence[::-1], BEGIN)
        sentences.append(sentence)
    return sentences


def test_windows_of_two_sentences(tmp_path: Path) -> None:
    """The sentences 3 4 5 and 6 are in one row, and windows have 4 steps."""
    corpus = make_corpus(tmp_path, [3, 1], 100)
    epoch = Epoch(corpus, num_rows=1, window=4)
    found = [[part.tolist() for part in window] for window in epoch.windows()]
    assert epoch.num_windows == 2
    assert found == [
        [[[0, 3, 4, 5]], [[3, 4, 5, 1]], [[1, 5, 4, 3]], [[5, 4, 3, 0]]],
        [[[0, 6, 0, 0]], [[6, 1, -1, -1]], [[1, 6, 0, 0]], [[6, 0, -1, -1]]],
    ]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None
)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=64),
    shard_tokens=st.integers(1, 100),
    num_rows=st.integers(1, 6),
    window=st.integers(1, 8),
    shuffle=st.booleans(),
)
def test_any_epoch_reads_each_sentence(tmp_path, lengths, shard_tokens, num_rows, window, shuffle):
    """By definition, each sentence is read once, forward and mirrored, as `split` checks. There are
    as many windows as promised and none of them is empty. Reading some rows from some window on
    gives a part of the epoch. Without shuffling, the rows of one shard, one after another, are the
    text."""
    corpus = make_corpus(tmp_path, lengths, shard_tokens)
    epoch = Epoch(corpus, num_rows, window, shuffle, seed=1, epoch=2)
    windows = list(epoch.windows())
    rows = join(windows)
    found = [s for row in rows for s in split(row)]
    assert Counter(found) == Counter(sentences_of(corpus))
    assert found == sentences_of(corpus) or shuffle or len(corpus.shards) > 1
    assert len(windows) == epoch.num_windows
    assert all((part.forward_targets != NOTHING).any() for part in windows)
    first, some = len(windows) // 2, slice(num_rows // 2, num_rows)
    tail = list(epoch.windows(some, first))
    assert len(tail) == len(windows) - first
    for whole, part in zip(windows[first:], tail, strict=True):
        for expected, found in zip(whole, part, strict=True):
            assert np.array_equal(expected[some], found)


@pytest.mark.parametrize("shard_tokens", [10**6, 700])
@pytest.mark.parametrize("shuffle", [True, False])
def test_rows_are_of_nearly_equal_length(tmp_path: Path, shuffle: bool, shard_tokens: int) -> None:
    """Each end of a row is off by at most half a sentence, so two rows differ by at most the steps
    of two sentences, here 2 * 21. That holds for several shards as for one."""
    lengths = np.random.default_rng(0).integers(1, 21, size=600).tolist()
    corpus = make_corpus(tmp_path, lengths, shard_tokens)
    rows = [len(row) for row in join(list(Epoch(corpus, 7, 20, shuffle).windows()))]
    assert max(rows) - min(rows) <= 2 * 21


def test_the_order_follows_from_seed_and_epoch(tmp_path: Path) -> None:
    """The order is the same for the same numbers and another one for any others."""
    corpus = make_corpus(tmp_path, [1] * 40, 15)

    def read(seed: int, epoch: int) -> list[Sentence]:
        (row,) = join(list(Epoch(corpus, 1, 20, True, seed, epoch).windows()))
        return split(row)

    orders = [read(seed, epoch) for seed in range(2) for epoch in range(2)]
    assert read(1, 0) == orders[2]
    assert all(orders[i] != orders[j] for i in range(4) for j in range(i))


def test_shards_are_shuffled_each_in_its_own_order(tmp_path: Path) -> None:
    """Two shards of thirty words each: in some epochs the second comes first, and the sentences of
    the two have different orders within their shard."""
    corpus = make_corpus(tmp_path, [1] * 60, 30)
    place = {sentence: n for n, sentence in enumerate(sentences_of(corpus))}
    assert len(corpus.shards) == 2
    first_shards = set()
    for epoch in range(8):
        (row,) = join(list(Epoch(corpus, 1, 20, True, epoch=epoch).windows()))
        shards = [divmod(place[sentence], 30) for sentence in split(row)]
        first, second = shards[:30], shards[30:]
        assert len({shard for shard, _ in first}) == len({shard for shard, _ in second}) == 1
        assert [n for _, n in first] != [n for _, n in second]
        first_shards.add(first[0][0])
    assert first_shards == {0, 1}


def test_a_sentence_longer_than_all_others_together(tmp_path: Path) -> None:
    """The shards have 2, 400 and 20 tokens. The first gives each row a sentence, the second gives
    one row the long one, and all sentences of the third go to the other row. In the second corpus,
    one row has 16 steps of the first shard, and each has 18 of both."""
    corpus = make_corpus(tmp_path, [1, 1, 400, *[1] * 20], 30)
    rows = [split(row) for row in join(list(Epoch(corpus, 2, 10).windows()))]
    assert sorted([list(map(len, row)) for row in rows]) == [[1] * 21, [1, 400]]
    corpus = make_corpus(tmp_path, [15, 1, 1, 1, 1, 11], 15)
    rows = [split(row) for row in join(list(Epoch(corpus, 2, 10).windows()))]
    assert [list(map(len, row)) for row in rows] == [[15, 1], [1, 1, 1, 11]]
