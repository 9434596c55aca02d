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
from elmo_plugin.formats.find import find_bilm
from elmo_plugin.modules import BiLM
from elmo_plugin.text.characters import words_to_characters

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
    """The oracle is AllenNLP's own embedder, through batches that shrink and grow, so that rows
    appear, stay untouched and appear again."""
    kwargs = {**bilm_files._asdict(), "do_layer_norm": do_layer_norm}
    stock = StockEmbedder(**kwargs, dropout=0.0).eval()
    ours = embedder(**kwargs, initial_state="carry")
    for rows in ([0, 1, 2], [3], [1, 4], [0, 1, 2, 3, 4], [2, 0]):
        characters = batch_to_ids([SENTENCES[row] for row in rows])
        torch.testing.assert_close(ours(characters), stock(characters), atol=1e-5, rtol=0)


def test_mixes_and_boundaries_are_stock_elmo(bilm_files):
    """The oracle is AllenNLP's `Elmo` with three representations and the boundaries. The weights of
    the mixes are random and the same in both."""
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
def test_a_sentence_does_not_depend_on_its_batch(bilm_files, initial_state):
    """A sentence has the same vectors alone, in a batch, in another order, and when it is read
    again."""
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


def test_lists_of_sentences(bilm_files):
    """The expected vectors are those of each list's sentences by themselves. AllenNLP pads lists
    with empty sentences."""
    ours = embedder(**bilm_files._asdict(), num_output_representations=2)
    flat = batch_to_ids([*SENTENCES, *SENTENCES[:3]])
    flat[5] = 0
    nested = flat.view(2, 4, *flat.shape[1:])
    expected = ours(flat)
    assert not expected[5].any()
    assert torch.equal(ours(nested), expected.view(2, 4, *expected.shape[1:]))


def test_vocab_to_cache_is_the_words_themselves(bilm_files):
    """The expected vectors are those of the characters of the same words. Row 0 is always
    padding."""
    words = ["@@PADDING@@", "the", "dog", "stick"]
    numbers = torch.tensor([[1, 2], [3, 0]])
    characters = batch_to_ids([["the", "dog"], ["stick"]])
    ours = embedder(**bilm_files._asdict(), vocab_to_cache=words)
    expected = embedder(**bilm_files._asdict())(characters)
    assert torch.equal(ours(torch.zeros_like(characters), numbers), expected)


def test_a_word_that_is_not_in_vocab_to_cache_is_read_from_characters(bilm_files):
    """The oracle is AllenNLP's own embedder, which reads such a word's characters. Without
    characters it is an error."""
    words = ["@@PADDING@@", "the", "dog"]
    numbers = torch.tensor([[1, 7], [5, 0]])
    characters = batch_to_ids([["the", "dog"], ["stick"]])
    stock = StockEmbedder(**bilm_files._asdict(), vocab_to_cache=words, dropout=0.0).eval()
    ours = embedder(**bilm_files._asdict(), vocab_to_cache=words, initial_state="carry")
    torch.testing.assert_close(
        ours(characters, numbers), stock(characters, numbers), atol=1e-5, rtol=0
    )
    characters[0, 1] = 0
    numbers[0] = torch.tensor([9, 7])  # the first of which has characters
    with pytest.raises(InputError, match=r"vocab_to_cache: .*below 3.*found 7"):
        ours(characters, numbers)


def test_padding_before_a_token_is_refused(bilm_files):
    """AllenNLP's own module takes such rows for others with padding at the end, and gives the real
    tokens the vectors of their neighbors."""
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


def test_ids_that_do_not_exist_are_refused(bilm_files):
    """There are 262 ids of characters, and others would be read from another row of a table."""
    ours = embedder(**bilm_files._asdict())
    for wrong in (-1, 262, 2**32 + 1):
        characters = batch_to_ids([["He"]])
        characters[0, 0, 1] = wrong
        with pytest.raises(ValueError, match=rf"ids from 0 to 261, found .*{wrong}"):
            ours(characters)


def test_projection_of_each_mix(bilm_files):
    """The expected values apply one linear layer to each of the mixes by itself."""
    ours = embedder(**bilm_files._asdict(), num_output_representations=2, projection_dim=5)
    plain = embedder(**bilm_files._asdict(), num_output_representations=2)
    plain._elmo.load_state_dict(ours._elmo.state_dict())
    characters = batch_to_ids(SENTENCES)
    assert ours.get_output_dim() == 10
    with torch.no_grad():
        expected = [ours._projection(mix) for mix in plain(characters).chunk(2, dim=-1)]
    torch.testing.assert_close(ours(characters), torch.cat(expected, dim=-1))


def test_frozen_or_fine_tuned(bilm_files):
    """A frozen biLM has no gradient and no graph. With `requires_grad` every parameter has a
    gradient."""
    characters = batch_to_ids(SENTENCES)
    for requires_grad in (False, True):
        ours = embedder(**bilm_files._asdict(), requires_grad=requires_grad).train()
        ours(characters).sum().backward()
        for name, parameter in ours.named_parameters():
            expected = requires_grad or "scalar_mix" in name
            assert parameter.requires_grad == expected, name
            assert (parameter.grad is not None) == expected, name


def test_the_bilm_may_have_its_own_learning_rate(bilm_files):
    """Every parameter of the biLM has the group's rate. The mix, the projection and the rest of the
    task have the default."""
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
    own = {prefix + name for name, _ in find_bilm(*bilm_files).bilm.named_parameters()}
    assert own and found == {name: 1e-5 if name in own else 1e-3 for name in found}
    assert own < found.keys() and any("scalar_mix" in name for name in found.keys() - own)


def test_dropout_is_only_the_tasks(bilm_files):
    """In training mode the biLM itself reads as in evaluation, and `dropout` 1 leaves nothing."""
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
    """The output is zeros of the expected shape."""
    vectors = embedder(**bilm_files._asdict())(tokens.long())
    assert vectors.shape == (*tokens.shape[:2], 16)
    assert not vectors.any()


def test_ten_thousand_tokens(bilm_files):
    """Far from both ends of a sentence, the ends do not matter."""
    ours = embedder(**bilm_files._asdict())
    sentence = [f"w{i % 7}" for i in range(10_000)]
    vectors = ours(batch_to_ids([sentence]))
    assert vectors.shape == (1, 10_000, 16)
    assert torch.isfinite(vectors).all()


@pytest.mark.parametrize(
    "params, message",
    [
        ({}, "pretrained, archive_file, or options_file and weight_file, found none"),
        ({"pretrained": "small", "archive_file": "a"}, "found pretrained and archive_file"),
        ({"options_file": "o.json"}, "weight_file"),
        ({"options_file": "o", "weight_file": "w", "archive_file": "a"}, "archive_file"),
        ({"options_file": "o.json", "weight_file": "w.hdf5"}, r"o\.json"),
        ({"archive_file": "gone.tar.gz"}, r"gone\.tar\.gz"),
    ],
)
def test_where_the_bilm_comes_from(params, message):
    """The message names the parameter that is missing or too much, or the file."""
    with pytest.raises((InputError, ConfigurationError, FileNotFoundError), match=message):
        embedder(**params)


def test_cache_dir(bilm_files, tmp_path, monkeypatch):
    """The expected numbers are those without a cache, and in the second epoch the biLM is not run.
    A model that is recovered has the cache too. A model that is loaded from its archive has none,
    so that it works where there is no such folder."""
    cache_dir = str(tmp_path / "cache")
    ours = embedder(**bilm_files._asdict(), cache_dir=cache_dir)
    characters = batch_to_ids(SENTENCES)
    expected = embedder(**bilm_files._asdict())(characters)
    assert torch.equal(ours(characters), expected)
    monkeypatch.setattr(BiLM, "sentences", None)
    assert torch.equal(ours(characters), expected)
    for weights, is_kept in (("best.th", True), ("weights.th", False)):
        torch.save({}, tmp_path / weights)
        loaded = embedder(
            **bilm_files._asdict(), cache_dir=cache_dir, serialization_dir=str(tmp_path)
        )
        assert (loaded._elmo.layer_cache is not None) == is_kept


def test_characters_of_another_length(bilm_files):
    """The `max_characters_per_token` of the indexer may be another one. The expected vectors are
    those of 50 characters, as AllenNLP's indexer gives. A word that was cut is an error."""
    ours = embedder(**bilm_files._asdict())
    sentences = [["a", "word"], ["w" * 47 + "é"], ["w" * 60]]
    expected = ours(batch_to_ids(sentences))
    for length in (50, 51, 62, 90):
        rows = [torch.from_numpy(words_to_characters(words, length)) for words in sentences]
        tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True).long()
        assert torch.equal(ours(tokens), expected)
    with pytest.raises(ValueError, match=r"up to 48 bytes.*cut to 28.*indexer to 50 or more"):
        ours(torch.from_numpy(words_to_characters(["w" * 29], 30))[None].long())


def test_an_indexer_of_another_type(bilm_files):
    """The error comes through AllenNLP, whose own error would name the arguments of `forward`."""
    field_embedder = BasicTextFieldEmbedder({"elmo": embedder(**bilm_files._asdict())})
    with pytest.raises(InputError, match=r'indexer of type "elmo".*gives tokens'):
        field_embedder({"elmo": {"tokens": torch.ones(1, 2, dtype=torch.long)}})
    with pytest.raises(ValueError, match=r"ids of shape .*found \(1, 2\)"):
        embedder(**bilm_files._asdict())(torch.ones(1, 2, dtype=torch.long))


@pytest.mark.parametrize(
    "params, message",
    [
        ({"scalar_mix_parameters": [0.0, 1.0]}, "scalar_mix_parameters.*3.*0.0, 1.0"),
        ({"scalar_mix_parameters": [1e39, 0.0, 1.0]}, r"scalar_mix_parameters\[0\].*at most 3.4"),
        ({"keep_sentence_boundaries": True}, "keep_sentence_boundaries"),
        ({"bilm": 1}, "bilm"),
    ],
)
def test_other_mistakes(bilm_files, params, message):
    """The message names the parameter and the value that was found. tests/test_bad_parameters.py
    has values of other kinds."""
    with pytest.raises((InputError, ConfigurationError), match=message):
        embedder(**bilm_files._asdict(), **params)


def test_the_top_layer_alone(bilm_files):
    """Expected: the top layer as `Elmo.embed` gives it, in a batch of one sentence."""
    ours = embedder(**bilm_files._asdict(), use_top_only=True)
    expected = Elmo.from_files(*bilm_files).embed(SENTENCES[0], layer="top", as_tensors=True)
    torch.testing.assert_close(ours(batch_to_ids(SENTENCES[:1]))[0], expected)
    torch.testing.assert_close(ours._elmo.embed(SENTENCES[0], as_tensors=True), expected)
    with pytest.raises(InputError, match="scalar_mix_parameters: expected none with use_t"):
        embedder(**bilm_files._asdict(), use_top_only=True, scalar_mix_parameters=[0, 0, 1])


def test_a_bilm_of_another_size_than_the_config_was_made_for(bilm_files):
    """By hand: vectors of 2 x 8; or the projection's 5, if there is one, in each of two mixes."""
    kwargs = {**bilm_files._asdict(), "num_output_representations": 2}
    assert embedder(**kwargs, elmo_dim=16).get_output_dim() == 2 * 16
    assert embedder(**kwargs, elmo_dim=5, projection_dim=5).get_output_dim() == 2 * 5
    with pytest.raises(InputError, match=r"elmo_dim 20,.*found 16, that of .*dim=16 to"):
        embedder(**kwargs, elmo_dim=20)
    with pytest.raises(
        InputError, match=r"unknown keys requires_gard; its keys are .*, requires_grad"
    ):
        embedder(**kwargs, requires_gard=True)
