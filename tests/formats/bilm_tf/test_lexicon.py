"""What a biLM looks up, words and code points, in files and archives; and a vocabulary with it."""

import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.models import Model

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.formats.bilm_tf.folder import write_model_files
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.modules import SampledSoftmax
from tests.conftest import WORDS, write_file
from tests.formats.same import assert_same
from tests.formats.test_elmoformanylangs import write_model
from tests.formats.test_fill import rewrite, set_size, with_number
from tests.plugin.models.test_words import SIZE, words_model
from tests.random_bilm import LSTM


def write_words(folder: Path, tied: bool = False) -> Path:
    """Our files of a language model that reads words from a table."""
    model = words_model(tied).float()
    write_model_files(folder, model.bilm, softmax=model.softmax, words=WORDS)
    return folder


def as_bilm_tf(folder: Path) -> Path:
    """Leave out what bilm-tf does not write, and put the special words elsewhere."""
    with h5py.File(folder / "weights.hdf5", "a") as file:
        del file["lexicon"], file["warm_state"], file.attrs["options.json"]
    (folder / "vocabulary.txt").write_text("\n".join([*WORDS[3:], *WORDS[:3]]))
    return folder


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("marks", with_number(0, 18), "marks below 18"),
        ("marks", with_number(0, -1), "marks below 18"),
        ("marks", with_number(0, 1.5), "whole numbers"),
        ("code_points", with_number(8, 0x110000), "distinct code points"),
        ("code_points", lambda x: np.full_like(x, 65), "distinct code points"),
        ("code_points", lambda x: x.clip(max=60_000).astype("f2"), "whole .* float16"),
        ("words", with_number(0, 300), "whole numbers of .*uint8"),
        ("words", lambda x: np.where(x == ord("g"), 255, x), "UTF-8"),
        ("words", np.zeros_like, "9 words, found 0"),
    ],
)
def test_another_lexicon(tmp_path, name, change, message):
    """By hand: numbers that are none of a lexicon would be those of other words."""
    found = find_bilm(write_model(tmp_path / "model"))
    write_model_files(tmp_path / "files", found.bilm)
    file = tmp_path / "files" / "weights.hdf5"
    rewrite(file, lambda x: x.update({f"lexicon/{name}": change(x[f"lexicon/{name}"])}))
    with pytest.raises(InputError, match=f"^{file}: .*expected .*{message}"):
        find_bilm(tmp_path / "files")


@pytest.mark.parametrize("words", [[*WORDS[:3], WORDS[4], WORDS[3], *WORDS[5:]], WORDS[2::-1]])
@pytest.mark.parametrize("tied", [True, False])
def test_the_vocabulary_of_another_model(tmp_path: Path, tied: bool, words: list[str]) -> None:
    """By hand: two words have changed places, in a vocabulary of the same size. Either the table or
    the softmax would have them wrong."""
    folder = write_words(tmp_path / "files", tied)
    words = [*words, *WORDS[len(words) :]]
    (folder / "vocabulary.txt").write_text("\n".join(words))
    names = [folder / name for name in ("options.json", "weights.hdf5", "vocabulary.txt")]
    for named in ([folder], names):
        with pytest.raises(InputError, match=rf"^{names[2]}: expected the words of the table in"):
            find_bilm(*named, with_softmax=True)


def test_a_vocabulary_of_the_softmax_alone(tmp_path: Path) -> None:
    """By definition: a biLM that reads characters and words has a table of its own, whose rows are
    not those of the softmax. The expected weights are those that were written."""
    bilm = find_bilm(write_model(tmp_path / "model")).bilm
    dim = bilm.options.lstm.projection_dim
    softmax = SampledSoftmax(n_words=len(WORDS), dim=dim, n_negative_samples=None)
    write_model_files(tmp_path / "files", bilm, softmax=softmax, words=WORDS)
    for words in (WORDS, [*WORDS[3:], *WORDS[:3]]):
        (tmp_path / "files" / "vocabulary.txt").write_text("\n".join(words))
        found = find_bilm(tmp_path / "files", with_softmax=True)
        assert found.words == WORDS
        assert_same(found.bilm, bilm)


def test_a_weight_file_without_the_table(tmp_path: Path) -> None:
    """By hand: the error names the array that is missing, and not the vocabulary; and a small file
    that says that its words have two gigabytes takes no memory."""
    folder = as_bilm_tf(write_words(tmp_path / "bilm-tf"))
    rewrite(folder / "weights.hdf5", lambda arrays: arrays.pop("embedding"))
    with pytest.raises(InputError, match=r"weights\.hdf5: embedding: expected an array"):
        find_bilm(folder)
    folder = write_words(tmp_path / "files")
    rewrite(folder / "weights.hdf5", lambda _: None)
    set_size(folder / "options.json", "n_bytes", 2**31 - 1)
    with pytest.raises(InputError, match=r"lexicon/words: expected the shape \(2147483647,\)"):
        find_bilm(folder)


@pytest.mark.parametrize("change", ["vocabulary", "text", "zeros", "softmax"])
def test_an_archive_with_two_lists_of_words(tmp_path: Path, change: str) -> None:
    """By hand: the table and the softmax must have the same words, and a text has to be words. Tied
    weights must be the same too."""
    tied = change == "softmax"
    model = words_model(tied).float()
    model.vocab.save_to_files(str(tmp_path / "run" / "vocabulary"))
    state = model.state_dict()
    if change == "vocabulary":
        words = [*WORDS[:3], WORDS[4], WORDS[3], *WORDS[5:]]
        (tmp_path / "run" / "vocabulary" / "words.txt").write_text("\n".join(words))
    elif change == "text":
        state["bilm.token_encoder.words.text"][:5] = ord("\n")
    elif change == "zeros":
        state["bilm.token_encoder.words.text"].zero_()
    else:
        state["softmax.weight"] = state["softmax.weight"] + 1
    torch.save(state, tmp_path / "run" / "best.th")
    block = {"type": "bilm", "lstm": LSTM, "words": {"dim": SIZE, "tied": tied}}
    config = {"vocabulary": {"type": "bilm"}, "model": {**block, "n_negative_samples": None}}
    (tmp_path / "run" / "config.json").write_text(json.dumps(config))
    message = "softmax.weight: expected" if tied else ".*expected the (words|text) of"
    with pytest.raises(InputError, match=f"^{tmp_path}/run: {message}"):
        find_bilm(tmp_path / "run")
    if change == "vocabulary":
        with pytest.raises(InputError, match=rf"^vocabulary/words\.txt: {message}"):
            Model.load(Params.from_file(tmp_path / "run" / "config.json"), str(tmp_path / "run"))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("default", [torch.float64, torch.device("meta")])
def test_another_default(tmp_path: Path, tied: bool, default: Any) -> None:
    """The expected vectors are those under PyTorch's own defaults."""
    folder = as_bilm_tf(write_words(tmp_path / "files", tied))
    is_type = isinstance(default, torch.dtype)
    expected = Elmo.from_archive(folder).embed([WORDS], layer="all")[0]
    set_default = torch.set_default_dtype if is_type else torch.set_default_device
    try:
        set_default(default)
        elmo = Elmo.from_archive(folder)
        found = find_bilm(folder, with_softmax=True)
    finally:
        set_default(torch.float32 if is_type else None)
    assert found.softmax is not None and found.softmax.bias.device.type == "cpu"
    np.testing.assert_allclose(elmo.float().embed([WORDS], layer="all")[0], expected, atol=1e-6)


def test_a_saved_model_has_its_words(tmp_path: Path) -> None:
    """By hand: bilm-tf needs them next to a table, and a vocabulary of another model, which was in
    the folder, would be refused."""
    elmo = Elmo.from_archive(write_words(tmp_path / "files"))
    write_file(tmp_path / "saved" / "vocabulary.txt", "of\nanother\nmodel\n")
    elmo.save(tmp_path / "saved")
    assert (tmp_path / "saved" / "vocabulary.txt").read_text().split("\n")[:-1] == WORDS
    assert_same(Elmo.from_archive(tmp_path / "saved"), elmo)


@pytest.mark.parametrize("kind", ["tied", "apart", "code points"])
def test_float16(tmp_path: Path, kind: str) -> None:
    """The expected weights are PyTorch's rounding. Words, code points and the LSTMs' biases are as
    they were."""
    if kind == "code points":
        source = find_bilm(write_model(tmp_path / "files"))
    else:
        source = find_bilm(write_words(tmp_path / "files", kind == "tied"), with_softmax=True)
    softmax, words = source.softmax, source.words
    files = tmp_path / "rounded"
    write_model_files(files, source.bilm, softmax=softmax, words=words, dtype=torch.float16)
    found = find_bilm(files, with_softmax=True)
    assert found.words == words and found.options == source.options
    for one, other in ((found.bilm, source.bilm), (found.softmax, softmax)):
        for name, tensor in {} if other is None else other.state_dict().items():
            is_kept = not tensor.is_floating_point() or name.startswith("bilstm")
            expected = tensor if is_kept and "weight" not in name else tensor.half().float()
            assert torch.equal(one.state_dict()[name], expected.to(tensor.dtype)), name
