import re
import shutil
from pathlib import Path

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
from elmo_plugin.bilm_tf.weight_file import load_bilm

SENTENCES = [
    "He threw the stick to the dog .".split(),
    "The dog ?".split(),
    ["incomprehensibilities", "naïve", "🙂"],
    "Stick to it , dog .".split(),
    ["A"],
]


def embedder(**params) -> TokenEmbedder:
    return TokenEmbedder.from_params(Params({"type": "elmo", "dropout": 0.0, **params})).eval()


@pytest.mark.parametrize("do_layer_norm", [False, True])
def test_carry_is_stock_elmo_from_batch_to_batch(bilm_files, do_layer_norm):
    """Expected: AllenNLP's own embedder, through batches that shrink and grow, so that rows come,
    stay untouched and come back."""
    kwargs = {**bilm_files._asdict(), "do_layer_norm": do_layer_norm}
    stock = StockEmbedder(**kwargs, dropout=0.0).eval()
    ours = embedder(**kwargs, initial_state="carry")
    for rows in ([0, 1, 2], [3], [1, 4], [0, 1, 2, 3, 4], [2, 0]):
        characters = batch_to_ids([SENTENCES[row] for row in rows])
        torch.testing.assert_close(ours(characters), stock(characters), atol=1e-5, rtol=0)


def test_mixes_and_boundaries_are_stock_elmo(bilm_files):
    """Expected: AllenNLP's `Elmo` with three representations and the boundaries kept; the mixes'
    weights are random and the same in both."""
    stock = StockElmo(*bilm_files, 3, dropout=0.0, keep_sentence_boundaries=True).eval()
    ours = Elmo.from_files(
        *bilm_files,
        num_output_representations=3,
        keep_sentence_boundaries=True,
        initial_state="carry",
    ).eval()
    weights = {
        name: torch.randn(1, generator=torch.Generator().manual_seed(number))
        for number, name in enumerate(n for n, _ in stock.named_parameters() if "scalar_mix" in n)
    }
    assert len(weights) == 3 * 4
    stock.load_state_dict(weights, strict=False)
    names = [name for name, _ in ours.named_parameters() if "scalar_mix_" in name]
    assert sorted(names) == sorted(weights)
    ours.load_state_dict(weights, strict=False)
    characters = batch_to_ids(SENTENCES)
    expected, found = stock(characters), ours(characters)
    for one, other in zip(
        found["elmo_representations"], expected["elmo_representations"], strict=True
    ):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)
    assert torch.equal(found["mask"], expected["mask"])


@pytest.mark.parametrize("initial_state", ["zero", "warm"])
def test_a_sentence_is_itself_in_any_company(bilm_files, initial_state):
    """Property: alone, in a batch, in another order, and again later, the same vectors."""
    ours = embedder(**bilm_files._asdict(), initial_state=initial_state)
    together = ours(batch_to_ids(SENTENCES))
    again = ours(batch_to_ids(SENTENCES))
    assert torch.equal(together, again)
    turned = ours(batch_to_ids(SENTENCES[::-1])).flip(0)
    for row, sentence in enumerate(SENTENCES):
        n = len(sentence)
        alone = ours(batch_to_ids([sentence]))[0]
        torch.testing.assert_close(together[row, :n], alone, atol=1e-5, rtol=0)
        torch.testing.assert_close(turned[row, :n], alone, atol=1e-5, rtol=0)
        assert not together[row, n:].any()


def test_warm_is_not_zero(bilm_files):
    """The two states differ, or the tests above would not test `warm`."""
    characters = batch_to_ids(SENTENCES)
    warm, zero = (
        embedder(**bilm_files._asdict(), initial_state=state)(characters)
        for state in ("warm", "zero")
    )
    assert (warm - zero).abs().max() > 1e-3


def test_lists_of_sentences(bilm_files):
    """Expected: each list's sentences by themselves; AllenNLP pads lists with empty sentences."""
    ours = embedder(**bilm_files._asdict(), num_output_representations=2)
    flat = batch_to_ids([*SENTENCES, *SENTENCES[:3]])
    flat[5] = 0
    nested = flat.view(2, 4, *flat.shape[1:])
    expected = ours(flat)
    assert not expected[5].any()
    assert torch.equal(ours(nested), expected.view(2, 4, *expected.shape[1:]))


def test_vocab_to_cache_is_the_words_themselves(bilm_files):
    """Expected: the characters of the same words; row 0 is padding, whatever stands there."""
    words = ["@@PADDING@@", "the", "dog", "stick"]
    numbers = torch.tensor([[1, 2], [3, 0]])
    characters = batch_to_ids([["the", "dog"], ["stick"]])
    ours = embedder(**bilm_files._asdict(), vocab_to_cache=words)
    expected = embedder(**bilm_files._asdict())(characters)
    assert torch.equal(ours(torch.zeros_like(characters), numbers), expected)


def test_a_word_that_is_not_in_vocab_to_cache_is_spelled(bilm_files):
    """Expected: AllenNLP's own embedder, which goes back to the characters; without characters
    there is nothing to read."""
    words = ["@@PADDING@@", "the", "dog"]
    numbers = torch.tensor([[1, 7], [5, 0]])
    characters = batch_to_ids([["the", "dog"], ["stick"]])
    stock = StockEmbedder(**bilm_files._asdict(), vocab_to_cache=words, dropout=0.0).eval()
    ours = embedder(**bilm_files._asdict(), vocab_to_cache=words, initial_state="carry")
    torch.testing.assert_close(
        ours(characters, numbers), stock(characters, numbers), atol=1e-5, rtol=0
    )
    with pytest.raises(ConfigurationError, match=r"vocab_to_cache: .*below 3.*found 7"):
        ours(torch.zeros_like(characters), numbers)


def test_padding_anywhere_but_behind_is_refused(bilm_files):
    """AllenNLP's own module takes such rows for others, padded behind, and gives the real tokens
    the vectors of their neighbours."""
    ours = embedder(**bilm_files._asdict())
    characters = batch_to_ids([["He", "threw", "it"]])
    for column in (0, 1):
        holed = characters.clone()
        holed[:, column] = 0
        with pytest.raises(ValueError, match=rf"row 0 at token {column}, before a real token"):
            ours(holed)
    holed = characters.clone()
    holed[:, 2] = 0
    torch.testing.assert_close(ours(holed)[:, :2], ours(characters[:, :2]), atol=1e-5, rtol=0)


def test_ids_that_are_none(bilm_files):
    """There are 262 ids of characters; others would be read out of another row of a table."""
    ours = embedder(**bilm_files._asdict())
    for wrong in (-1, 262, 2**32 + 1):
        characters = batch_to_ids([["He"]])
        characters[0, 0, 1] = wrong
        with pytest.raises(ValueError, match=rf"ids from 0 to 261, found .*{wrong}"):
            ours(characters)


def test_projection_of_each_mix(bilm_files):
    """Hand computation: one linear layer, on each of the mixes by itself."""
    ours = embedder(**bilm_files._asdict(), num_output_representations=2, projection_dim=5)
    plain = embedder(**bilm_files._asdict(), num_output_representations=2)
    plain._elmo.load_state_dict(ours._elmo.state_dict())
    characters = batch_to_ids(SENTENCES)
    assert ours.get_output_dim() == 10
    with torch.no_grad():
        expected = [ours._projection(mix) for mix in plain(characters).chunk(2, dim=-1)]
    torch.testing.assert_close(ours(characters), torch.cat(expected, dim=-1))


def test_frozen_or_trained_along(bilm_files):
    """A frozen biLM has no gradient and no graph; with `requires_grad` every parameter has one."""
    characters = batch_to_ids(SENTENCES)
    for requires_grad in (False, True):
        ours = embedder(**bilm_files._asdict(), requires_grad=requires_grad).train()
        ours(characters).sum().backward()
        for name, parameter in ours.named_parameters():
            expected = requires_grad or "scalar_mix" in name
            assert parameter.requires_grad == expected, name
            assert (parameter.grad is not None) == expected, name


def test_training_along_changes_the_vectors(bilm_files):
    """No word's vector may outlive a step of the optimizer."""
    ours = embedder(**bilm_files._asdict(), requires_grad=True)
    characters = batch_to_ids(SENTENCES)
    before = ours(characters)
    before.square().sum().backward()
    with torch.no_grad():
        for parameter in ours._elmo.bilm.token_encoder.parameters():
            parameter -= 0.1 * parameter.grad
    after = ours(characters)
    fresh = embedder(**bilm_files._asdict(), requires_grad=True)
    fresh.load_state_dict(ours.state_dict())
    assert not torch.allclose(before, after)
    assert torch.equal(after, fresh(characters))


def test_a_learning_rate_of_the_bilm_s_own(bilm_files):
    """Expected: every parameter that the biLM has by itself, at the group's rate; the mix, the
    projection and the rest of the task, at the default."""
    ours = embedder(**bilm_files._asdict(), requires_grad=True, projection_dim=5)
    task = torch.nn.ModuleDict(
        {
            "_text_field_embedder": BasicTextFieldEmbedder({"elmo": ours}),
            "encoder": torch.nn.LSTM(5, 3),
        }
    )
    groups = [[[r"_elmo\.bilm"], {"lr": 1e-5}]]
    optimizer = Optimizer.from_params(
        Params({"type": "adam", "lr": 1e-3, "parameter_groups": groups}),
        model_parameters=list(task.named_parameters()),
    )
    rates = {id(p): group["lr"] for group in optimizer.param_groups for p in group["params"]}
    found = {name: rates[id(p)] for name, p in task.named_parameters()}
    prefix = "_text_field_embedder.token_embedder_elmo._elmo.bilm."
    own = {prefix + name for name, _ in load_bilm(*bilm_files).named_parameters()}
    assert own and found == {name: 1e-5 if name in own else 1e-3 for name in found}
    assert own < found.keys() and any("scalar_mix" in name for name in found.keys() - own)


def test_dropout_is_the_task_s_alone(bilm_files):
    """In training mode the biLM underneath stays as it is in use; `dropout` 1 leaves nothing."""
    characters = batch_to_ids(SENTENCES)
    ours = embedder(**bilm_files._asdict())
    assert torch.equal(ours.train()(characters), ours.eval()(characters))
    assert not embedder(**bilm_files._asdict(), dropout=1.0).train()(characters).any()


@pytest.mark.parametrize(
    "tokens",
    [torch.zeros(0, 3, 50), torch.zeros(2, 0, 50), torch.zeros(2, 3, 50)],
    ids=["no sentences", "no tokens", "nothing but padding"],
)
def test_nothing_to_read(bilm_files, tokens):
    """Zeros of the shape that was asked for."""
    vectors = embedder(**bilm_files._asdict())(tokens.long())
    assert vectors.shape == (*tokens.shape[:2], 16)
    assert not vectors.any()


def test_ten_thousand_tokens(bilm_files):
    """Property: far from both ends, the ends do not matter."""
    ours = embedder(**bilm_files._asdict())
    sentence = [f"w{i % 7}" for i in range(10_000)]
    vectors = ours(batch_to_ids([sentence]))
    assert vectors.shape == (1, 10_000, 16)
    assert torch.isfinite(vectors).all()


def test_regularizers_find_the_mix(bilm_files):
    """The regular expression is the one in AllenNLP's ELMo configs; a mix has L + 1 weights."""
    names = [name for name, _ in embedder(**bilm_files._asdict()).named_parameters()]
    assert sum(bool(re.search(r"scalar_parameters", name)) for name in names) == 3


@pytest.mark.parametrize(
    "params, message",
    [
        ({}, "pretrained, archive_file, or options_file and weight_file, found none of them"),
        ({"pretrained": "small", "archive_file": "a"}, "found archive_file and pretrained"),
        ({"options_file": "o.json"}, "weight_file"),
        ({"options_file": "o", "weight_file": "w", "archive_file": "a"}, "archive_file"),
        ({"options_file": "o.json", "weight_file": "w.hdf5"}, r"o\.json"),
        ({"archive_file": "gone.tar.gz"}, r"gone\.tar\.gz"),
    ],
)
def test_where_the_bilm_comes_from(params, message):
    with pytest.raises((ConfigurationError, FileNotFoundError), match=message):
        embedder(**params)


def test_cache_dir(bilm_files, tmp_path, monkeypatch):
    """Expected: the numbers without a cache; in the second epoch without the biLM. A model that is
    recovered has the cache, too; one that is loaded from its archive does without, so that it works
    where there is no such folder."""
    cache_dir = str(tmp_path / "cache")
    ours = embedder(**bilm_files._asdict(), cache_dir=cache_dir)
    characters = batch_to_ids(SENTENCES)
    expected = embedder(**bilm_files._asdict())(characters)
    assert torch.equal(ours(characters), expected)
    monkeypatch.setattr(ours._elmo.bilm, "sentences", None)
    assert torch.equal(ours(characters), expected)
    for weights, is_kept in (("best.th", True), ("weights.th", False)):
        torch.save({}, tmp_path / weights)
        loaded = embedder(
            **bilm_files._asdict(), cache_dir=cache_dir, serialization_dir=str(tmp_path)
        )
        assert (loaded._elmo.layer_cache is not None) == is_kept


def test_characters_of_another_length(bilm_files):
    """Characters from an indexer with another `max_characters_per_token`."""
    with pytest.raises(ValueError, match=r"expected 50 characters.*found 30"):
        embedder(**bilm_files._asdict())(torch.ones(1, 2, 30, dtype=torch.long))


def test_an_indexer_of_another_type(bilm_files):
    """As it comes through AllenNLP, whose own error would name `forward`'s arguments."""
    field_embedder = BasicTextFieldEmbedder({"elmo": embedder(**bilm_files._asdict())})
    with pytest.raises(ConfigurationError, match=r'indexer of type "elmo".*gives tokens'):
        field_embedder({"elmo": {"tokens": torch.ones(1, 2, dtype=torch.long)}})
    with pytest.raises(ValueError, match=r"ids of shape .*found the shape \(1, 2\)"):
        embedder(**bilm_files._asdict())(torch.ones(1, 2, dtype=torch.long))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"initial_state": "cold"}, "initial_state.*cold"),
        ({"scalar_mix_parameters": [0.0, 1.0]}, "scalar_mix_parameters.*3.*0.0, 1.0"),
        ({"scalar_mix_parameters": [0.0, float("nan"), 1.0]}, r"scalar_mix_parameters\[1\].*nan"),
        ({"num_output_representations": 0}, "num_output_representations.*0"),
        ({"keep_sentence_boundaries": True}, "keep_sentence_boundaries"),
        ({"cache_dir": "unused", "requires_grad": True}, "cache_dir.*requires_grad"),
    ],
)
def test_other_mistakes(bilm_files, params, message):
    with pytest.raises(ConfigurationError, match=message):
        embedder(**bilm_files._asdict(), **params)


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_models_as_they_are_published(bilm_files, tmp_path, form):
    """Expected: the embedder of the same two files, named one by one."""
    folder = tmp_path / "published"
    folder.mkdir()
    shutil.copy(bilm_files.options_file, folder / "options.json")
    shutil.copy(bilm_files.weight_file, folder / "model.hdf5")
    (folder / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n")
    if form == "zip":
        folder = Path(shutil.make_archive(str(tmp_path / "193"), "zip", folder))
    characters = batch_to_ids(SENTENCES)
    found = embedder(archive_file=str(folder))(characters)
    assert torch.equal(found, embedder(**bilm_files._asdict())(characters))


def test_the_top_layer_alone(bilm_files):
    """Expected: the top layer as `Elmo.embed` gives it, in a batch of one sentence."""
    ours = embedder(**bilm_files._asdict(), use_top_only=True)
    expected = Elmo.from_files(*bilm_files).embed(SENTENCES[0], layer="top", as_tensors=True)
    torch.testing.assert_close(ours(batch_to_ids(SENTENCES[:1]))[0], expected)
    torch.testing.assert_close(ours._elmo.embed(SENTENCES[0], as_tensors=True), expected)
    with pytest.raises(ConfigurationError, match="scalar_mix_parameters: expected none with use_t"):
        embedder(**bilm_files._asdict(), use_top_only=True, scalar_mix_parameters=[0, 0, 1])


def test_a_bilm_of_another_size_than_the_config_was_made_for(bilm_files):
    """By hand: vectors of 2 x 8; or the projection's 5, if there is one, in each of two mixes."""
    kwargs = {**bilm_files._asdict(), "num_output_representations": 2}
    assert embedder(**kwargs, elmo_dim=16).get_output_dim() == 2 * 16
    assert embedder(**kwargs, elmo_dim=5, projection_dim=5).get_output_dim() == 2 * 5
    with pytest.raises(ConfigurationError, match=r"elmo_dim 20,.*found 16, that of .*dim=16 to"):
        embedder(**kwargs, elmo_dim=20)
