"""`ElmoEmbedder` as AllenNLP 0.9 had it. The oracle is the module on which it was built there,
`_ElmoBiLm`, which AllenNLP 2.10.1 still has."""

import io
import json
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from allennlp.commands.subcommand import Subcommand
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

import elmo_plugin.plugin  # noqa: F401
from elmo_plugin import ElmoEmbedder
from elmo_plugin.checks import InputError
from tests.compare import assert_close
from tests.conftest import BiLMFiles

BATCHES = [
    [["The", "cat", "sat", "."], ["A", "naïve", "dog"], ["🙂"]],
    [["Nobody"], [], ["incomprehensibilities", "of", "it"]],
    [["The", "cat", "sat", "."]],
    [["It", "ran"], ["The", "cat", "sat", "."], ["So", "."], ["did"]],
]


class Stock:
    """AllenNLP's biLM, which carries its state from batch to batch."""

    def __init__(self, files: BiLMFiles) -> None:
        self.bilm = _ElmoBiLm(*files).eval()

    @torch.no_grad()
    def __call__(self, batch: list[list[str]]) -> tuple[torch.Tensor, torch.Tensor]:
        found = self.bilm(batch_to_ids(batch))
        parts = [remove_sentence_boundaries(x, found["mask"]) for x in found["activations"]]
        return torch.stack([x for x, _ in parts], dim=1), parts[0][1]


def test_batches(bilm_files: BiLMFiles) -> None:
    """Each batch continues from those before it, also with an empty sentence in it, and with fewer
    rows or more."""
    stock, ours = Stock(bilm_files), ElmoEmbedder(*bilm_files)
    for number, batch in enumerate(BATCHES):
        expected, mask = stock(batch)
        if number % 2:
            for row, vectors in enumerate(ours.embed_batch(batch)):
                assert vectors.dtype == np.float32
                assert_close(vectors, expected[row, :, : len(batch[row])], what="row", atol=1e-5)
        else:
            layers, found_mask = ours.batch_to_embeddings(batch)
            assert_close(layers, expected, what=f"batch {number}", atol=1e-5)
            assert found_mask.dtype == torch.int64 and torch.equal(found_mask.bool(), mask.bool())


def test_one_sentence(bilm_files: BiLMFiles) -> None:
    """The first sentence is that of a batch, and the same one again has other vectors, as 0.9's
    documentation says. An empty sentence alone has no vectors and leaves the state as it is."""
    stock, ours = Stock(bilm_files), ElmoEmbedder(*bilm_files)
    sentence = BATCHES[0][0]
    found = []
    for _ in range(2):
        found.append(ours.embed_sentence(sentence))
        assert ours.embed_sentence([]).shape == (3, 0, 16)
        assert_close(found[-1], stock([sentence])[0][0], what="layers", atol=1e-5)
    assert found[0].shape == (3, 4, 16)
    assert np.array_equal(found[0][0], found[1][0])  # words have no state
    assert np.abs(found[0][1:] - found[1][1:]).max() > 1e-3


def test_sentences_are_read_when_they_are_asked_for(bilm_files: BiLMFiles) -> None:
    """The expected vectors are those of `embed_batch` for batches of two. A batch is read from the
    iterator at a time, so that it may be endless."""
    sentences = [sentence for batch in BATCHES for sentence in batch]
    left = iter(sentences)
    other = ElmoEmbedder(*bilm_files)
    expected = [x for k in (0, 2, 4) for x in other.embed_batch(sentences[k : k + 2])]
    generator = ElmoEmbedder(*bilm_files).embed_sentences(left, batch_size=2)
    for vectors in expected:
        assert np.array_equal(next(generator), vectors)
    assert list(left) == sentences[6:]


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_a_file(bilm_files: BiLMFiles, tmp_path: Path, output_format: str) -> None:
    """The keys are line numbers, and those of the sentences are in a JSON object. The vectors are
    those of `embed_sentences` in the same batches, reduced by NumPy."""
    sentences = ["The cat sat .", "Nobody", "The cat sat .", "So did 🙂"]
    file = io.StringIO("".join(f" {sentence} \n" for sentence in sentences))
    ElmoEmbedder(*bilm_files).embed_file(file, tmp_path / "out", output_format, batch_size=3)
    split = [sentence.split() for sentence in sentences]
    expected = ElmoEmbedder(*bilm_files).embed_sentences(split, 3)
    reduced = {"all": lambda x: x, "top": lambda x: x[-1], "average": lambda x: x.mean(axis=0)}
    with h5py.File(tmp_path / "out") as out:
        assert set(out) == {"0", "1", "2", "3", "sentence_to_index"}
        index = json.loads(out["sentence_to_index"][0])
        assert index == {"The cat sat .": "2", "Nobody": "1", "So did 🙂": "3"}
        for key, layers in enumerate(expected):
            vectors = out[str(key)][()]
            assert vectors.dtype == np.float32
            assert_close(vectors, reduced[output_format](layers), what=str(key), atol=1e-6)
    assert file.closed


def test_the_keys_of_a_file(bilm_files: BiLMFiles, tmp_path: Path) -> None:
    """As 0.9's `--use-sentence-keys` and `--forget-sentences`."""
    embedder = ElmoEmbedder(*bilm_files)
    embedder.embed_file(io.StringIO("A dog\nIt"), tmp_path / "keys", use_sentence_keys=True)
    embedder.embed_file(io.StringIO("A dog\nIt"), tmp_path / "numbers", forget_sentences=True)
    with h5py.File(tmp_path / "keys") as keys, h5py.File(tmp_path / "numbers") as numbers:
        assert set(keys) == {"A dog", "It"} and set(numbers) == {"0", "1"}
    embedder.embed_sentence(["It"])
    encoder = embedder.elmo_bilm._frozen.packed.token_encoder
    assert not encoder.same_bits  # which would make later calls slower


def test_what_is_refused(bilm_files: BiLMFiles, tmp_path: Path) -> None:
    """An empty line was an error in 0.9 too. A string would be read as letters or as a word."""
    embedder = ElmoEmbedder(*bilm_files)
    with pytest.raises(InputError, match=r"input_file, line 2: .* found an empty line"):
        embedder.embed_file(io.StringIO("A\n \nB"), tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(InputError, match=r"output_format: expected one of .* found 'mix'"):
        embedder.embed_file(io.StringIO("A"), tmp_path / "out", "mix")
    (tmp_path / "old").touch()
    with pytest.raises(InputError, match="old: expected"):
        embedder.embed_file(io.StringIO("A"), tmp_path / "old")
    assert not (tmp_path / ".old.parts").exists()
    with pytest.raises(ValueError, match=r"sentence 0: expected a list of tokens, found 'MKV'"):
        embedder.embed_batch(["MKV", "AC"])
    with pytest.raises(InputError, match=r"cuda_device: expected -1 for the CPU"):
        ElmoEmbedder(*bilm_files, cuda_device=99)
    with pytest.raises(InputError, match=r"batch_size"):
        next(embedder.embed_sentences([["A"]], 0))


def test_the_module_of_0_9() -> None:
    """By hand: the default model has three layers of 256, and the command `elmo` stays ours."""
    from allennlp.commands import elmo

    assert elmo.ElmoEmbedder is ElmoEmbedder
    embedder = ElmoEmbedder(elmo.DEFAULT_OPTIONS_FILE, elmo.DEFAULT_WEIGHT_FILE)
    assert embedder.embed_sentence(["A", "dog"]).shape == (3, 2, 256)
    assert Subcommand.by_name("elmo").__module__ == "elmo_plugin.plugin.commands"
