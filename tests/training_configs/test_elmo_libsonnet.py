import json
import re
from pathlib import Path

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader
from allennlp.modules import Seq2VecEncoder

from elmo_plugin.plugin.data.token_indexer import ElmoTokenIndexer
from elmo_plugin.pretrained import pretrained_files, pretrained_names
from tests.conftest import ROOT
from tests.training_configs.task_models import LIBRARY, evaluated, with_elmo

CONFIGS = ROOT / "training_configs"
BASE = """{
  dataset_reader: { type: 'any' },
  validation_dataset_reader: { type: 'any', token_indexers: { words: { type: 'single_id' } } },
  model: {
    type: 'crf_tagger',
    text_field_embedder: { token_embedders: {
      characters: { type: 'embedding', embedding_dim: 7 },
      tokens: { type: 'embedding', embedding_dim: 5 },
    } },
    encoder: { type: 'qanet_encoder', input_dim: 12 },
    feedforward: { input_dim: 9 },
  },
}"""
EMBEDDER = "{ archive_file: 'a.tar.gz', dropout: 0.1 }"


def turned(how: str, base: str = BASE, arguments: str = "dims={}") -> dict:
    return evaluated(f"{LIBRARY}.{how}({base}, {EMBEDDER}, dim=20, {arguments})")


def sized(embedder: str) -> int:
    config = evaluated(f"{LIBRARY}.input({BASE}, {embedder})")
    return config["model"]["text_field_embedder"]["token_embedders"]["elmo"]["elmo_dim"]


@pytest.mark.parametrize(
    "how, mixes, read, start", [("input", 1, 32, None), ("output", 1, 12, 7), ("both", 2, 32, 27)]
)
def test_places(how, mixes, read, start):
    """By hand: 20 columns more to read, or behind the encoder. "characters" (7) comes before "elmo"
    in the alphabet, "tokens" after it."""
    model = turned(how)["model"]
    encoder = {"type": "qanet_encoder", "input_dim": read}
    if start is not None:
        encoder = {"type": "elmo_output", "encoder": encoder, "elmo_dim": 20, "start": start}
    assert model["encoder"] == encoder
    assert model["feedforward"] == {"input_dim": 9 if start is None else 9 + 20}
    elmo = {"num_output_representations": mixes, "archive_file": "a.tar.gz", "dropout": 0.1}
    found = model["text_field_embedder"]["token_embedders"]["elmo"]
    assert found == {"type": "elmo", "elmo_dim": 20, **elmo}


@pytest.mark.parametrize("name", pretrained_names())
def test_sizes_of_the_installed_models(name):
    """The expected sizes are twice the projection_dim of their options files, or the embedder's
    own `projection_dim`, or the argument, with which a model of another distribution can be named.
    """
    options = json.loads(Path(pretrained_files(name).options_file).read_text())
    assert sized(f"{{ pretrained: '{name}' }}") == 2 * options["lstm"]["projection_dim"]
    assert sized(f"{{ pretrained: '{name}', projection_dim: 9 }}") == 9
    assert sized("{ pretrained: 'welsh' }, dim=100") == 100


@pytest.mark.parametrize("none", ["null", "0"])
def test_no_projection(none):
    """Both are no projection to the embedder `elmo` and to AllenNLP's `embedding`. By hand: 64
    columns of `tiny`; and "characters" (7) comes before "elmo"."""
    assert sized(f"{{ pretrained: 'tiny', projection_dim: {none} }}") == 64
    base = BASE.replace("embedding_dim: 7", f"embedding_dim: 7, projection_dim: {none}")
    assert turned("output", base)["model"]["encoder"]["start"] == 7


@pytest.mark.parametrize(
    "embedder, message",
    [
        ("{ archive_file: 'a.tar.gz' }", r"dim: expected the size of .*; found none"),
        ("{ archive_file: 'a', projection_dim: null }", r"dim: expected the size .*; found none"),
        ("{ pretrained: 'smal' }", "embedder.pretrained: .*, tiny, or another with dim; .*smal"),
        ("{ pretraind: 'small' }", "embedder: expected pretrained, archive_file, .*pretraind"),
    ],
)
def test_no_size_is_found(embedder, message):
    """The message names what is misspelled or missing, not the size that follows from it."""
    with pytest.raises(RuntimeError, match=message):
        sized(embedder)


def test_readers_keep_their_indexers():
    """AllenNLP's default indexer is there by its name where a reader named none, also in a reader
    that is a string, which AllenNLP reads as a type. Targets have the indexers that they had, which
    are those of sources by default."""
    elmo = {"type": "elmo", "max_characters_per_token": 50}
    default = {"tokens": "single_id", "elmo": elmo}
    for base in (BASE, BASE.replace("{ type: 'any' }", "'any'", 1)):
        config = turned("input", base)
        assert config["dataset_reader"] == {"type": "any", "token_indexers": default}
    validation = config["validation_dataset_reader"]["token_indexers"]
    assert validation == {"words": {"type": "single_id"}, "elmo": elmo}
    reader = with_elmo("simple_seq2seq", "input", "any")["dataset_reader"]
    assert reader["target_token_indexers"] == {"tokens": "single_id"}
    assert reader["source_token_indexers"] == default


@pytest.mark.parametrize(
    "characters",
    [
        "{ type: 'embedding', num_embeddings: 7 }",
        "{ type: 'character_encoding', encoder: { type: 'mine', output_size: 9 } }",
        "{ type: 'character_encoding', encoder: 'mine' }",
        "{ type: 'character_encoding', encoder: { type: 'mine', embedding_dim: 4 } }",
        "{ type: 'mine', embedding_dim: 4 }",
    ],
)
def test_a_size_that_only_dims_gives(characters):
    """By hand: 9 columns before those of the input mix. Where the second mix starts can't be told
    without `dims`, which comes before what is found. At the input it does not matter."""
    base = BASE.replace("{ type: 'embedding', embedding_dim: 7 }", characters)
    turned("input", base)
    with pytest.raises(RuntimeError, match=r'"characters".*dims={ characters: \.\.\. }'):
        turned("both", base)
    for dims in ("{ characters: 9 }", "{ characters: 9, tokens: 5 }"):
        assert turned("both", base, f"dims={dims}")["model"]["encoder"]["start"] == 9 + 20


def test_a_size_that_dims_would_change():
    """By definition: AllenNLP's own has the size in the config."""
    with pytest.raises(RuntimeError, match=r"dims\.characters: expected 7, the size .* found 9"):
        turned("output", BASE, "dims={ characters: 9 }")


CNN = {"type": "cnn", "embedding_dim": 4, "num_filters": 3}
HIGHWAY = {"type": "cnn-highway", "embedding_dim": 4, "filters": [[2, 3]], "num_highway": 1}
RNN = {"input_size": 4, "hidden_size": 3}


@pytest.mark.parametrize(
    "encoder",
    [
        *(CNN, {**CNN, "ngram_filter_sizes": [2, 3]}),
        *({**CNN, "output_dim": 7}, {**CNN, "output_dim": None}),
        {**HIGHWAY, "projection_dim": 7},
        {"type": "boe", "embedding_dim": 4},
        {"type": "lstm", **RNN},
        {"type": "gru", **RNN, "bidirectional": True},
        {"type": "stacked_bidirectional_lstm", **RNN, "num_layers": 1},
    ],
    ids=lambda encoder: f"{encoder['type']} {len(encoder)}",
)
def test_characters_in_front(encoder):
    """AllenNLP's own encoder has the expected size."""
    embedder = {"type": "character_encoding", "embedding": {"embedding_dim": 4}, "encoder": encoder}
    base = BASE.replace("{ type: 'embedding', embedding_dim: 7 }", json.dumps(embedder))
    size = Seq2VecEncoder.from_params(Params(dict(encoder))).get_output_dim()
    assert turned("output", base)["model"]["encoder"]["start"] == size


OWN = """{
  dataset_reader: { type: 'any' },
  model: {
    type: 'mine',
    embed: { token_embedders: { a: { embedding_dim: 5 } } },
    layers: { first: { type: 'lstm', input_size: 5 }, n_columns: 5 },
    rest: { input_dim: 6 },
  },
}"""
PATHS = """{
  embedder: 'embed', encoder: 'layers.first', input: { 'layers.n_columns': 2 }, output: { rest: 3 }
}"""


@pytest.mark.parametrize("place, n_mixes", [("input", 1), ("both", 2)])
def test_a_model_that_is_not_in_the_table(place, n_mixes):
    """By hand: its sizes are found by the paths of the argument, in modules and in numbers; ELMo
    comes after "a"."""
    model = evaluated(f"{LIBRARY}.{place}({OWN}, {{}}, dim=16, paths={PATHS})")["model"]
    encoder = {"type": "lstm", "input_size": 5 + 16}
    if place == "both":
        encoder = {"type": "elmo_output", "encoder": encoder, "elmo_dim": 16, "start": 5 + 16}
    assert model["layers"] == {"first": encoder, "n_columns": 5 + 2 * n_mixes * 16}
    assert model["rest"] == {"input_dim": 6 + 3 * 16 * (n_mixes - 1)}
    assert model["embed"]["token_embedders"]["elmo"]["num_output_representations"] == n_mixes


STACKED = "{ type: 'stacked_bidirectional_lstm', input_size: 5, hidden_size: 3 }"


@pytest.mark.parametrize(
    "model, part, sizes",
    [
        (
            f"decomposable_attention {{ model+: {{ premise_encoder: {STACKED} }} }}",
            "premise_encoder",
            {"input_size": 5 + 16, "hidden_size": 3 + 8},
        ),
        ("simple_seq2seq { model+: { target_embedding_dim: null } }", "target_embedding_dim", 5),
        (
            "basic_classifier { model+: { seq2vec_encoder+: { type: 'boe' } } }",
            "seq2vec_encoder",
            {"embedding_dim": 6 + 16},
        ),
    ],
)
def test_sizes_of_special_models(model, part, sizes):
    """By hand: an output of 2 x 3 grows by the 16 columns of its input, 8 in each direction;
    without their own size, the targets of a decoder have that of the sources without ELMo; and
    `boe` is another name of `bag_of_embeddings`."""
    place = "input" if part == "premise_encoder" else "both"
    found = with_elmo(model, place, "any")["model"][part]
    assert found == sizes or sizes.items() <= found.items()


def test_two_bilms():
    """By hand: "b" (8 a mix) comes before "elmo" (16 a mix), both in each place."""
    both = f"{LIBRARY}.both({LIBRARY}.both(models.%s, {{}}, dim=16%s), {{}}, dim=8, key='b'%s)"
    model = evaluated(both % ("simple_tagger", ", l2=0.1", ", l2=0.2"))["model"]
    assert model["regularizer"]["regexes"] == [
        ["token_embedder_b\\..*scalar_parameters", {"type": "l2", "alpha": 0.2}],
        ["token_embedder_elmo\\..*scalar_parameters", {"type": "l2", "alpha": 0.1}],
    ]
    model = evaluated(both % ("bidaf", "", ""))["model"]
    assert model["type"] == "bidaf_elmo"
    assert model["elmo_columns"] == [[16 + 16, 16 + 32], [8, 16]]
    assert model["phrase_layer"]["input_size"] == 5 + 8 + 16


def test_three_bilms():
    """By hand, in the order of the alphabet: each wrapper removes its own columns (one mix each of
    8, 16 and 4) and passes the others on, and `input` adds 2 in the second place."""
    config = "models.simple_tagger"
    for key, dim in (("z", 8), ("a", 16), ("q", 4)):
        config = f"{LIBRARY}.output({config}, {{}}, dim={dim}, key='{key}')"
    encoder = evaluated(f"{LIBRARY}.input({config}, {{}}, dim=2, key='b')")["model"]["encoder"]
    columns = [*("a" * 16), *("b" * 2), *("q" * 4), *("t" * 5), *("z" * 8)]  # "tokens" have 5
    for key in "qaz":
        start, end = encoder["start"], encoder["start"] + encoder["elmo_dim"]
        assert columns[start:end] == [key] * encoder["elmo_dim"]
        columns = columns[:start] + columns[end:]
        encoder = encoder["encoder"]
    assert encoder["input_size"] == len(columns) == 2 + 5


@pytest.mark.parametrize("embedder", [{"use_top_only": True}, {"scalar_mix_parameters": [0, 0, 0]}])
def test_a_penalty_without_weights(embedder):
    """There is nothing to penalize."""
    with pytest.raises(RuntimeError, match="l2: expected null without a learned mix"):
        with_elmo("crf_tagger", "input", "any", "dim=16, l2=0.1", **embedder)


def test_null_is_the_default():
    """AllenNLP's own default is meant: one indexer, no reader of its own, an output that grows."""
    attention = "{ type: 'multi_head_self_attention', input_dim: 12, output_projection_dim: null }"
    config = f"""{BASE} + {{
      validation_dataset_reader: null,
      dataset_reader+: {{ token_indexers: null }},
      model+: {{ encoder: {attention} }},
    }}"""
    found = turned("input", config)
    assert sorted(found["dataset_reader"]["token_indexers"]) == ["elmo", "tokens"]
    assert found["validation_dataset_reader"] is None
    assert found["model"]["feedforward"]["input_dim"] == 9 + 20


def test_the_initializers_of_coref_reach_its_encoder():
    """The wrapper `elmo_output` changes the names of the parameters."""
    file = f"(import '{CONFIGS}/coref.jsonnet')"
    for place, name in (("input", "_module"), ("both", "_encoder._module")):
        config = evaluated(f"{LIBRARY}.{place}({file}, {{ pretrained: 'tiny' }})")
        regexes = config["model"]["initializer"]["regexes"]
        for weight, expected in (("weight_ih", "xavier_normal"), ("weight_hh", "orthogonal")):
            parameter = f"_context_layer.{name}.{weight}_l0"
            assert [how for regex, how in regexes if re.search(regex, parameter)] == [expected]


@pytest.mark.parametrize(
    "task, name",
    [
        ("esim", "_encoder._encoder._module.weight_hh"),
        ("esim", "_inference_encoder._module.weight_hh_l0"),
        ("bidaf", "_phrase_layer._encoder._module.weight_hh_l0"),
        ("coref", "_context_layer._encoder._module.weight_hh_l0"),
    ],
)
def test_patterns_still_match(task, name):
    """The names are those of the parameters in the converted models. `_encoder._module` is also
    a part of the names of other encoders. A dot has two spellings."""
    patterns = (
        "[['_phrase_layer._module', {type: 'l2'}], ['_encoder._module.weight_hh', {type: 'l2'}], "
        r"['_context_layer\\._module\\.weight', {type: 'l2'}]]"
    )
    exceptions = "['_phrase_layer._module', '_encoder._module', '_context_layer._module']"
    applicator = f"{{ regexes: {patterns}, prevent_regexes: {exceptions} }}"
    changes = f"{{ model+: {{ initializer: {applicator}, regularizer: {applicator} }} }}"
    config = f"(import '{CONFIGS}/{task}.jsonnet') {changes}"
    model = evaluated(f"{LIBRARY}.both({config}, {{ pretrained: 'tiny' }})")["model"]
    for key in ("initializer", "regularizer"):
        assert any(re.search(regex, name) for regex, _ in model[key]["regexes"]), key
    assert any(re.search(x, name) for x in model["initializer"]["prevent_regexes"])


@pytest.mark.sampled(3)
@pytest.mark.parametrize("place", ["input", "both"])
@pytest.mark.parametrize("task", ["ner", "bcn", "coref", "bidaf"])
def test_sizes_may_be_changed_after_the_conversion(task, place):
    """Expected: the config with the same sizes, changed before."""
    sizes = {
        "ner": "{ hidden_size:: 20, glove:: 'g.txt' }",
        "bcn": "{ dim:: 10, glove:: 'g.txt' }",
        "coref": "{ hidden_size:: 10 }",
        "bidaf": "{ hidden_size:: 10 }",
    }[task]
    file = f"(import '{CONFIGS}/{task}.jsonnet')"
    before = evaluated(f"{LIBRARY}.{place}({file} + {sizes}, {{ pretrained: 'tiny' }})")
    after = evaluated(f"{LIBRARY}.{place}({file}, {{ pretrained: 'tiny' }}) + {sizes}")
    assert after == before != evaluated(f"{LIBRARY}.{place}({file}, {{ pretrained: 'tiny' }})")


def test_a_reader_of_your_own():
    """By hand: nothing but the parameter that `paths` names is added to it."""
    config = "models.simple_seq2seq { dataset_reader: { type: 'mine' } }"
    paths = "{ indexers: 'source_token_indexers', embedder: 'source_embedder' }"
    found = evaluated(f"{LIBRARY}.input({config}, {{}}, dim=16, paths={paths})")
    assert sorted(found["dataset_reader"]) == ["source_token_indexers", "type"]


@pytest.mark.parametrize(
    "wrapped",
    ["{ type: 'interleaving', readers: { a: %, b: % } }", "{ type: 'sharded', base_reader: % }"],
)
def test_nested_readers(wrapped):
    """Expected: the indexer in each reader that AllenNLP builds, in the validation's too."""
    reader = wrapped.replace("%", "models.esim.dataset_reader")
    readers = f"{{ dataset_reader: {reader}, validation_dataset_reader: {reader} }}"
    config = with_elmo(f"esim + {readers}", "input", "any", "dim=16, key='mine'")
    for name in ("dataset_reader", "validation_dataset_reader"):
        built = DatasetReader.from_params(Params(config[name]))
        nested = list(built._readers.values()) if hasattr(built, "_readers") else [built.reader]
        for inner in nested:
            assert isinstance(inner._token_indexers["mine"], ElmoTokenIndexer)


GATED = "{ type: 'gated-cnn-encoder', input_dim: 5 }"


@pytest.mark.parametrize(
    "model, place, arguments, message",
    [
        ("basic_classifier_without_encoder", "output", "", "contextual.*without seq2seq_encoder"),
        ("crf_tagger { model+: { type: 'mine' } }", "input", "", "paths={ encoder: .*found mine"),
        ("crf_tagger { model+: { encoder: { type: 'x' } } }", "input", "", 'type "x".*input_size'),
        (f"crf_tagger {{ model+: {{ encoder: {GATED} }} }}", "input", "", "gated-cnn.*can grow"),
        ("crf_tagger", "input", ", key='tokens'", "key: .*not in.* yet; found tokens"),
        (
            "crf_tagger { dataset_reader+: { token_indexers+: { elmo: 'elmo_characters' } } }",
            *("input", "", r"reader\.token_indexers\.elmo: .*without AllenNLP's ELMo.*to 'elmo'"),
        ),
        (
            "crf_tagger { model+: { text_field_embedder+: { token_embedders+: "
            "{ elmo: { type: 'elmo_token_embedder' } } } } }",
            *("input", "", r"embedders\.elmo: .*AllenNLP's ELMo.*found elmo_token_embedder"),
        ),
        ("crf_tagger", "input", ", paths={ encoder: 'mine' }", "paths: .*found mine"),
        ("crf_tagger", "input", ", paths={ outputs: {} }", "paths: .*input, output; found outputs"),
        ("crf_tagger", "input", ", paths={ embedder: 'a.b' }", "paths: .*; found a.b"),
        ("crf_tagger", "both", ", dims={ mine: 1 }", "dims: .*embedders, tokens; found mine"),
        ("dialog_qa", "input", ", l2=0.1", "l2: .*parameter_groups.*found dialog_qa"),
        ("bcn", "output", ", key='mine'", 'key: expected "elmo".*found mine'),
    ],
)
def test_mistakes(model, place, arguments, message):
    """By hand: the error names what was expected and what was found."""
    with pytest.raises(RuntimeError, match=f"elmo.libsonnet: .*{message}"):
        with_elmo(model, place, "any", f"dim=16{arguments}")


WRONG = {
    "dim": ["null", "true", "'20'", "-1", "0", "1.5", "[1]", "{}"],
    "max_characters_per_token": ["null", "true", "'20'", "-1", "2", "10.5", "[50]", "{}"],
    "key": ["null", "true", "''", "5", "['a']", "{}"],
    "l2": ["true", "'0.1'", "-0.1", "[0.1]", "{}"],
    "paths": [
        *("true", "'encoder'", "5", "['encoder']", "{ encoder: [5] }", "{ input: ['x'] }"),
        *("{ output: { x: '1' } }", "{ embedder: ['x'] }"),
    ],
    "dims": ["null", "true", "'tokens'", "5", "[5]", "{ tokens: 0 }", "{ tokens: '5' }"],
    "embedder": ["null", "'small'", "5", "[]"],
    "config": ["null", "'a.jsonnet'", "[]", "{}", "{ dataset_reader: {} , model: { type: 5 } }"],
}


@pytest.mark.parametrize(
    "argument, value", [(argument, value) for argument in WRONG for value in WRONG[argument]]
)
def test_arguments_of_another_kind(argument, value):
    """By hand: the error names the argument. A negative dim made an encoder smaller before."""
    arguments = {"config": BASE, "embedder": EMBEDDER, "dim": "16", argument: value}
    call = ", ".join(f"{name}={value}" for name, value in arguments.items())
    with pytest.raises(RuntimeError, match=rf"elmo.libsonnet: {argument}\b.*: expected .*; found "):
        evaluated(f"{LIBRARY}.input({call})")


def test_a_second_bilm_in_bcn():
    """By hand: `bcn` has one ELMo of its own; another one may be in its embedded text."""
    once = f"{LIBRARY}.both(models.bcn, {{}}, dim=16)"
    model = evaluated(f"{LIBRARY}.input({once}, {{}}, dim=8, key='b')")["model"]
    assert model["type"] == "bcn_elmo"
    assert model["pre_encode_feedforward"]["input_dim"] == 5 + 16 + 8
    assert "b" in model["text_field_embedder"]["token_embedders"]
    with pytest.raises(RuntimeError, match=r"model\.elmo: expected a bcn without ELMo"):
        evaluated(f"{LIBRARY}.both({once}, {{}}, dim=16)")


def test_an_indexer_that_is_there_already():
    """By hand: a validation reader that is made from `$.dataset_reader`, and two text field
    embedders for one reader. An indexer of another kind is an error."""
    start, end = BASE.split("  validation_dataset_reader"), BASE.split("  model:")
    reader = "  validation_dataset_reader: $.dataset_reader { max_instances: 9 },\n"
    config = turned("input", f"{start[0]}{reader}  model:{end[1]}")
    expected = {**config["dataset_reader"], "max_instances": 9}
    assert config["validation_dataset_reader"] == expected
    embedder = "{ token_embedders: { tokens: { embedding_dim: 5 } } }"
    model = f"{{ type: 'x', text_field_embedder: {embedder}, other: {embedder} }}"
    two = f"{{ dataset_reader: {{}}, model: {model} }}"
    paths = "paths={ embedder: 'other' }"
    once = f"{LIBRARY}.input({two}, {{}}, dim=16, paths={{}})"
    twice = evaluated(f"{LIBRARY}.input({once}, {{}}, dim=16, {paths})")
    for name in ("text_field_embedder", "other"):
        assert set(twice["model"][name]["token_embedders"]) == {"tokens", "elmo"}
    with pytest.raises(
        RuntimeError, match=r"not in dataset_reader\.token_indexers yet; found elmo"
    ):
        evaluated(f"{LIBRARY}.input({once}, {{}}, dim=16, {paths}, max_characters_per_token=9)")
