"""The uses of words, and vectors of a text in a stream. The oracle is `Elmo.embed`."""

import sys
from collections import Counter
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from random import Random

import h5py
import numpy as np
import pandas
import pytest

from elmo_plugin import Elmo
from elmo_plugin.checks import InputError
from elmo_plugin.corpora import writers
from elmo_plugin.corpora.spans import Use
from elmo_plugin.corpora.uses import ADDED, COLUMNS, find_uses, read_uses, sample, write_uses
from elmo_plugin.corpora.word_list import word_forms
from elmo_plugin.elmo import elmo as elmo_module
from elmo_plugin.files.digest import append_checksum
from elmo_plugin.text.sentence import Sentence
from tests.conftest import python, write_file
from tests.damage import check_damaged

VOCABULARY = "The the dog dogs stick threw he to . Stick caf\u00e9 a\u00a0b".split(" ")


@pytest.fixture(scope="module")
def elmo(bilm_archive: str) -> Elmo:
    return Elmo.from_archive(bilm_archive)


@pytest.fixture(scope="module")
def sentences() -> list[list[str]]:
    """Random sentences, some of them empty."""
    random = Random(0)
    return [random.choices(VOCABULARY, k=random.randrange(9)) for _ in range(60)]


def as_read(sentences: list[list[str]]) -> list[list[str]]:
    """Sentences as they are read and written: without a space inside a token."""
    return [[token.replace("\u00a0", "_") for token in sentence] for sentence in sentences]


@pytest.mark.parametrize("part_tokens", [1, 30, 2**14])
@pytest.mark.parametrize("options", [{"layer": "all"}, {"pool": "mean"}, {"as_tensors": True}])
def test_a_stream(elmo, sentences, part_tokens, options, monkeypatch):
    """The vectors are those of all sentences at once. Strings are the same as lists of tokens."""
    monkeypatch.setattr(elmo_module, "PART_TOKENS", part_tokens)
    texts = [text.replace("\u00a0", " ").split() for text in map(" ".join, sentences)]
    expected = elmo.embed(texts, **options)
    for given in (iter(texts), (" ".join(text) for text in texts)):
        found = list(elmo.stream(given, max_tokens=part_tokens, **options))
        assert len(found) == len(expected)
        for x, y in zip(found, expected):
            np.testing.assert_allclose(x, y, atol=1e-5)


def test_a_stream_reads_little_ahead(elmo: Elmo, monkeypatch: pytest.MonkeyPatch) -> None:
    """By hand: a sentence has 3 + 2 tokens, so three sentences are the first with 12."""
    monkeypatch.setattr(elmo_module, "PART_TOKENS", 12)
    n_read = 0

    def endless() -> Iterator[str]:
        nonlocal n_read
        while True:
            n_read += 1
            yield "the dog ."

    stream = elmo.stream(endless(), max_tokens=3)
    for n_yielded in range(1, 8):
        assert next(stream).shape == (3, elmo.output_dim)
        assert n_read == -(-n_yielded // 3) * 3


def test_a_stream_that_carries_its_state(bilm_archive: str, sentences: list) -> None:
    """The expected vectors are those of one sentence after the other."""
    first, second = (Elmo.from_archive(bilm_archive, initial_state="carry") for _ in range(2))
    for found, sentence in zip(first.stream(sentences), sentences):
        assert np.array_equal(found, second.embed([sentence])[0])


@pytest.mark.parametrize("sentences", [{"a b": 1}, {"a b"}, 5])
def test_sentences_that_are_no_list(elmo: Elmo, sentences: object) -> None:
    """By definition: neither keys nor what is in no order are sentences, nor the letters of a
    string. tests/text/test_forms.py has tables."""
    for call in (
        lambda: list(elmo.stream("he threw")),
        lambda: list(elmo.stream(sentences)),
        lambda: elmo.uses(sentences, ["a", "text"]),
        lambda: elmo.embed(sentences, raw=True),
    ):
        with pytest.raises(InputError, match=r"^expected .*sentences, found "):
            call()


def test_a_sample_is_uniform_and_the_same_for_a_seed() -> None:
    """By definition: each use is as likely as any other, within six standard deviations of the
    binomial distribution, and the uses of other words change nothing."""
    some = [Use("a", Sentence(["a"], number), 0, 1) for number in range(50)]
    counts = Counter(x.sentence.row for seed in range(2000) for x in sample(some, 10, seed))
    assert set(counts) == set(range(50))
    deviation = (2000 * 0.2 * 0.8) ** 0.5
    assert all(abs(n - 400) < 6 * deviation for n in counts.values())
    mixed = [x for use in some for x in (use, use._replace(word="b"), use._replace(word="b"))]
    for seed in range(3):
        found = sample(mixed, 10, seed)
        assert [use for use in found if use.word == "a"] == sample(iter(some), 10, seed)
        assert found == sorted(found, key=lambda use: use.sentence.row)
    assert sample(some, 10, 0) != sample(some, 10, 1)


def test_files(tmp_path: Path) -> None:
    """By hand: empty lines count, and files of the same name differ by their folders."""
    for folder in ("a", "b"):
        write_file(tmp_path / folder / "t.txt", "\nthe  the dog\n")
    found = find_uses(tmp_path, word_forms(["the"]))
    assert [(use.sentence.file, use.sentence.row, use.first, use.last) for use in found] == [
        (f"{folder}/t.txt", 1, position, position + 1) for folder in "ab" for position in (0, 1)
    ]
    (found,) = find_uses(str(tmp_path / "a" / "t.txt"), word_forms({"x": ["dog"]}))
    sentence = Sentence(["the", "the", "dog"], row=1, line=1, file="t.txt")
    assert found == ("x", sentence, 2, 3, "") and found.token == "dog"


@pytest.mark.parametrize("layer", ["mix", "top", 0])
@pytest.mark.parametrize("most", [None, 5, 1000])
def test_words_and_phrases(elmo, sentences, layer, most, tmp_path):
    """The oracle compares each place of a sentence with each form, and takes NumPy's mean of the
    vectors of `embed`. A sample has so many of the uses, in order. A file of the same words has the
    same uses."""
    words = {"DOG": ["the dog", "The dog"], "end": ["dog ."], "dog": "dog dogs"}
    words |= {"to the": ["to the"], "stick": ["stick", "Stick"], "a\u00a0b": ["a\u00a0b"]}
    forms = {"the dog": "DOG", "The dog": "DOG", "dog .": "end", "dog": "dog", "dogs": "dog"}
    forms |= {"to the": "to the", "stick": "stick", "Stick": "stick", "a_b": "a\u00a0b"}
    vectors, expected = elmo.embed(sentences, layer), {}
    for number, tokens in enumerate(as_read(sentences)):
        for position in range(len(tokens)):
            for form, word in forms.items():
                end = position + len(form.split(" "))
                if tokens[position:end] == form.split(" "):
                    row = (word, form, "", number, position, " ".join(tokens), 0, number, "")
                    expected[row] = vectors[number][position:end].mean(axis=0)
    assert {row[1] for row in expected} == {*forms}
    lines = "DOG\tthe dog\tThe dog\nend\tdog .\tdog .\ndog\tdog dogs\nto the\nstick\tstick Stick\n"
    (tmp_path / "words").write_text(lines + "a\u00a0b\n", "utf-8")
    all_of = Counter(row[0] for row in expected)
    for given in (words, tmp_path / "words"):
        found = elmo.uses(sentences, given, layer, most=most)
        rows = list(found[[*COLUMNS][:-1]].itertuples(index=False, name=None))
        assert rows == [row for row in expected if row in {*rows}]
        assert Counter(found["word"]) == {word: min(n, most or n) for word, n in all_of.items()}
        for row, vector in zip(rows, found["vector"]):
            np.testing.assert_allclose(vector, expected[row], atol=1e-5)
            assert vector.base is None  # or it would keep those of its whole sentence


def test_wrong_arguments(elmo: Elmo, bilm_archive: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for options, message in (
        ({"layer": "all"}, "^layer: expected one that gives a use one vector, found 'all'$"),
        ({"layer": 9}, "^layer: expected mix, all, average, top or a number below 3, found 9$"),
        ({"most": 0}, "^most: expected a whole number from 1"),
        ({"seed": "x"}, "^seed: expected a whole number from 0"),
    ):
        with pytest.raises(ValueError, match=message):
            elmo.uses(["a"], ["a"], **options)
    carries = Elmo.from_archive(bilm_archive, initial_state="carry")
    with pytest.raises(InputError, match=r"^initial_state: expected zero or warm, .* 'carry'$"):
        carries.uses(["a"], ["a"])
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(InputError, match=r"^expected the package pandas, found none; pip install"):
        elmo.uses(["a"], ["a"])


def test_what_vectors_are_from(elmo: Elmo, bilm_archive: str) -> None:
    """By definition: equal names mean equal vectors. The top layer has two names, and a mix has its
    weights and its normalization. Raw text has other tokens, with other versions of what splits it
    other ones."""

    def attrs(layer: str | int, raw: bool = False, **options: object) -> dict:
        other = Elmo.from_archive(bilm_archive, **options) if options else elmo
        return other.uses(["a dog"], ["dog"], layer, raw=raw).attrs

    assert attrs("top") == attrs(2) != attrs(1)
    mixes: list[dict] = [{}, {"scalar_mix_parameters": [1, 0, 0]}, {"do_layer_norm": True}]
    found = [attrs("mix", **options) for options in mixes]
    assert all(found[i] != found[j] for i, j in ((0, 1), (0, 2), (1, 2)))
    assert attrs("mix", scalar_mix_parameters=[1, 0, 0]) == found[1]
    versions = ", ".join(f"{name} {version(name)}" for name in ("nltk", "nupunkt"))
    expected = attrs("top") | {"raw": "true", "splitters": versions}
    assert attrs("top", raw=True) == expected


@pytest.mark.parametrize("rows", [1, 7, 1024])
def test_a_file_of_uses(elmo, sentences, rows, tmp_path, monkeypatch):
    """The oracle is the DataFrame of the same uses. The file can also be read without pandas."""
    monkeypatch.setattr(writers, "ROWS", rows)
    arguments = sentences, ["dog", "caf\u00e9"], "top", 5, 1
    of_words = write_uses(tmp_path / "out", elmo, *arguments)
    n_uses = of_words.total()
    expected = elmo.uses(*arguments[:3], most=5, seed=1)
    found = read_uses(tmp_path / "out")
    assert len(found) == n_uses == len(expected)
    assert of_words == Counter(expected["word"])
    assert found.attrs == expected.attrs != elmo.uses(*arguments[:2], 0).attrs
    assert found.drop(columns="vector").equals(expected.drop(columns="vector"))
    assert np.array_equal(np.stack(found["vector"]), np.stack(expected["vector"]))
    with h5py.File(tmp_path / "out") as file:
        assert file["vector"].shape == (n_uses, elmo.output_dim)
        assert list(file["word"].asstr()) == list(expected["word"])
    with pytest.raises(InputError, match="expected to write a new file, found one"):
        write_uses(tmp_path / "out", elmo, *arguments)


def test_the_labels_of_a_series(elmo: Elmo, tmp_path: Path) -> None:
    """By hand: the uses of a filtered column are joined with the other columns by its labels. A
    file has whole numbers, to which others would be rounded."""
    texts = ["the cat", "a dog ran", "my dog !"]
    data = pandas.DataFrame({"text": texts, "year": [1850, 1850, 1990]})
    some = data[data["text"].str.contains("dog")]
    found = elmo.uses(some["text"], ["dog"]).join(data["year"], on="sentence")
    assert found["sentence"].tolist() == [1, 2] and found["year"].tolist() == [1850, 1990]
    for label in (1.5, "x"):
        column = pandas.Series(["a dog"], index=[label])
        assert elmo.uses(column, ["dog"])["sentence"].tolist() == [label]
        with pytest.raises(InputError, match=r"^corpus: expected whole numbers as labels"):
            write_uses(tmp_path / "out", elmo, column, ["dog"], "top", None, 0)
    assert not (tmp_path / "out").exists()
    twice = pandas.concat([some, some])["text"]
    with pytest.raises(InputError, match=r"^corpus: expected a different label in each row, as "):
        elmo.uses(twice, ["dog"])


def test_no_uses_and_no_file(elmo: Elmo, tmp_path: Path) -> None:
    assert not len(elmo.uses(["a"], ["b"]))
    (tmp_path / "text").write_text("a\n")
    with pytest.raises(InputError, match=r"text: expected a use of a listed word, found none$"):
        write_uses(tmp_path / "out", elmo, tmp_path / "text", ["b"], "top", None, 0)
    with pytest.raises(ValueError, match=r"^sentence 1: "):
        write_uses(tmp_path / "out", elmo, ["a", 3], ["a"], "top", None, 0)
    assert [file.name for file in tmp_path.iterdir()] == ["text"]


def test_a_damaged_file(elmo: Elmo, sentences: list, tmp_path: Path, fuzz) -> None:
    """By definition: damage is an error that names the file, as is a file that `uses` has not
    written."""
    out, cases = tmp_path / "out", [*fuzz.cases(30)]
    write_uses(out, elmo, sentences, ["dog"], "top", None, 0)
    assert check_damaged([out], lambda: read_uses(out)["text"].tolist(), cases) == len(cases)
    with h5py.File(tmp_path / "other", "w") as file:
        file["0"] = np.zeros((2, 4))
    with pytest.raises(InputError, match="other: expected"):
        read_uses(tmp_path / "other")


@pytest.mark.parametrize("missing", [ADDED, ADDED[:2]])
def test_a_file_of_an_earlier_version(missing: tuple[str, ...], elmo: Elmo, tmp_path: Path) -> None:
    """By hand: without the columns that were added, a line is one sentence, and its uses are those
    of listed words."""
    (tmp_path / "text").write_text("The old dog ran .\nno\nA dog !\n")
    write_uses(tmp_path / "out", elmo, tmp_path / "text", ["dog"], "top", None, 0)
    expected = read_uses(tmp_path / "out")
    with h5py.File(tmp_path / "out", "r+") as file:
        for name in missing:
            del file[name]
    append_checksum(tmp_path / "out")
    found = read_uses(tmp_path / "out")
    assert found["line"].tolist() == found["sentence"].tolist() == [0, 2]
    assert found.astype(str).equals(expected.astype(str))


@pytest.mark.parametrize(
    ("corpus", "words", "message"),
    [
        (["the dog", "a\0b dog"], ["dog"], r"^sentence 1: text: expected .* U\+0000$"),
        (["dog \ud800"], ["dog"], r"^sentence 0: text: expected .* U\+D800$"),
        (["the dog"], {"DOG\0": ["dog"]}, r"^sentence 0: word: expected .* U\+0000$"),
        ("text", ["dog"], r"^text, line 2: text: expected .* U\+0000$"),
    ],
)
def test_text_that_cannot_be_stored(elmo, corpus, words, message, tmp_path):
    """By definition of HDF5: its text has no NUL, and no half of a surrogate pair in UTF-8. A
    DataFrame, whose text is UTF-8 too, has NUL."""
    if corpus == "text":
        corpus = write_file(tmp_path / "text", "the dog\nthe a\0b dog\n")
    with pytest.raises(InputError, match=message):
        write_uses(tmp_path / "out", elmo, corpus, words, "top", None, 0)
    assert not (tmp_path / "out").exists()
    if message.endswith("0000$"):
        assert len(elmo.uses(corpus, words)) > 0
    else:
        with pytest.raises(InputError, match=message):
            elmo.uses(corpus, words)


MEMORY = """
import sys
from itertools import islice
from pathlib import Path
from random import Random

import torch

from elmo_plugin import Elmo
from elmo_plugin.corpora.uses import embedded, find_uses


def sentences():
    random = Random(0)
    while True:
        words = ("%x" % random.getrandbits(40) for _ in range(random.randrange(1, 40)))
        yield [*words, "dog"]


torch.set_num_threads(1)
elmo = Elmo.from_pretrained("tiny", requires_grad=sys.argv[1] == "trained")
if sys.argv[1] == "uses":
    found = embedded(elmo, find_uses(sentences(), {"dog": "dog"}), "top")
else:
    found = elmo.stream(sentences())
for _ in range(3):
    for _ in islice(found, 6000):
        pass
    print(int(Path("/proc/self/statm").read_text().split()[1]) * 4 // 1024)
"""


@pytest.mark.long
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="memory is read in /proc")
@pytest.mark.parametrize("way", ["uses", "stream", "trained"])
def test_memory_does_not_grow(way: str) -> None:
    """Property: after 6,000 sentences of random words, of which nearly all are new, the process has
    as much memory as after 18,000, to within 40 MiB. The numbers of new words differ from batch to
    batch; if each had its own product, memory would grow by 140 MiB or more."""
    first, *rest = map(int, python("-c", MEMORY, way).stdout.split())
    assert max(rest) < first + 40, (first, rest)
