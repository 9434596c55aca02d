import copy
from contextlib import suppress

import numpy
import pytest
import torch
from allennlp.modules.elmo import Elmo as StockElmo
from allennlp.modules.elmo import batch_to_ids

from elmo_plugin import Elmo, LanguageModel
from elmo_plugin.checks import InputError
from elmo_plugin.corpora import dump
from elmo_plugin.elmo import elmo as elmo_module
from elmo_plugin.elmo.layers import batches_by_length
from elmo_plugin.modules import BiLM
from tests.compare import assert_close
from tests.conftest import Reads

SENTENCES = [["The", "dog"], ["He", "threw", "the", "stick", "."], ["A"]]


@pytest.fixture(scope="module")
def elmo(bilm_files):
    return Elmo.from_files(*bilm_files)


def test_embed_gives_the_vectors_of_forward(elmo):
    """The expected vectors are those of `forward` for the same batch."""
    expected = elmo(batch_to_ids([SENTENCES[1]]))["elmo_representations"][0][0].detach().numpy()
    for sentence in (SENTENCES[1], f" {'  '.join(SENTENCES[1])}\n"):
        found = elmo.embed(sentence)
        assert isinstance(found, numpy.ndarray) and found.dtype == numpy.float32
        assert_close(found, expected, atol=1e-6, what="vectors")
    found = elmo.embed(SENTENCES)
    assert [x.shape for x in found] == [(2, 16), (5, 16), (1, 16)]
    assert_close(found[1], expected, atol=1e-5, what="vectors")
    assert all(map(numpy.array_equal, elmo.embed(SENTENCES, as_tensors=True), found))


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

    alone = [stocks([sentence])[0] for sentence in SENTENCES]
    expected = numpy.concatenate(alone)
    words = {word for own in SENTENCES for word in own}
    places = [(own, i, i + 1) for own in SENTENCES for i in range(len(own))]
    exported = ours.export().module()(batch_to_ids(SENTENCES))
    for name, found in {
        "embed": ours.embed(SENTENCES, "mix"),
        "reversed": ours.embed(SENTENCES[::-1], "mix")[::-1],
        "small batches": ours.embed(SENTENCES, "mix", max_tokens=1),
        "alone": [ours.embed(sentence) for sentence in SENTENCES],
        "stream": list(ours.stream(SENTENCES)),
        "export": [x[: len(y)].detach() for x, y in zip(exported, SENTENCES)],
        "spans": [ours.embed_spans(*zip(*places), "mix", unit="tokens")],
        "uses": [numpy.stack(ours.uses(SENTENCES, words, "mix")["vector"])],
    }.items():
        assert_close(numpy.concatenate(found), expected, what=name, atol=1e-5)
    means = [x.mean(axis=0) for x in alone]
    assert_close(ours.embed(SENTENCES, pool="mean"), means, what="pool", atol=1e-5)
    of_batch = ours(batch_to_ids(SENTENCES))["elmo_representations"][0].detach().numpy()
    assert_close(of_batch, stocks(SENTENCES), what="forward", atol=1e-5)
    assert abs(of_batch[0, :2] - alone[0]).max() > 1e-3


def test_progress(elmo, capsys, monkeypatch):
    """By hand: the bar counts all sentences, also those of raw strings, and changes no vector. Of
    a generator, `stream` does not know how many there are. Without progress nothing is printed, and
    tqdm, which would start a thread, is not called."""
    with monkeypatch.context() as patch:
        patch.setattr("elmo_plugin.elmo.elmo.tqdm", None)
        expected = elmo.embed(SENTENCES)
        list(elmo.stream(SENTENCES))
    assert capsys.readouterr().err == ""
    for read, shown in (
        (lambda: elmo.embed(SENTENCES, progress=True, max_tokens=7), "3/3 ["),
        (lambda: elmo.stream(SENTENCES, progress=True), "3/3 ["),
        (lambda: elmo.stream((x for x in SENTENCES), progress=True), "3 sentences ["),
    ):
        assert all(numpy.allclose(x, y, atol=1e-5) for x, y in zip(read(), expected, strict=True))
        assert shown in capsys.readouterr().err
    elmo.embed(["A dog ran. It sat.", "It ran."], raw=True, progress=True)
    assert "3/3 [" in capsys.readouterr().err


def test_what_is_refused(elmo):
    """The message names the method that makes them, or the types that hold them: ids go up to 261,
    of which a byte keeps five and a bfloat16 rounds."""
    ids = elmo.characters(SENTENCES)
    for wrong in ("He ran", [["He"]], ids[0, :2]):
        with pytest.raises(ValueError, match=r"Elmo\.characters .* found (str|list|\()"):
            elmo(wrong)
    for dtype in (torch.uint8, torch.bfloat16, torch.float32, torch.bool):
        with pytest.raises(ValueError, match=f"int16, int32 or int64, found {dtype}$"):
            elmo(ids.to(dtype))
    with pytest.raises(InputError, match=r"bilm: expected a BiLM; from_pretrained.*found 'small'"):
        Elmo("small")
    with pytest.raises(InputError, match=r"^bilm: expected a BiLM; .*found LanguageModel"):
        LanguageModel(model := LanguageModel.from_pretrained("tiny"), model.softmax, model.words)
    with pytest.raises(InputError, match=r"^softmax: expected a SampledSoftmax, found null$"):
        LanguageModel(model.bilm, None, model.words)
    # A replica has no parameters, so that a biLM that is fine-tuned would look frozen.
    with pytest.raises(RuntimeError, match=r"DistributedDataParallel, found .*DataParallel"):
        elmo._replicate_for_data_parallel()(ids)


def test_layers(elmo):
    """A fresh mix is the average, h_0 is the word's vector twice, and the other layers are asked
    for by number."""
    layers = elmo.embed(SENTENCES[0], layer="all")
    assert layers.shape == (3, 2, 16)
    assert numpy.array_equal(layers[0, :, :8], layers[0, :, 8:])
    for layer, k in (("top", 2), (0, 0), (1, 1), (numpy.int64(1), 1)):
        assert numpy.array_equal(elmo.embed(SENTENCES[0], layer=layer), layers[k])
    for layer in ("average", "mix"):
        found = elmo.embed(SENTENCES[0], layer=layer)
        assert_close(found, layers.mean(axis=0), atol=1e-6, what=layer)


@pytest.mark.parametrize("initial_state", ["zero", "warm", "carry"])
@pytest.mark.parametrize("requires_grad", [False, True])
def test_layers_without_boundaries(bilm_files, initial_state, requires_grad):
    """The expected numbers, and gradients, are those of the layers with boundaries, of which the
    boundaries are left out; for the second batch too, which `carry` reads from another state."""
    how = {"initial_state": initial_state, "requires_grad": requires_grad}
    whole, inner = (Elmo.from_files(*bilm_files, **how) for _ in range(2))
    for batch in ([*SENTENCES, []], [[], []], SENTENCES[::-1]):
        tokens = whole.characters(batch)
        layers, mask = whole.layers(tokens)
        assert mask.sum(dim=1).tolist() == [len(sentence) + 2 for sentence in batch]
        found, mask = inner.layers(tokens, boundaries=False)
        assert mask.sum(dim=1).tolist() == list(map(len, batch))
        expected = [h[:, 1:-1] * mask[:, :, None] for h in layers]
        assert_close(torch.stack(found), torch.stack(expected), atol=1e-5, what="layers")
        if requires_grad and mask.any():
            for own in (found, expected):
                sum(h.square().sum() for h in own).backward()
    for p, q in zip(whole.bilm.parameters(), inner.bilm.parameters(), strict=True):
        assert (p.grad is not None) == (q.grad is not None) == requires_grad
        assert p.grad is None or torch.allclose(q.grad, p.grad, atol=1e-4, rtol=1e-4)


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
    recovery, and is then moved, gives bit-identical next vectors."""
    first, second = (Elmo.from_files(*bilm_files, initial_state="carry") for _ in range(2))
    module = torch.nn.ModuleDict({"elmo": second})
    assert first.resume_state() == {}
    first.embed(SENTENCES)
    weights = {f"elmo.{name}": x.clone() for name, x in first.state_dict().items()}
    carried = {name: x.clone() for name, x in first.resume_state().items()}
    module.load_state_dict({**weights, "elmo.resume_state": carried})
    expected = first.embed(SENTENCES[1])
    assert numpy.array_equal(second.to("cpu").embed(SENTENCES[1]), expected)
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
    assert_close(found[:3], expected, atol=1e-6, what="means")
    one = elmo.embed(SENTENCES[1], layer, pool="mean")
    assert_close(one, expected[1], atol=1e-5, what="mean")
    tensors = elmo.embed([*SENTENCES, []], layer, as_tensors=True, pool="mean")
    assert torch.equal(tensors, torch.from_numpy(found))
    assert elmo.embed([], layer, pool="mean").shape == (0, *found.shape[1:])
    with pytest.raises(InputError, match=r"^pool: .*'mean', found 'max'"):
        elmo.embed(SENTENCES, layer, pool="max")


NO_TOKENS = ("", " ", "\u00a0", "\t", "a\nb", None, 3)


@pytest.mark.parametrize(
    "sentences, message",
    [
        (None, "expected a sentence, its tokens in a list, .*found None"),
        (3, "found 3"),
        ({"A": 1}, "found {'A': 1}"),
        ([["A"], None], "sentence 1: expected a list of tokens, found None"),
        (["A", None], "found a string and None"),
        (["A", ["B"]], r"found a string and \['B'\]"),
        (["The dog .", "A cat ."], r"found 'The dog \.'.*\[s\.split\(\) for s in sentences\]"),
        (numpy.array([["He", "ran"], ["He", ""]]), "sentence 1: expected tokens.*, found ''"),
        *(([["A"], ["He", x, "ran"]], "^sentence 1: expected tokens.*, found ") for x in NO_TOKENS),
    ],
)
def test_values_that_are_not_sentences(elmo, sentences, message):
    """The message has the expected and the found value, and its place. As a token, an empty string
    or a tab would change the vectors of the real ones."""
    for read in (elmo.embed, elmo.characters):
        with pytest.raises(ValueError, match=message):
            read(sentences)


def test_spaces_that_only_a_string_is_split_at(elmo):
    """By `str.split`. The vectors of a list are those of its tokens, which are not split, also if
    it is a single sentence, and in which the space is an underscore."""
    expected = elmo.embed("10_000 dogs")
    for space in "\u00a0\u3000\u2028\u0085":
        assert len(elmo.embed(f"10{space}000 dogs")) == 3
        assert_close(elmo.embed([f"10{space}000", "dogs"]), expected, atol=1e-6, what="vectors")
        assert elmo.characters([[f"10{space}000", "dogs"]]).shape == (1, 2, 50)


@pytest.mark.parametrize("max_tokens, sizes", [(1, [1, 1, 1]), (12, [1, 2]), (2**31 - 1, [3])])
def test_max_tokens(elmo, monkeypatch, max_tokens, sizes):
    """By hand: with boundaries the sentences have 3, 4 and 5 tokens, so that two fit in 12, also in
    a language model. The vectors are those of the default."""
    sentences = [["A"], ["A", "dog"], ["A", "dog", "ran"]]
    expected, read, found = elmo.embed(sentences), BiLM.sentences, []
    monkeypatch.setattr(
        BiLM, "sentences", lambda *given, **more: found.append(given[1]) or read(*given, **more)
    )
    for x, y in zip(elmo.embed(sentences, max_tokens=max_tokens), expected):
        assert_close(x, y, atol=1e-6, what="vectors")
    assert sorted(map(len, found)) == sizes
    found.clear()
    LanguageModel.from_pretrained("tiny").score(sentences, max_tokens=max_tokens)
    assert sorted(map(len, found)) == sizes


@pytest.mark.parametrize("kind, tokens", [("cpu", 2048), ("meta", 16_384)])
def test_default_batches_depend_on_the_device(elmo, kind, tokens):
    """Those of docs/speed.md; a number that is given is the same everywhere, and so is the default
    under `carry`, where vectors depend on it."""
    elmo = copy.deepcopy(elmo).to(kind)
    assert [elmo.max_tokens(n) for n in (None, 7, 10**6)] == [tokens, 7, 10**6]
    default, three = dump.DumpSettings(layer="all"), dump.DumpSettings(layer="all", batch_size=3)
    assert [dump._batch_size(elmo, x) for x in (default, three)] == [tokens // 32, 3]
    elmo.initial_state = "carry"
    assert dump._batch_size(elmo, default) == 64


def test_parts_of_a_stream_have_several_batches(elmo, monkeypatch):
    """By hand: with boundaries a sentence has 3 tokens, so that 4 are a batch of 12. A part of at
    least 48 tokens has 16 of them, although its default is smaller."""
    parts, read = [], elmo.embed_rows
    monkeypatch.setattr(elmo_module, "PART_TOKENS", 4)
    monkeypatch.setattr(elmo, "embed_rows", lambda x, **y: parts.append(len(x)) or read(x, **y))
    assert len(list(elmo.stream([["A"]] * 20, max_tokens=12))) == 20
    assert parts == [16, 4]


def test_weights_of_which_some_are_missing(elmo):
    """Neither a failed `load_state_dict` nor one without the warm state gives the biLM weights."""
    state = elmo.state_dict()
    parameters = dict(elmo.named_parameters())
    other_size = {**state, "bilm.bilstm.layers.1.bias": torch.zeros(3)}
    for wrong, strict in ((parameters, False), (other_size, True)):
        other = Elmo.from_options(elmo.bilm.options)
        with suppress(RuntimeError):
            other.load_state_dict(wrong, strict=strict)
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


@pytest.mark.parametrize("layer", ["bottom", 3, -1, True, None, 1.5, numpy.array([0, 1])])
def test_a_refused_call_moves_no_state(bilm_files, layer):
    """Under `carry` a vector depends on earlier sentences, but not on those of a failed call. What
    follows the layer is not `pool`."""
    elmo, other = (Elmo.from_files(*bilm_files, initial_state="carry") for _ in range(2))
    assert numpy.array_equal(elmo.embed("The dog ."), other.embed("The dog ."))
    with pytest.raises(InputError, match=r"layer: .* below 3, found"):
        elmo.embed("He threw it .", layer=layer)
    with pytest.raises(InputError, match=r"^as_tensors: expected true or false, found 'mean'$"):
        elmo.embed("He threw it .", "top", "mean")
    assert numpy.array_equal(elmo.embed("The dog ."), other.embed("The dog ."))
