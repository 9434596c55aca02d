"""`Elmo.warm_up` from a text."""

import numpy as np
import pytest
import torch

from elmo_plugin import Elmo
from elmo_plugin.options import BiLMOptions
from tests import oracle
from tests.compare import assert_close
from tests.conftest import BLOCKS
from tests.random_bilm import arrays_of, oracle_state, random_bilm

TEXT = ["He threw the stick .", "A", "The dog ran to it", "It sees a cat .", "So", "did he ."]
SENTENCES = [sentence.split() for sentence in TEXT]


@pytest.mark.parametrize("n_rows", [1, 4, 8])
@pytest.mark.parametrize("is_trained", [False, True])
def test_the_mean_of_the_states_after_sentences(tmp_path, n_rows, is_trained):
    """The expected states are those of the oracle in NumPy, which reads the sentences one after
    another in each row, from zeros. The sentences then start from their mean, before and after the
    model is written to files, and vectors of an earlier state are not reused. A blank line is no
    sentence."""
    bilm, options = random_bilm()
    arrays = arrays_of(bilm, tmp_path)
    states = [oracle.zero_state(options)] * n_rows
    after = []
    for number, sentence in enumerate(SENTENCES):
        row = number % n_rows
        _, states[row] = oracle.sentence(arrays, options, ["<S>", *sentence, "</S>"], states[row])
        after.append(states[row])
    mean = {
        key: tuple(np.mean([state[key][part] for state in after], axis=0) for part in (0, 1))
        for key in after[0]
    }

    elmo = Elmo(bilm, requires_grad=is_trained)
    before = elmo.embed(SENTENCES, "top")[0]
    elmo.warm_up([[], *SENTENCES], batch_size=n_rows)
    for key, (c, h) in oracle_state(bilm.warm_state(1), 0).items():
        assert_close(c, mean[key][0], what=f"c {key}", atol=1e-6)
        assert_close(h, mean[key][1], what=f"h {key}", atol=1e-6)
    layers, _ = oracle.sentence(arrays, options, ["<S>", *SENTENCES[0], "</S>"], mean)
    found = elmo.embed(SENTENCES, "top")[0]
    assert_close(found, layers[-1][1:-1], what="top", atol=1e-5)
    assert np.abs(found - before).max() > 1e-3
    elmo.save(tmp_path / "saved")
    saved = Elmo.from_archive(tmp_path / "saved").embed(SENTENCES, "top")[0]
    assert_close(saved, found, what="saved", atol=1e-6)


def test_the_forms_of_a_text() -> None:
    """A single sentence is refused, because proteins in a list of strings are one sentence whose
    tokens they are; no sentence has no mean. What is refused leaves the state as it was."""
    elmo = Elmo(random_bilm().bilm)
    elmo.warm_up(SENTENCES[:1])
    before = elmo.bilm.warm_state.output.clone()
    for text, n_rows, message in (
        (TEXT[0], 4, "several sentences, .* found one, whose"),
        (SENTENCES[0], 4, "several sentences, .* found one, whose"),
        ([], 4, "several sentences, .* found none"),
        ([["A"], 3], 4, "a list of tokens"),
        (SENTENCES, 0, "a whole number from 1"),
    ):
        with pytest.raises(ValueError, match=f"expected {message}"):
            elmo.warm_up(text, batch_size=n_rows)
    assert torch.equal(before, elmo.bilm.warm_state.output)
    with pytest.raises(RuntimeError, match="never loaded"):
        Elmo.from_options(BiLMOptions.from_dict(BLOCKS, source="test")).warm_up(SENTENCES)
