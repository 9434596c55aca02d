import math
import re

import pytest
import torch

from experiments.from_scratch import transformers
from experiments.from_scratch.__main__ import main
from experiments.from_scratch.page import FILE, sections
from experiments.from_scratch.text import Text, read_text
from experiments.from_scratch.transformers import WINDOW, Transformer, Units, perplexity
from experiments.rows import read_rows
from tests.conftest import write_file
from tests.experiments.test_probe import CONLLU

PICTURE = "pictures/from_scratch.svg"
WORDS = ["the", "dog", "stick", "."]
LONG = WORDS * (WINDOW // 2)  # twice as long as a window
TEXT = Text([WORDS] * 3, [["the", "odd", "dog"], ["."], LONG], WORDS)


def test_the_perplexity_of_words() -> None:
    """Expected: the log probabilities of known words and of the end, a sentence at a time."""
    text, units = TEXT._replace(heldout=TEXT.heldout[:2]), Units(TEXT, "words")
    torch.manual_seed(0)
    model = Transformer("words", units.size, 1, 64).eval()
    total, n = 0.0, 0
    for sentence in text.heldout:
        ids = torch.tensor([0, *(k for word in units(sentence) for k in word), 0])
        found = model.softmax.logits(model(ids[None])[0])[0].log_softmax(-1)
        for k, word in enumerate([*sentence, None], start=1):
            if word != "odd":
                total, n = total - found[k - 1, ids[k]].item(), n + 1
    assert n == 5 and perplexity(model, units, text) == pytest.approx(math.exp(total / n))


def test_frequent_word_pieces_have_low_numbers() -> None:
    """As the sampled softmax requires; by counting. BPE itself numbers letters before words."""
    units = Units(TEXT._replace(train=[["the"], ["the", "thx"], ["the", "a"], ["a"]]), "pieces")
    numbers = [units([word])[0] for word in ("the", "a", "thx")]
    assert numbers[0] < numbers[1] < numbers[2][-1:]


@pytest.mark.parametrize("kind", ["words", "pieces"])
def test_each_unit_of_a_long_sentence_counts_once(kind) -> None:
    """By definition: if all units are equally probable, a word costs the logarithm of their number
    for each of its pieces."""
    units = Units(TEXT, kind)
    uniform = Transformer(kind, units.size, 1, 64).eval()
    torch.nn.init.zeros_(uniform.softmax.weight)
    known = [word for sentence in TEXT.heldout for word in sentence if word != "odd"]
    n_units = sum(map(len, units(known))) + len(TEXT.heldout)
    expected = math.log(units.size) * n_units / (len(known) + len(TEXT.heldout))
    assert math.log(perplexity(uniform, units, TEXT)) == pytest.approx(expected)


def test_rows_and_table(tmp_path, monkeypatch) -> None:
    """Each model that is trained for an instant has a row and a line, and the better one of two
    rates is among the best results. With initial weights the probe has half of the tags right,
    because every second sentence of its training set is left out. A biLM after a few steps takes
    the five words, <UNK> and the two boundaries to be equally probable."""
    with pytest.raises(ValueError, match=f"^{tmp_path}: expected text"):
        read_text(tmp_path, None)
    write_file(tmp_path / "text" / "a.txt", "the dog threw the stick .\n" * 40)
    for split in ("train", "dev"):
        write_file(tmp_path / "ewt" / f"en_ewt-ud-{split}.conllu", CONLLU * 4)
    file = tmp_path / FILE.name
    monkeypatch.setattr(transformers, "WARM_UP", 1)
    short, shared = "--layers 1 --minutes 0.01", f"--dim 64 --results {file}"
    kinds = [f"{x} {short}" for x in ("words --rate 0.01", "words --rate 0", "pieces", "masked")]
    for kind in (*kinds, "elmo"):
        monkeypatch.setattr("sys.argv", f"- {tmp_path}/text {tmp_path}/ewt {kind} {shared}".split())
        main()
    trained, untrained, *others = read_rows(file)
    assert trained["metrics"]["perplexity"] < 3 < untrained["metrics"]["perplexity"]
    assert untrained["metrics"]["accuracy"] == 50 and len(others) == 3
    assert others[-1]["metrics"]["perplexity"] == pytest.approx(8, rel=0.1)
    best, by_time = sections(tmp_path, tmp_path / "pictures").values()
    assert len(by_time.splitlines()) == 2 + 5 and "biLM" in (tmp_path / PICTURE).read_text()
    assert len(re.findall("^[|] [a-z]", best, re.MULTILINE)) == 1 + 4
    assert f"{trained['metrics']['perplexity']:.2f} (1)" in best
