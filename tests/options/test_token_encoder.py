"""These tests add a token encoder that the package does not have: a module, its options and its
arrays."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from elmo_plugin.checks import InputError, check_count
from elmo_plugin.formats.bilm_tf import arrays
from elmo_plugin.formats.bilm_tf.arrays import Array
from elmo_plugin.formats.bilm_tf.options_file import read_options, write_options
from elmo_plugin.formats.bilm_tf.weight_file import load_bilm, write_weights
from elmo_plugin.modules import BiLM
from elmo_plugin.modules.token_encoder import TokenEncoder
from elmo_plugin.options import TOKEN_ENCODERS, BiLMOptions, TokenEncoderOptions, build_bilm
from elmo_plugin.options.blocks import read_block
from elmo_plugin.plugin.models.export import refused_by_allennlp
from tests.random_bilm import LSTM


class BagOfLetters(TokenEncoder):
    """The sum of the vectors of a word's letters."""

    def __init__(self, n_ids: int, output_dim: int) -> None:
        super().__init__(n_ids=n_ids, output_dim=output_dim)
        self.letters = nn.Embedding(n_ids, output_dim, padding_idx=0)

    def forward(self, words: Tensor) -> Tensor:
        return self.letters(words).sum(dim=1)


@dataclass(frozen=True)
class BagOptions(TokenEncoderOptions):
    key: ClassVar[str] = "bag"
    module: ClassVar[type[TokenEncoder]] = BagOfLetters

    n_letters: int
    length: int = 4

    def __post_init__(self) -> None:
        check_count("bag.n_letters", self.n_letters, least=2)

    @classmethod
    def from_json(cls, value: Any) -> "BagOptions":
        return read_block(cls, value, cls.key)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def of(cls, bilm: BiLM) -> "BagOptions":
        return cls(bilm.n_ids - 1, *bilm.id_shape)

    def build(self, projection_dim: int) -> BagOfLetters:
        return BagOfLetters(self.n_letters + 1, projection_dim)

    def boundaries(self) -> Tensor:
        return torch.eye(2, self.length, dtype=torch.long)

    def n_parameters(self, projection_dim: int) -> int:
        return (self.n_letters + 1) * projection_dim


def bag_arrays(options: BagOptions, size: int):
    letters = ("token_encoder.letters.weight",)
    yield Array("bag/letters", (options.n_letters, size), letters, lambda x: x[1:])


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TOKEN_ENCODERS, "bag", BagOptions)
    monkeypatch.setitem(arrays.TOKEN_ENCODER_ARRAYS, BagOptions, bag_arrays)


def test_a_new_token_encoder_is_built_written_and_read(tmp_path):
    """The options and the weights are the same after they were written and read. The vectors of the
    layer below the LSTMs are computed by hand."""
    options = BiLMOptions.from_dict({"lstm": LSTM, "bag": {"n_letters": 6}}, source="test")
    bilm = build_bilm(options)
    assert options.n_parameters == sum(parameter.numel() for parameter in bilm.parameters())
    assert options.token_encoder.id_shape == bilm.id_shape == (4,)
    assert options.token_encoder.reads_characters
    assert "char_cnn, the only token encoder that it knows" in refused_by_allennlp(options)
    write_options(options, tmp_path / "options.json")
    write_weights(bilm, tmp_path / "weights.hdf5")
    assert read_options(tmp_path / "options.json") == options
    again = load_bilm(tmp_path / "options.json", tmp_path / "weights.hdf5")
    for name, tensor in bilm.named_parameters():
        assert torch.equal(tensor, again.get_parameter(name)), name
    found = again.sentences(torch.tensor([[[3, 5, 0, 0]]]), again.bilstm.zero_state(1)).layers[0]
    letters = bilm.token_encoder.letters.weight
    torch.testing.assert_close(found[0, 1], (letters[3] + letters[5]).repeat(2))


def test_its_options_are_checked():
    """The message names the file, the block and the key."""
    with pytest.raises(InputError, match=r"test: bag\.n_letters: expected .* found 1$"):
        BiLMOptions.from_dict({"lstm": LSTM, "bag": {"n_letters": 1}}, source="test")
