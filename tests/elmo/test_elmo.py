import copy
import re
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import cached_path
import numpy
import pandas
import pytest
import torch
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.corpora import dump
from elmo_plugin.elmo import elmo as elmo_module
from elmo_plugin.elmo import frozen
from elmo_plugin.elmo.layers import batches_by_length
from tests.compare import assert_close
from tests.conftest import Reads

SENTENCES = [["The", "dog"], ["He", "threw", "the", "stick", "."], ["A"]]


@pytest.fixture(scope="module")
def elmo(bilm_files):
    return Elmo.from_files(*bilm_files)


def test_embed_gives_the_vectors_of_forward(elmo):
    """The expected vectors are those of `forward` for the same batch."""
    expected = elmo(batch_to_ids([SENTENCES[1]]))["elmo_representations"][0][0].detach().numpy()
    for sentence in (SENTENCES[1], " ".join(SENTENCES[1]), f" {'  '.join(SENTENCES[1])}\n"):
        found = elmo.embed(sentence)
        assert isinstance(found, numpy.ndarray) and found.dtype == numpy.float32
        numpy.testing.assert_allclose(found, expected, atol=1e-6)
    found = elmo.embed(SENTENCES)
    assert [x.shape for x in found] == [(2, 16), (5, 16), (1, 16)]
    numpy.testing.assert_allclose(found[1], expected, atol=1e-5)
    tensors = elmo.embed(SENTENCES, as_tensors=True)
    assert all(torch.equal(x, torch.from_numpy(y)) for x, y in zip(tensors, found))


@pytest.mark.parametrize("pool", [None, "mean"])
@pytest.mark.parametrize("is_cached", [False, True])
def test_a_batch_is_copied_from_the_device_at_once(pool, is_cached, bilm_files, tmp_path):
    """By definition: a CPU waits for a GPU with each copy. Those of a batch are as many for three
    sentences as for one. The CPU stands in for the GPU."""
    found = []
    for sentences in (SENTENCES, SENTENCES[:1]):
        cache = tmp_path / f"{len(sentences)}" if is_cached else None
        elmo = Elmo.from_files(*bilm_files, cache_dir=cache)
        elmo.fingerprint()
        with Reads() as reads:
            elmo.embed(sentences, pool=pool)
        found.append(reads.names.count("cpu"))
    assert found[0] == found[1]


def test_layer_norm_is_of_a_sentence(bilm_files):
    """The oracle is AllenNLP's `Elmo` for a batch of one sentence, which starts from zeros. The
    vectors are the same in any order, in any batch, and however they are asked for; only `forward`,
    which is a task's, normalizes a whole batch, as AllenNLP does."""
    mix = {"do_layer_norm": True, "scalar_mix_parameters": [1, 0, 2]}
    stock = StockElmo(*bilm_files, 1, dropout=0.0, **mix)
    ours = Elmo.from_files(*bilm_files, initial_state="zero", **mix)

    def stocks(batch):
        stock._elmo_lstm._elmo_lstm.reset_states()
        return stock(batch_to_ids(batch))["elmo_representations"][0].detach().numpy()

    expected = [stocks([sentence])[0] for sentence in SENTENCES]
    words = {word for own in SENTENCES for word in own}
    places = [(own, i, i + 1) for own in SENTENCES for i in range(len(own))]
    program = ours.export().module()
    for name, found in {
        "embed": ours.embed(SENTENCES, "mix"),
        "reversed": ours.embed(SENTENCES[::-1], "mix")[::-1],
        "small batches": ours.embed(SENTENCES, "mix", max_tokens=1),
        "alone": [ours.embed(sentence) for sentence in SENTENCES],
        "stream": list(ours.stream(SENTENCES)),
        "export": [x[: len(y)] for x, y in zip(program(batch_to_ids(SENTENCES)), SENTENCES)],
    }.items():
        for vectors, own in zip(found, expected, strict=True):
            assert_close(vectors, own, what=name, atol=1e-5)
    for name, vectors in {
        "spans": ours.embed_spans(*zip(*places), "mix", unit="tokens"),
        "uses": numpy.stack(ours.uses(SENTENCES, words, "mix")["vector"]),
        "pool": [x * len(y) for x, y in zip(ours.embed(SENTENCES, pool="mean"), SENTENCES)],
    }.items():
        own = [x.sum(axis=0) for x in expected] if name == "pool" else numpy.concatenate(expected)
        assert_close(vectors, own, what=name, atol=1e-5)
    of_batch = ours(batch_to_ids(SENTENCES))["elmo_representations"][0]
    assert_close(of_batch, stocks(SENTENCES), what="forward", atol=1e-5)
    assert abs(of_batch[0, :2].detach().numpy() - expected[0]).max() > 1e-3


def test_progress(elmo, capsys, monkeypatch):
    """By hand: the bar counts all sentences, also those of raw strings, and changes no vector. Of
    a generator, `stream` does not know how many there are. Without progress nothing is printed, and
    tqdm, which would start a thread, is not called."""
    with monkeypatch.context() as patch:
        patch.setattr("elmo_plugin.elmo.elmo.tqdm", None)
        expected = elmo.embed(SENTENCES)
        streamed = list(elmo.stream(SENTENCES))
    assert capsys.readouterr().err == ""
    for read, known, shown in (
        (lambda: elmo.embed(SENTENCES, progress=True, max_tokens=7), expected, "3/3 ["),
        (lambda: elmo.stream(SENTENCES, progress=True), streamed, "3/3 ["),
        (lambda: elmo.stream((x for x in SENTENCES), progress=True), streamed, "3 sentences ["),
    ):
        assert all(numpy.allclose(x, y, atol=1e-5) for x, y in zip(read(), known, strict=True))
        assert shown in capsys.readouterr().err
    elmo.embed(["A dog ran. It sat.", "It ran."], raw=True, progress=True)
    assert "3/3 [" in capsys.readouterr().err


@pytest.mark.parametrize("tokens", ["He ran", [["He"]], torch.ones(1, 2, dtype=torch.long)])
def test_forward_reads_character_ids(elmo, tokens):
    """The message names the method that makes them."""
    with pytest.raises(
        ValueError, match=r"ids of shape .* Elmo\.characters .* found (str|list|\()"
    ):
        elmo(tokens)


def test_other_ways_to_load(bilm_files):
    """The first argument is a biLM, not the name of one."""
    with pytest.raises(InputError, match=r"bilm: expected a BiLM; from_pretrained.*found 'small'"):
        Elmo("small")


def test_data_parallel_is_refused(elmo):
    """A replica, as `torch.nn.DataParallel` makes it, has no parameters, so that a biLM that is
    fine-tuned would look frozen."""
    replica = elmo._replicate_for_data_parallel()
    with pytest.raises(RuntimeError, match=r"DistributedDataParallel, found .*DataParallel"):
        replica(elmo.characters(SENTENCES))


def test_layers(elmo):
    """A fresh mix is the average, h_0 is the word's vector twice, and the other layers are asked
    for by number."""
    layers = elmo.embed(SENTENCES[0], layer="all")
    assert layers.shape == (3, 2, 16)
    assert numpy.array_equal(layers[0, :, :8], layers[0, :, 8:])
    numbers = [("top", layers[2]), (0, layers[0]), (1, layers[1]), (numpy.int64(1), layers[1])]
    for layer, expected in numbers:
        assert numpy.array_equal(elmo.embed(SENTENCES[0], layer=layer), expected)
    for layer in ("average", "mix"):
        numpy.testing.assert_allclose(
            elmo.embed(SENTENCES[0], layer=layer), layers.mean(axis=0), atol=1e-6
        )
    with pytest.raises(ValueError, match=r"below 3.*3"):
        elmo.embed(SENTENCES[0], layer=3)


@pytest.mark.parametrize("initial_state", ["zero", "warm", "carry"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_layers_without_boundaries(bilm_files, initial_state, requires_grad):
    """The expected numbers, and gradients, are those of the layers with boundaries, of which the
    boundaries are left out; for the second batch too, which `carry` reads from another state."""
    how = {"initial_state": initial_state, "requires_grad": requires_grad}
    whole, inner = (Elmo.from_files(*bilm_files, **how) for _ in range(2))
    for batch in ([*SENTENCES, []], [[], []], SENTENCES[::-1]):
        tokens = whole.characters(batch)
        expected, mask = whole.layers(tokens)
        assert mask.sum(dim=1).tolist() == [len(sentence) + 2 for sentence in batch]
        found, mask = inner.layers(tokens, boundaries=False)
        assert mask.sum(dim=1).tolist() == list(map(len, batch))
        for k, (x, y) in enumerate(zip(found, expected, strict=True)):
            y = y[:, 1:-1] * mask[:, :, None]
            torch.testing.assert_close(x, y, atol=1e-5, rtol=0, msg=f"layer {k}")
        if requires_grad and mask.any():
            sum(h[:, 1:-1][mask].square().sum() for h in expected).backward()
            sum(h[mask].square().sum() for h in found).backward()
    for p, q in zip(whole.bilm.parameters(), inner.bilm.parameters(), strict=True):
        assert (p.grad is not None) == requires_grad
        torch.testing.assert_close(q.grad, p.grad, atol=1e-4, rtol=1e-4)


def test_batches_are_bounded():
    """By hand: with its boundaries a sentence of 8 tokens is 10 long. The shorter ones of a batch
    are padded, and a longer sentence is alone."""
    assert list(batches_by_length([8, 8], 20)) == [[0, 1]]
    assert list(batches_by_length([8, 8], 19)) == [[0], [1]]
    assert list(batches_by_length([3, 8, 30, 3], 20)) == [[2], [1, 0], [3]]


def test_rows_under_carry_stay_where_they_are(bilm_files):
    """Two calls of two sentences each, of which each is the longer once. The expected vectors are
    those of the batches in the given order, in which a row keeps its own state."""
    one, other = (Elmo.from_files(*bilm_files, initial_state="carry") for _ in range(2))
    for batch in ([["A"], ["He", "threw", "it"]], [["The", "stick", "."], ["It"]]):
        layers, _ = other.layers(other.characters(batch), boundaries=False)
        for found, expected, sentence in zip(one.embed(batch, "top"), layers[-1], batch):
            assert_close(found, expected[: len(sentence)], atol=1e-6, what=str(sentence))


def test_resume_under_carry(bilm_files):
    """Another `Elmo` that loads the weights and `resume_state`, as the checkpointer does on
    recovery, gives bit-identical next vectors."""
    first, second = (Elmo.from_files(*bilm_files, initial_state="carry") for _ in range(2))
    module = torch.nn.ModuleDict({"elmo": second})
    assert first.resume_state() == {}
    first.embed(SENTENCES)
    weights = {f"elmo.{name}": x.clone() for name, x in first.state_dict().items()}
    carried = {name: x.clone() for name, x in first.resume_state().items()}
    module.load_state_dict({**weights, "elmo.resume_state": carried})
    expected = first.embed(SENTENCES[1])
    assert numpy.array_equal(second.embed(SENTENCES[1]), expected)
    module.load_state_dict(weights)
    assert not numpy.allclose(second.embed(SENTENCES[1]), expected, atol=1e-4)


def test_empty(elmo):
    """An empty sentence gives a shape with no rows, and no sentences give an empty list."""
    assert elmo.embed([]) == []
    assert elmo.embed("").shape == (0, 16)
    assert elmo.embed([[], ["A"]], layer="all")[0].shape == (3, 0, 16)
    assert elmo.characters([]).shape == (0, 0, 50)


@pytest.mark.parametrize("layer", ["mix", "all", "top", 0])
def test_pool(elmo, layer):
    """The expected vectors are NumPy's means over tokens, and zeros for a sentence without
    tokens."""
    expected = [vectors.mean(axis=-2) for vectors in elmo.embed(SENTENCES, layer)]
    found = elmo.embed([*SENTENCES, []], layer, pool="mean")
    assert found.shape == (4, 3, 16) if layer == "all" else (4, 16)
    assert found.dtype == numpy.float32 and not found[3].any()
    numpy.testing.assert_allclose(found[:3], expected, atol=1e-6)
    numpy.testing.assert_allclose(elmo.embed(SENTENCES[1], layer, pool="mean"), expected[1], 1e-4)
    tensors = elmo.embed([*SENTENCES, []], layer, as_tensors=True, pool="mean")
    assert torch.equal(tensors, torch.from_numpy(found))
    assert elmo.embed([], layer, pool="mean").shape == (0, *found.shape[1:])
    with pytest.raises(InputError, match=r"^pool: expected one of 'mean', found 'max'$"):
        elmo.embed(SENTENCES, layer, pool="max")


def test_a_series_of_sentences(elmo):
    """The expected vectors are those of a list of the same sentences, whatever the index is. A
    sentence of one word is a sentence, and rows may be lists of tokens."""
    expected = elmo.embed([["A", "dog"], ["dog"], []])
    frame = pandas.DataFrame({"text": ["A  dog", "dog", ""]}, index=["x", "y", "x"])
    for series in (frame["text"], frame["text"].str.split(), frame["text"].astype("category")):
        for found, right in zip(elmo.embed(series), expected, strict=True):
            numpy.testing.assert_allclose(found, right, atol=1e-6)
    assert elmo.embed(frame["text"], pool="mean").shape == (3, 16)
    with pytest.raises(ValueError, match=r"found a DataFrame; choose one of its columns$"):
        elmo.embed(frame)


@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA, pandas.NaT, 3])
def test_a_missing_value_in_a_series(elmo, missing):
    """The message names the value by its index."""
    series = pandas.Series(["A dog", missing], index=["first", "second"], dtype=object)
    message = "row 'second': expected a sentence or a list of its tokens, found "
    with pytest.raises(ValueError, match=f"^{message}{re.escape(repr(missing))}$"):
        elmo.embed(series)


def test_many_sentences_in_any_order(elmo):
    """Sentences are read in batches by length, and the vectors come in the order of the
    sentences."""
    random = numpy.random.default_rng(0)
    sentences = [[f"w{n}"] * n for n in random.integers(1, 60, 200)]
    for sentence, vectors in zip(sentences, elmo.embed(sentences)):
        assert len(vectors) == len(sentence)
    numpy.testing.assert_allclose(elmo.embed(sentences)[7], elmo.embed(sentences[7]), atol=1e-5)


def test_archive_and_files(bilm_archive):
    """An archive that is loaded twice gives the same numbers, and `warm` and `zero` give different
    ones."""
    warm, again = (Elmo.from_archive(bilm_archive).embed("the dog") for _ in range(2))
    zero = Elmo.from_archive(bilm_archive, initial_state="zero").embed("the dog")
    assert numpy.array_equal(warm, again)
    assert numpy.abs(warm - zero).max() > 1e-6


@pytest.mark.parametrize(
    "sentences, message",
    [
        (None, "expected a sentence, its tokens in a list, or a list of such lists, found None"),
        (3, "expected a sentence, its tokens in a list, or a list of such lists, found 3"),
        ({"A": 1}, "or a list of such lists, found {'A': 1}"),
        ([["A"], None], "sentence 1: expected a list of tokens, found None"),
        (
            [["A", 3]],
            "sentence 0: expected tokens, which are words without tabs and line breaks, found 3",
        ),
        (
            [["The", "dog"], ["A\tcat"]],
            "sentence 1: expected tokens, which are words without tabs and line breaks, found "
            "'A\\tcat'",
        ),
        (
            numpy.array([["He", "ran"], ["He", ""]]),
            "sentence 1: expected tokens, which are words without tabs and line breaks, found ''",
        ),
        (["A", None], "found a string and None in one"),
        (["A", ["B"]], "found a string and ['B'] in one"),
        (
            ["The dog .", "A cat ."],
            "one sentence: expected tokens, which are strings without spaces, found 'The dog .' "
            "among them; several sentences are a list of lists: [s.split() for s in sentences]; a "
            "space inside a token is read as _ in a list of lists, such as [tokens]",
        ),
    ],
)
def test_values_that_are_not_sentences(elmo, sentences, message):
    """The message has the expected and the found value, and its place."""
    with pytest.raises(ValueError, match=f"{re.escape(message)}$"):
        elmo.embed(sentences)


def test_letters_are_not_tokens(elmo):
    """A string is a sequence of its letters, and a sentence for `embed` and `characters` alike."""
    assert torch.equal(elmo.characters("A cat ."), elmo.characters([["A", "cat", "."]]))
    for sentences in (["A cat .", "A dog ."], [["A"], "A dog ."]):
        with pytest.raises(ValueError, match=r"expected (tokens|a list of tokens).* found"):
            elmo.characters(sentences)


@pytest.mark.parametrize("token", ["", " ", "\u00a0", "\t", "a\nb", None, 3])
def test_characters_of_what_is_no_token(elmo, token):
    """The error is that of `embed`. As a token, it would change the vectors of the real ones."""
    sentences = [["A"], ["He", token, "ran"]]
    with pytest.raises(ValueError, match=r"^sentence 1: expected tokens.*, found ") as expected:
        elmo.embed(sentences)
    with pytest.raises(ValueError, match=f"^{re.escape(str(expected.value))}$"):
        elmo.characters(sentences)


def test_spaces_that_only_a_string_is_split_at(elmo):
    """By `str.split`. The vectors of a list are those of its tokens, which are not split, also if
    it is a single sentence, and in which the space is an underscore."""
    for space in "\u00a0\u3000\u2028\u0085":
        assert len(elmo.embed(f"10{space}000 dogs")) == 3
        expected = elmo.embed("10_000 dogs")
        numpy.testing.assert_allclose(elmo.embed([f"10{space}000", "dogs"]), expected, atol=1e-6)
        assert elmo.characters([[f"10{space}000", "dogs"]]).shape == (1, 2, 50)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.bfloat16, torch.float32, torch.bool])
def test_a_type_that_cannot_hold_ids(elmo, dtype):
    """Ids go up to 261, of which a byte keeps five and a bfloat16 rounds."""
    with pytest.raises(ValueError, match=f"int16, int32 or int64, found {dtype}$"):
        elmo(elmo.characters(SENTENCES).to(dtype))


@pytest.mark.parametrize("max_tokens", [1, 12, 2**31 - 1])
def test_max_tokens(elmo, monkeypatch, max_tokens):
    """By hand: with boundaries the sentences have 3, 4 and 5 tokens, so that two fit in 12. The
    vectors are those of the default."""
    sentences = [["A"], ["A", "dog"], ["A", "dog", "ran"]]
    expected, sizes = elmo.embed(sentences), []
    read = type(elmo.bilm).sentences

    def sentences_of(bilm, tokens, *rest, **more):
        sizes.append(len(tokens))
        return read(bilm, tokens, *rest, **more)

    monkeypatch.setattr(type(elmo.bilm), "sentences", sentences_of)
    found = elmo.embed(sentences, max_tokens=max_tokens)
    for x, y in zip(found, expected):
        numpy.testing.assert_allclose(x, y, atol=1e-6)
    assert sorted(sizes) == {1: [1, 1, 1], 12: [1, 2]}.get(max_tokens, [3])


@pytest.mark.parametrize("kind, tokens", [("cpu", 2048), ("meta", 16_384)])
def test_default_batches_depend_on_the_device(elmo, kind, tokens):
    """Those of docs/speed.md; a number that is given is the same everywhere, and so is the default
    under `carry`, where vectors depend on it."""
    elmo = copy.deepcopy(elmo).to(kind)
    assert [elmo.max_tokens(n) for n in (None, 7, 10**6)] == [tokens, 7, 10**6]

    def sentences_in_a_batch(**given):
        return dump._batch_size(elmo, dump.DumpSettings(layer="all", **given))

    assert sentences_in_a_batch() == tokens // 32
    assert sentences_in_a_batch(batch_size=3) == 3
    elmo.initial_state = "carry"
    assert sentences_in_a_batch() == 64


def test_parts_of_a_stream_have_several_batches(elmo, monkeypatch):
    """By hand: with boundaries a sentence has 3 tokens, so that 4 are a batch of 12. A part of at
    least 48 tokens has 16 of them, although its default is smaller."""
    parts, embed_rows = [], elmo.embed_rows
    monkeypatch.setattr(elmo_module, "PART_TOKENS", 4)
    monkeypatch.setattr(
        elmo,
        "embed_rows",
        lambda rows, **given: parts.append(len(rows)) or embed_rows(rows, **given),
    )
    assert len(list(elmo.stream([["A"]] * 20, max_tokens=12))) == 20
    assert parts == [16, 4]


def test_weights_of_which_some_are_missing(elmo):
    """Neither a failed `load_state_dict` nor one without the warm state gives the biLM weights."""
    state = elmo.state_dict()
    parameters = dict(elmo.named_parameters())
    for wrong in (parameters, {**state, "bilm.bilstm.layers.1.bias": torch.zeros(3)}):
        other = Elmo.from_options(elmo.bilm.options)
        with suppress(RuntimeError):
            other.load_state_dict(wrong, strict=wrong is not parameters)
        with pytest.raises(RuntimeError, match="weights were never loaded"):
            other.embed("A dog")
        other.load_state_dict(state)
        assert numpy.array_equal(other.embed("A dog"), elmo.embed("A dog"))


@pytest.mark.parametrize("assign", [True, False])
def test_made_on_the_device_meta(elmo, assign):
    """PyTorch's way to make a module without initial weights. `to_empty` gives any memory, so here
    it is filled with another id."""
    with torch.device("meta"):
        other = Elmo.from_options(elmo.bilm.options)
    if not assign:
        other.to_empty(device="cpu")
        other.bilm.boundaries.fill_(7)
    other.load_state_dict(elmo.state_dict(), assign=assign)
    assert numpy.array_equal(other.embed("A dog"), elmo.embed("A dog"))


def test_files_at_an_address(bilm_files, monkeypatch):
    """Each file is where `cached_path` has put it."""
    local = {f"https://example.org/{k}": path for k, path in enumerate(bilm_files)}
    monkeypatch.setattr(cached_path, "cached_path", lambda name, **_: local[name])
    found = Elmo.from_files(*local).embed("the dog")
    assert numpy.array_equal(found, Elmo.from_files(*bilm_files).embed("the dog"))


def test_files_at_home(bilm_files, monkeypatch):
    """`~` is the home folder, as a shell would have it."""
    folder = Path(bilm_files[0]).parent
    expected = Elmo.from_files(*bilm_files).embed("the dog")
    monkeypatch.setenv("HOME", str(folder))
    for files in (["~"], [f"~/{Path(file).name}" for file in bilm_files]):
        assert numpy.array_equal(Elmo.from_files(*files).embed("the dog"), expected)


@pytest.mark.parametrize("form", [tuple, iter, numpy.array])
def test_other_sequences_are_lists(elmo, form):
    """The expected vectors are those of a list of the same tokens. Only tuples are the tokens of a
    single sentence too, see `test_sentences.py`."""
    tokens = ["The", "dog", "."]
    expected = elmo.embed(tokens)
    assert expected.shape == (3, 16)
    assert numpy.array_equal(elmo.embed([form(tokens)])[0], expected)


def test_a_refused_model_leaves_the_bilm_alone(bilm_files):
    """Another `Elmo` of the same biLM has the vectors that it had."""
    elmo = Elmo.from_files(*bilm_files)
    expected = elmo.embed("The dog")
    for wrong in ({"precision": "int8", "requires_grad": True}, {"cache_dir": "/dev/null/cache"}):
        with pytest.raises((InputError, OSError)):
            Elmo(elmo.bilm, **{"precision": "bf16", **wrong})
    assert numpy.array_equal(elmo.embed("The dog"), expected)
    assert not any(parameter.requires_grad for parameter in elmo.bilm.parameters())


def test_threads_leave_the_mode_alone(bilm_files):
    """A model that is being trained stays in training mode while other threads embed with it, and
    its own dropout does not change their vectors."""
    elmo = Elmo.from_files(*bilm_files, dropout=0.5, requires_grad=True)
    expected = elmo.eval().embed("The dog .")
    elmo.train()
    modes = []
    with ThreadPoolExecutor(4) as threads:
        for found in threads.map(elmo.embed, ["The dog ."] * 40):
            modes.append(elmo.training)
            numpy.testing.assert_array_equal(found, expected)
    assert elmo.training and all(modes)


@pytest.mark.parametrize("layer", ["bottom", 3, -1, True, None, 1.5])
def test_a_refused_call_moves_no_state(bilm_files, layer):
    """Under `carry` a vector depends on earlier sentences, but not on those of a failed call."""
    elmo, other = (Elmo.from_files(*bilm_files, initial_state="carry") for _ in range(2))
    expected = [other.embed("The dog ."), other.embed("The dog .")]
    found = [elmo.embed("The dog .")]
    with pytest.raises(InputError, match=r"layer: expected mix, all, .* below 3, found"):
        elmo.embed("He threw it .", layer=layer)
    found.append(elmo.embed("The dog ."))
    numpy.testing.assert_array_equal(found, expected)


def test_cached_words_change_nothing(bilm_files, monkeypatch):
    """The vectors of a batch are bit-identical, regardless of which words were read before."""
    expected = Elmo.from_files(*bilm_files).embed(SENTENCES)
    for before in ([], [["the"]], [["He", "The", "dog", "A"]], SENTENCES):
        elmo = Elmo.from_files(*bilm_files)
        elmo.embed(before)
        for found, right in zip(elmo.embed(SENTENCES), expected):
            assert numpy.array_equal(found, right)
    monkeypatch.setattr(frozen, "CAPACITY", 4)
    elmo.clear_caches()
    for found, right in zip(elmo.embed(SENTENCES), expected):
        assert numpy.array_equal(found, right)
    assert len(elmo._frozen.packed.token_encoder._rows) <= 4
