from collections.abc import Callable
from functools import partial

import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.modules.token_embedders import ElmoTokenEmbedder as StockEmbedder
from allennlp.modules.token_embedders import TokenEmbedder
from allennlp.training.optimizers import Optimizer

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.modules import BiLM
from elmo_plugin.text.characters import words_to_characters
from tests.formats.tasks import load, model_of, train

SENTENCES = [
    "He threw the stick to the dog .".split(),
    "The dog ?".split(),
    ["incomprehensibilities", "naïve", "🙂"],
    "Stick to it , dog .".split(),
    ["A"],
]


def embedder(**params) -> TokenEmbedder:
    return TokenEmbedder.from_params(Params({"type": "elmo", "dropout": 0.0, **params})).eval()


@pytest.fixture
def make(bilm_files) -> Callable[..., TokenEmbedder]:
    """Build the embedder of these files."""
    return partial(embedder, **bilm_files._asdict())


@pytest.mark.parametrize("do_layer_norm", [False, True])
def test_carry_is_stock_elmo_from_batch_to_batch(bilm_files, make, do_layer_norm):
    """The oracle is AllenNLP's own embedder, through batches that shrink and grow, so that rows
    appear, stay untouched and appear again."""
    stock = StockEmbedder(*bilm_files, do_layer_norm=do_layer_norm, dropout=0.0).eval()
    ours = make(do_layer_norm=do_layer_norm, initial_state="carry")
    for rows in ([0, 1, 2], [3], [1, 4], [0, 1, 2, 3, 4], [2, 0]):
        characters = batch_to_ids([SENTENCES[row] for row in rows])
        torch.testing.assert_close(ours(characters), stock(characters), atol=1e-5, rtol=0)


def test_boundaries_are_stock_elmo(bilm_files):
    """The oracle is AllenNLP's `Elmo`. tests/elmo/test_allennlp_weights.py compares several mixes
    with it."""
    stock = StockElmo(*bilm_files, 1, dropout=0.0, keep_sentence_boundaries=True).eval()
    options = {"keep_sentence_boundaries": True, "initial_state": "carry"}
    ours, characters = Elmo.from_files(*bilm_files, **options).eval(), batch_to_ids(SENTENCES)
    torch.testing.assert_close(ours(characters), stock(characters), atol=1e-5, rtol=0)


def test_lists_of_sentences(make):
    """The expected vectors are those of each list's sentences by themselves. AllenNLP pads lists
    with empty sentences."""
    ours = make(num_output_representations=2)
    flat = batch_to_ids([*SENTENCES, *SENTENCES[:3]])
    flat[5] = 0
    nested = flat.view(2, 4, *flat.shape[1:])
    expected = ours(flat)
    assert not expected[5].any()
    assert torch.equal(ours(nested), expected.view(2, 4, *expected.shape[1:]))


def test_vocab_to_cache(bilm_files, make):
    """The oracle is AllenNLP's own embedder, which reads the characters of a word that is not in
    `vocab_to_cache`. Without characters such a word is an error, and others have the vectors of
    their characters. Row 0 is always padding."""
    words = ["@@PADDING@@", "the", "dog"]
    numbers = torch.tensor([[1, 7], [5, 0]])
    characters = batch_to_ids([["the", "dog"], ["stick"]])
    stock = StockEmbedder(*bilm_files, vocab_to_cache=words, dropout=0.0).eval()
    expected = stock(characters, numbers)
    ours = make(vocab_to_cache=words, initial_state="carry")
    torch.testing.assert_close(ours(characters, numbers), expected, atol=1e-5, rtol=0)
    ours = make(vocab_to_cache=words)
    found = ours(torch.zeros_like(characters), torch.tensor([[1, 2], [2, 0]]))
    assert torch.equal(found, make()(batch_to_ids([["the", "dog"], ["dog"]])))
    characters[0, 1] = 0
    numbers[0] = torch.tensor([9, 7])  # the first of which has characters
    with pytest.raises(InputError, match=r"vocab_to_cache: .*below 3.*found 7"):
        ours(characters, numbers)


def test_padding_before_a_token_is_refused(make):
    """AllenNLP's own module takes such rows for others with padding at the end, and gives the real
    tokens the vectors of their neighbors."""
    ours, characters = make(), batch_to_ids([["He", "threw", "it"]])
    for column in (0, 1):
        holed = characters.clone()
        holed[:, column] = 0
        with pytest.raises(ValueError, match=rf"row 0 at token {column}, before a real token"):
            ours(holed)


def test_ids_that_do_not_exist_are_refused(make):
    """There are 262 ids of characters, and others would be read from another row of a table."""
    for wrong in (-1, 262, 2**32 + 1):
        characters = batch_to_ids([["He"]])
        characters[0, 0, 1] = wrong
        with pytest.raises(ValueError, match=rf"ids from 0 to 261, found .*{wrong}"):
            make()(characters)


def test_projection_of_each_mix(make):
    """The expected values apply one linear layer to each of the mixes by itself."""
    ours = make(num_output_representations=2, projection_dim=5)
    plain = make(num_output_representations=2)
    plain._elmo.load_state_dict(ours._elmo.state_dict())
    characters = batch_to_ids(SENTENCES)
    assert ours.get_output_dim() == 10
    with torch.no_grad():
        expected = [ours._projection(mix) for mix in plain(characters).chunk(2, dim=-1)]
    torch.testing.assert_close(ours(characters), torch.cat(expected, dim=-1))


def test_frozen_or_fine_tuned(make):
    """A frozen biLM has no gradient and no graph. With `requires_grad` every parameter has a
    gradient."""
    characters = batch_to_ids(SENTENCES)
    for requires_grad in (False, True):
        ours = make(requires_grad=requires_grad).train()
        ours(characters).sum().backward()
        for name, parameter in ours.named_parameters():
            expected = requires_grad or "scalar_mix" in name
            assert parameter.requires_grad == expected, name
            assert (parameter.grad is not None) == expected, name


def test_the_bilm_may_have_its_own_learning_rate(make):
    """Every parameter of the biLM has the group's rate. The mix, the projection and the rest of the
    task have the default."""
    ours = make(requires_grad=True, projection_dim=5)
    text = BasicTextFieldEmbedder({"elmo": ours})
    task = torch.nn.ModuleDict({"text": text, "encoder": torch.nn.LSTM(5, 3)})
    named = dict(task.named_parameters())
    groups = [[[r"_elmo\.bilm"], {"lr": 1e-5}]]
    params = Params({"type": "adam", "lr": 1e-3, "parameter_groups": groups})
    optimizer = Optimizer.from_params(params, model_parameters=list(named.items()))
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    own = {id(parameter) for parameter in ours._elmo.bilm.parameters()}
    assert rates == {id(p): 1e-5 if id(p) in own else 1e-3 for p in named.values()}
    assert own and any("scalar_mix" in name for name, p in named.items() if id(p) not in own)


def test_dropout_is_only_the_tasks(make):
    """In training mode the biLM itself reads as in evaluation, and `dropout` 1 leaves nothing."""
    characters = batch_to_ids(SENTENCES)
    ours = make()
    assert torch.equal(ours.train()(characters), ours.eval()(characters))
    assert not make(dropout=1.0).train()(characters).any()


@pytest.mark.parametrize("shape", [(0, 3), (2, 0), (2, 3)])
def test_nothing_to_read(make, shape):
    """The output is zeros of the expected shape."""
    vectors = make()(torch.zeros(*shape, 50, dtype=torch.long))
    assert torch.equal(vectors, torch.zeros(*shape, 16))


TINY = {"pretrained": "tiny"}


@pytest.mark.parametrize(
    "params, message",
    [
        ({}, "pretrained, archive_file, or options_file and weight_file, found none"),
        ({"pretrained": "small", "archive_file": "a"}, "found pretrained and archive_file"),
        ({"options_file": "o.json"}, "weight_file"),
        ({"options_file": "o", "weight_file": "w", "archive_file": "a"}, "archive_file"),
        ({"options_file": "o.json", "weight_file": "w.hdf5"}, r"o\.json"),
        ({**TINY, "scalar_mix_parameters": [1e39, 0.0, 1.0]}, r"parameters\[0\].*at most 3.4"),
        ({**TINY, "scalar_mix_parameters": [0, 0, 1], "use_top_only": True}, "none with use_top_"),
        ({**TINY, "keep_sentence_boundaries": True}, "keep_sentence_boundaries"),
        ({**TINY, "bilm": 1}, "bilm"),
        ({**TINY, "requires_gard": True}, "keys requires_gard; .*, requires_grad"),
        ({**TINY, "elmo_dim": 20}, r"elmo_dim 20,.*found 64, that of .*dim=64 to"),
    ],
)
def test_mistakes(params, message):
    """The message names the parameter that is missing, too much or wrong, the value that was found,
    or the file. tests/test_bad_parameters.py has values of other kinds."""
    with pytest.raises((InputError, ConfigurationError, FileNotFoundError), match=message):
        embedder(**params)


def test_cache_dir(bilm_files, make, tmp_path, monkeypatch):
    """The expected numbers are those without a cache, and in the second epoch the biLM is not run.
    A model that is trained has the cache. A model that is loaded has none, so that it works where
    there is no such folder."""
    cached = partial(make, cache_dir=str(tmp_path / "cache"))
    ours, characters = cached(), batch_to_ids(SENTENCES)
    expected = make()(characters)
    assert torch.equal(ours(characters), expected)
    monkeypatch.setattr(BiLM, "sentences", None)
    assert torch.equal(ours(characters), expected)
    config = model_of(elmo={**bilm_files._asdict(), "cache_dir": str(tmp_path / "cache")})
    trained = train(config, tmp_path / "run")
    for model, is_kept in ((trained, True), (load(config, tmp_path / "run"), False)):
        cache = model._text_field_embedder.token_embedder_elmo._elmo.layer_cache
        assert (cache is not None) == is_kept


def test_characters_of_another_length(make):
    """The `max_characters_per_token` of the indexer may be another one. The expected vectors are
    those of 50 characters, as AllenNLP's indexer gives. A word that was cut is an error."""
    ours = make()
    sentences = [["a", "word"], ["w" * 47 + "é"], ["w" * 60]]
    expected = ours(batch_to_ids(sentences))
    for length in (50, 51, 62, 90):
        rows = [torch.from_numpy(words_to_characters(words, length)) for words in sentences]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).long()
        assert torch.equal(ours(tokens), expected)
    with pytest.raises(ValueError, match=r"up to 48 bytes.*cut to 28.*indexer to 50 or more"):
        ours(torch.from_numpy(words_to_characters(["w" * 29], 30))[None].long())


def test_an_indexer_of_another_type(make):
    """The error comes through AllenNLP, whose own error would name the arguments of `forward`."""
    field_embedder = BasicTextFieldEmbedder({"elmo": make()})
    with pytest.raises(InputError, match=r'indexer of type "elmo".*gives tokens'):
        field_embedder({"elmo": {"tokens": torch.ones(1, 2, dtype=torch.long)}})
    with pytest.raises(ValueError, match=r"ids of shape .*found \(1, 2\)"):
        make()(torch.ones(1, 2, dtype=torch.long))


def test_the_top_layer_alone(bilm_files, make):
    """Expected: the top layer as `Elmo.embed` gives it, in a batch of one sentence."""
    ours = make(use_top_only=True)
    expected = Elmo.from_files(*bilm_files).embed(SENTENCES[0], layer="top", as_tensors=True)
    torch.testing.assert_close(ours(batch_to_ids(SENTENCES[:1]))[0], expected)
    torch.testing.assert_close(ours._elmo.embed(SENTENCES[0], as_tensors=True), expected)


def test_a_bilm_of_another_size_than_the_config_was_made_for(make):
    """By hand: vectors of 2 x 8; or the projection's 5, if there is one, in each of two mixes."""
    two = partial(make, num_output_representations=2)
    assert two(elmo_dim=16).get_output_dim() == 2 * 16
    assert two(elmo_dim=5, projection_dim=5).get_output_dim() == 2 * 5
