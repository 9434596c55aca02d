import json
import re
from pathlib import Path

import _jsonnet
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
    call = f"(import 'lib/elmo.libsonnet').{how}({base}, {EMBEDDER}, dim=20, {arguments})"
    return json.loads(_jsonnet.evaluate_snippet(f"{CONFIGS}/test.jsonnet", call))


def test_input():
    """By hand: 20 columns more to read, and nothing else of another size."""
    model = turned("input")["model"]
    assert model["encoder"] == {"type": "qanet_encoder", "input_dim": 32}
    assert model["feedforward"] == {"input_dim": 9}
    assert model["text_field_embedder"]["token_embedders"]["elmo"] == {
        "type": "elmo",
        "num_output_representations": 1,
        "elmo_dim": 20,
        "archive_file": "a.tar.gz",
        "dropout": 0.1,
    }


@pytest.mark.parametrize(
    "how, mixes, input_dim, start", [("output", 1, 12, 7), ("both", 2, 32, 27)]
)
def test_output(how, mixes, input_dim, start):
    """By hand: "characters" (7) comes before "elmo" in the alphabet, "tokens" after it."""
    model = turned(how)["model"]
    assert model["encoder"] == {
        "type": "elmo_output",
        "encoder": {"type": "qanet_encoder", "input_dim": input_dim},
        "elmo_dim": 20,
        "start": start,
    }
    assert model["feedforward"] == {"input_dim": 29}
    embedders = model["text_field_embedder"]["token_embedders"]
    assert embedders["elmo"]["num_output_representations"] == mixes


def sized(embedder: str) -> int:
    call = f"(import 'lib/elmo.libsonnet').input({BASE}, {embedder})"
    config = json.loads(_jsonnet.evaluate_snippet(f"{CONFIGS}/test.jsonnet", call))
    return config["model"]["text_field_embedder"]["token_embedders"]["elmo"]["elmo_dim"]


@pytest.mark.parametrize("name", pretrained_names())
def test_sizes_of_the_installed_models(name):
    """The expected sizes are twice the projection_dim of their options files, or the embedder's
    own `projection_dim`."""
    options = json.loads(Path(pretrained_files(name).options_file).read_text())
    assert sized(f"{{ pretrained: '{name}' }}") == 2 * options["lstm"]["projection_dim"]
    assert sized(f"{{ pretrained: '{name}', projection_dim: 9 }}") == 9


@pytest.mark.parametrize("none", ["null", "0"])
def test_no_projection(none):
    """Both are no projection to the embedder `elmo` and to AllenNLP's `embedding`. By hand: 64
    columns of `tiny`; and "characters" (7) comes before "elmo"."""
    assert sized(f"{{ pretrained: 'tiny', projection_dim: {none} }}") == 64
    base = BASE.replace("embedding_dim: 7", f"embedding_dim: 7, projection_dim: {none}")
    assert turned("output", base)["model"]["encoder"]["start"] == 7


def test_an_unknown_size():
    """The message names the argument. With it, a model of another distribution can be named."""
    assert sized("{ pretrained: 'welsh' }, dim=100") == 100
    for embedder in ("{ archive_file: 'a.tar.gz' }", "{ archive_file: 'a', projection_dim: null }"):
        with pytest.raises(RuntimeError, match=r"dim: expected the size of .*; found none"):
            sized(embedder)


@pytest.mark.parametrize(
    "embedder, message",
    [
        (
            "{ pretrained: 'smal' }",
            "embedder.pretrained: expected medium, small, tiny, or another with dim; found .smal",
        ),
        ("{ pretraind: 'small' }", "embedder: expected pretrained, archive_file, .*pretraind"),
    ],
)
def test_misspelled_weights(embedder, message):
    """The message names what is misspelled, not the size that follows from it."""
    with pytest.raises(RuntimeError, match=message):
        sized(embedder)


def test_readers_keep_their_indexers():
    """AllenNLP's default indexer is there by its name where a reader named none."""
    config = turned("input")
    elmo = {"type": "elmo", "max_characters_per_token": 50}
    assert config["dataset_reader"]["token_indexers"] == {"tokens": "single_id", "elmo": elmo}
    assert config["validation_dataset_reader"]["token_indexers"] == {
        "words": {"type": "single_id"},
        "elmo": elmo,
    }


def test_an_embedder_of_unknown_size_in_front():
    """By hand: where the second mix starts can't be told without `dims`, which comes before what is
    found. At the input it does not matter."""
    base = BASE.replace("embedding_dim: 7", "num_embeddings: 7")
    turned("input", base)
    with pytest.raises(RuntimeError, match=r'"characters".*dims={ characters: \.\.\. }'):
        turned("both", base)
    assert turned("both", base, "dims={ characters: 7 }") == turned(
        "both", base, "dims={ characters: 7, tokens: 5 }"
    )
    assert turned("both", base, "dims={ characters: 7 }")["model"]["encoder"]["start"] == 7 + 20
    with pytest.raises(RuntimeError, match=r"dims\.characters: expected 7, the size .* found 9"):
        turned("output", BASE, "dims={ characters: 9 }")


@pytest.mark.parametrize(
    "characters",
    [
        "{ type: 'character_encoding', encoder: { type: 'mine', output_size: 9 } }",
        "{ type: 'character_encoding', encoder: 'mine' }",
        "{ type: 'mine', embedding_dim: 4 }",
    ],
)
def test_a_size_that_only_dims_gives(characters):
    """By hand: 9 columns before those of the input mix; the config has no size of vectors."""
    base = BASE.replace("{ type: 'embedding', embedding_dim: 7 }", characters)
    assert turned("both", base, "dims={ characters: 9 }")["model"]["encoder"]["start"] == 9 + 20


@pytest.mark.parametrize(
    "encoder",
    [
        {"type": "cnn", "embedding_dim": 4, "num_filters": 3},
        {"type": "cnn", "embedding_dim": 4, "num_filters": 3, "ngram_filter_sizes": [2, 3]},
        {"type": "cnn", "embedding_dim": 4, "num_filters": 3, "output_dim": 7},
        {"type": "cnn", "embedding_dim": 4, "num_filters": 3, "output_dim": None},
        {
            **{"type": "cnn-highway", "embedding_dim": 4, "filters": [[2, 3]], "num_highway": 1},
            "projection_dim": 7,
        },
        {"type": "boe", "embedding_dim": 4},
        {"type": "lstm", "input_size": 4, "hidden_size": 3},
        {"type": "gru", "input_size": 4, "hidden_size": 3, "bidirectional": True},
        {
            **{"type": "stacked_bidirectional_lstm", "input_size": 4, "hidden_size": 3},
            "num_layers": 1,
        },
    ],
    ids=lambda encoder: f"{encoder['type']} {len(encoder)}",
)
def test_characters_in_front(encoder):
    """AllenNLP's own encoder has the expected size."""
    embedder = {"type": "character_encoding", "embedding": {"embedding_dim": 4}, "encoder": encoder}
    base = BASE.replace("{ type: 'embedding', embedding_dim: 7 }", json.dumps(embedder))
    size = Seq2VecEncoder.from_params(Params(dict(encoder))).get_output_dim()
    assert turned("output", base)["model"]["encoder"]["start"] == size


def test_sizes_of_two_models():
    """By hand, with the sizes of `models.libsonnet` and 16 columns of ELMo. `coref`: a span has the
    attended embedded text once, and the encoder's output at both ends; two spans and their product
    are compared. `bimpm` reads each half of its encoder's output by itself."""
    coref = with_elmo("coref", "both", "any")["model"]
    assert coref["context_layer"]["encoder"]["input_size"] == 5 + 16
    assert coref["mention_feedforward"]["input_dim"] == 19 + 2 * 16 + 2 * 16
    assert coref["antecedent_feedforward"]["input_dim"] == 3 * 19 + 2 + 3 * (2 * 16 + 2 * 16)
    bimpm = with_elmo("bimpm", "output", "any")["model"]
    assert bimpm["encoder1"]["encoder"]["input_size"] == 5
    assert bimpm["matcher_word"]["hidden_dim"] == 5 + 16
    assert bimpm["matcher_forward1"]["hidden_dim"] == 3 + 8
    assert bimpm["matcher_backward1"]["hidden_dim"] == 3 + 8
    assert bimpm["encoder2"]["input_size"] == 6 + 16
    assert bimpm["matcher_forward2"]["hidden_dim"] == 3


@pytest.mark.parametrize(
    "encoder, expected, output",
    [
        ("{ type: 'pass_through', input_dim: 5 }", {"type": "pass_through", "input_dim": 21}, 16),
        (
            "{ type: 'compose', encoders: [{ type: 'pass_through', input_dim: 5 }, "
            "{ type: 'lstm', input_size: 5, hidden_size: 3 }] }",
            {
                "type": "compose",
                "encoders": [
                    {"type": "pass_through", "input_dim": 21},
                    {"type": "lstm", "input_size": 21, "hidden_size": 3},
                ],
            },
            0,
        ),
        (
            "{ type: 'feedforward', feedforward: { input_dim: 5, hidden_dims: 6 } }",
            {"type": "feedforward", "feedforward": {"input_dim": 21, "hidden_dims": 6}},
            0,
        ),
    ],
)
def test_encoders(encoder, expected, output):
    """By hand: 16 columns go through an encoder whose output has the size of its input."""
    model = with_elmo(f"crf_tagger {{ model+: {{ encoder: {encoder} }} }}", "input", "any")["model"]
    assert model["encoder"] == expected
    assert model["feedforward"]["input_dim"] == 6 + output


def test_another_name_of_the_bag_of_embeddings():
    """Expected: what `bag_of_embeddings`, AllenNLP's other name of the same encoder, gives."""
    models = [
        with_elmo(f"basic_classifier {{ model+: {{ {bag} }} }}", "both", "any")
        for name in ("bag_of_embeddings", "boe")
        for bag in [f"seq2vec_encoder+: {{ type: '{name}' }}"]
    ]
    assert Seq2VecEncoder.by_name("boe") is Seq2VecEncoder.by_name("bag_of_embeddings")
    models[1]["model"]["seq2vec_encoder"]["type"] = "bag_of_embeddings"
    assert models[0] == models[1]


@pytest.mark.parametrize("place, extra, start", [("input", 16, None), ("both", 16, 5 + 16)])
def test_a_model_that_is_not_in_the_table(place, extra, start):
    """By hand: its sizes are found by the paths of the argument, in modules and in numbers; ELMo
    comes after "a"."""
    base = """{
      dataset_reader: { type: 'any' },
      model: {
        type: 'mine',
        embed: { token_embedders: { a: { embedding_dim: 5 } } },
        layers: { first: { type: 'lstm', input_size: 5 }, n_columns: 5 },
        rest: { input_dim: 6 },
      },
    }"""
    paths = """{
      embedder: 'embed',
      encoder: 'layers.first',
      input: { 'layers.n_columns': 2 },
      output: { rest: 3 },
    }"""
    model = evaluated(f"{LIBRARY}.{place}({base}, {{}}, dim=16, paths={paths})")["model"]
    encoder = model["layers"]["first"]
    if start is not None:
        assert (encoder["type"], encoder["start"]) == ("elmo_output", start)
        encoder = encoder["encoder"]
    n_mixes = 1 if start is None else 2
    assert encoder == {"type": "lstm", "input_size": 5 + 16}
    assert model["layers"]["n_columns"] == 5 + 2 * n_mixes * 16
    assert model["rest"] == {"input_dim": 6 + 3 * 16 * (n_mixes - 1)}
    assert model["embed"]["token_embedders"]["elmo"]["num_output_representations"] == n_mixes


def test_two_bilms():
    """By hand: "b" (8 a mix) comes before "elmo" (16 a mix), both in each place."""
    once = f"{LIBRARY}.both(models.simple_tagger, {{}}, dim=16, l2=0.1)"
    config = evaluated(f"{LIBRARY}.both({once}, {{}}, dim=8, key='b', l2=0.2)")
    outer = config["model"]["encoder"]
    assert (outer["elmo_dim"], outer["start"]) == (8, 8)
    assert (outer["encoder"]["elmo_dim"], outer["encoder"]["start"]) == (16, 8 + 16)
    assert outer["encoder"]["encoder"]["input_size"] == 5 + 8 + 16
    assert config["model"]["regularizer"]["regexes"] == [
        ["token_embedder_b\\..*scalar_parameters", {"type": "l2", "alpha": 0.2}],
        ["token_embedder_elmo\\..*scalar_parameters", {"type": "l2", "alpha": 0.1}],
    ]
    once = f"{LIBRARY}.both(models.bidaf, {{}}, dim=16)"
    model = evaluated(f"{LIBRARY}.both({once}, {{}}, dim=8, key='b')")["model"]
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


@pytest.mark.parametrize("embedder", ["use_top_only: true", "scalar_mix_parameters: [0, 0, 0]"])
def test_a_penalty_without_weights(embedder):
    """There is nothing to penalize."""
    with pytest.raises(RuntimeError, match="l2: expected null without a learned mix"):
        evaluated(f"{LIBRARY}.input({BASE}, {{ pretrained: 'tiny', {embedder} }}, l2=0.1)")


def test_null_is_the_default():
    """AllenNLP's own default is meant: one indexer, no reader of its own, an output that grows."""
    config = f"""{BASE} + {{
      validation_dataset_reader: null,
      dataset_reader+: {{ token_indexers: null }},
      model+: {{ encoder: {{ type: 'multi_head_self_attention', input_dim: 12,
                             output_projection_dim: null }} }},
    }}"""
    found = turned("input", config)
    assert sorted(found["dataset_reader"]["token_indexers"]) == ["elmo", "tokens"]
    assert found["validation_dataset_reader"] is None
    assert found["model"]["feedforward"]["input_dim"] == 9 + 20


def test_the_output_of_a_stacked_bidirectional_lstm():
    """By hand: its output of 2 x 3 grows by the 16 columns of its input, 8 in each direction."""
    lstm = "{ type: 'stacked_bidirectional_lstm', input_size: 5, hidden_size: 3 }"
    model = f"decomposable_attention {{ model+: {{ premise_encoder: {lstm} }} }}"
    encoder = with_elmo(model, "input", "any")["model"]["premise_encoder"]
    assert (encoder["input_size"], encoder["hidden_size"]) == (5 + 16, 3 + 8)


def test_the_initializers_of_coref_reach_its_encoder():
    """The wrapper `elmo_output` changes the names of the parameters."""
    file = f"(import '{CONFIGS}/coref.jsonnet')"
    for place, name in (("input", "_module"), ("both", "_encoder._module")):
        config = evaluated(f"{LIBRARY}.{place}({file}, {{ pretrained: 'tiny' }})")
        regexes = config["model"]["initializer"]["regexes"]
        for weight, initializer in (
            ("weight_ih_l0", "xavier_normal"),
            ("weight_hh_l0", "orthogonal"),
        ):
            parameter = f"_context_layer.{name}.{weight}"
            assert [how for regex, how in regexes if re.search(regex, parameter)] == [initializer]


def test_initializers_with_escaped_dots_and_exceptions():
    """The names are those of the parameters in the wrapper. A dot has two spellings."""
    patterns = r"regexes: [['.*', 'zero'], ['_context_layer\\._module\\.weight', 'xavier_normal']]"
    prevented = "prevent_regexes: ['_context_layer._module.bias']"
    file = f"(import '{CONFIGS}/coref.jsonnet')"
    changed = f"{file} {{ model+: {{ initializer: {{ {patterns}, {prevented} }} }} }}"
    model = evaluated(f"{LIBRARY}.both({changed}, {{ pretrained: 'tiny' }})")["model"]
    (_, (regex, _)), (exception,) = (
        model["initializer"][key] for key in ("regexes", "prevent_regexes")
    )
    assert re.search(regex, "_context_layer._encoder._module.weight_ih_l0")
    assert re.search(exception, "_context_layer._encoder._module.bias_ih_l0")


def test_patterns_of_other_modules_and_of_the_regularizer_still_match():
    """The names are those of the parameters in the converted models. `_encoder._module` is also
    a part of the names of other encoders."""
    names = {
        "esim": [
            "_encoder._encoder._module.weight_hh_l0",
            "_inference_encoder._module.weight_hh_l0",
        ],
        "bidaf": ["_phrase_layer._encoder._module.weight_hh_l0"],
    }
    patterns = (
        "['_phrase_layer._module', {type: 'l2'}], ['_encoder._module.weight_hh', {type: 'l2'}]"
    )
    applicator = f"{{ regexes: [{patterns}] }}"
    for task, parameters in names.items():
        file = f"(import '{CONFIGS}/{task}.jsonnet')"
        changed = f"{file} {{ model+: {{ initializer: {applicator}, regularizer: {applicator} }} }}"
        model = evaluated(f"{LIBRARY}.both({changed}, {{ pretrained: 'tiny' }})")["model"]
        for key in ("initializer", "regularizer"):
            regexes = [regex for regex, _ in model[key]["regexes"]]
            for parameter in parameters:
                assert any(re.search(regex, parameter) for regex in regexes), (key, parameter)


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


def test_the_targets_of_a_decoder_keep_their_size():
    """Without `target_embedding_dim`, the targets of `simple_seq2seq` have the size of the embedded
    sources, which is 5 without ELMo."""
    for place in ("input", "both"):
        model = with_elmo("simple_seq2seq { model+: { target_embedding_dim: null } }", place, "any")
        assert model["model"]["target_embedding_dim"] == 5


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


def test_targets_are_not_indexed():
    """By hand: targets have the indexers that they had, which are those of sources by default."""
    reader = with_elmo("simple_seq2seq", "input", "any")["dataset_reader"]
    assert reader["target_token_indexers"] == {"tokens": "single_id"}
    assert sorted(reader["source_token_indexers"]) == ["elmo", "tokens"]


@pytest.mark.parametrize(
    "model, place, arguments, message",
    [
        ("basic_classifier_without_encoder", "output", "", "contextual.*without seq2seq_encoder"),
        (
            "decomposable_attention",
            "both",
            "",
            "contextual.*premise_encoder and hypothesis_encoder",
        ),
        ("crf_tagger { model+: { type: 'mine' } }", "input", "", "paths={ encoder: .*found mine"),
        ("crf_tagger { model+: { encoder: { type: 'x' } } }", "input", "", 'type "x".*input_size'),
        (
            "crf_tagger { model+: { encoder: { type: 'gated-cnn-encoder', input_dim: 5 } } }",
            *("input", "", "gated-cnn-encoder.*an input that can grow"),
        ),
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
        ("crf_tagger", "input", ", paths={ output: { mine: 1 } }", "paths: .*found mine"),
        ("crf_tagger", "input", ", paths={ encoder: 'mine' }", "paths: .*found mine"),
        ("crf_tagger", "input", ", paths={ outputs: {} }", "paths: .*input, output; found outputs"),
        ("crf_tagger", "input", ", paths={ embedder: 'a.b' }", "paths: .*; found a.b"),
        (
            "crf_tagger",
            "input",
            ", paths={ encoder: [5] }",
            r"paths\.encoder: .*paths; found \[5\]",
        ),
        ("crf_tagger", "input", ", paths={ input: ['x'] }", r'paths\.input: .*; found \["x"\]'),
        ("crf_tagger", "input", ", paths={ output: { x: '1' } }", r"paths\.output: .*; found {"),
        ("crf_tagger", "input", ", paths={ embedder: ['x'] }", r"paths\.embedder: .*; found"),
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
    "paths": ["true", "'encoder'", "5", "['encoder']"],
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
    with pytest.raises(RuntimeError, match=f"elmo.libsonnet: {argument}: expected .*; found "):
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


def test_a_reader_by_its_name():
    """AllenNLP reads a string as a type, whose default indexer is there by its name."""
    reader = turned("input", BASE.replace("{ type: 'any' }", "'any'", 1))["dataset_reader"]
    assert reader["type"] == "any" and set(reader["token_indexers"]) == {"tokens", "elmo"}


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
