"""
The options of a biLM, under the keys that bilm-tf's options files and our configs share:

    lstm        {dim, projection_dim, n_layers, cell_clip, proj_clip, use_skip_connections}
    char_cnn    {embedding: {dim}, filters, n_highway, activation, max_characters_per_token}
    words       {dim, tied}

Each block is a dataclass that checks its values. A biLM reads words by `char_cnn`, from a table of
`words`, or by both if its characters are code points.
"""

from collections.abc import Mapping, Sequence
from dataclasses import InitVar, asdict, dataclass, replace
from inspect import signature
from typing import Any, Self, TypeVar

from elmo_plugin.checks import (
    InputError,
    check_choice,
    check_count,
    check_flag,
    check_number,
    fail,
    named,
)
from elmo_plugin.text.characters import DEFAULT_MAX_CHARACTERS, NUM_CHARACTERS, check_max_characters

ACTIVATIONS = ("relu", "tanh")

FEWEST_CODE_POINTS = 7
"""The length of `<bos>`, which is found by its code points, with the two marks of a word."""

MOST_LAYERS = 1000
"""More would exhaust the memory."""

NULL_IS_ABSENT = ("n_highway", "use_skip_connections")
"""bilm-tf reads these with `.get(key)` and tests the result for truth."""

Block = TypeVar("Block")


def _set_count(block: Any, name: str, **limits: int) -> None:
    """Set the field of a block that `name` ends with to its whole number as an integer."""
    key = name.rpartition(".")[2]
    object.__setattr__(block, key, check_count(name, getattr(block, key), **limits))


@dataclass(frozen=True, kw_only=True)
class LSTMOptions:
    """
    The block `lstm`; see `BiLSTM`.

    # Parameters

    dim : `int`
        Number of memory cells of a layer in each direction.
    projection_dim : `int`
        P, the size of a layer's output in each direction, and of a word's vector.
    n_layers : `int`, optional (default = `1`)
        L, the number of layers.
    cell_clip : `float`, optional
        Bound of the memory cells. By default, and with 0, there is none, as in AllenNLP.
    proj_clip : `float`, optional
        The same for the projected outputs.
    use_skip_connections : `bool`, optional (default = `False`)
        Whether to add the input of each layer but the first to its output.
    """

    dim: int
    projection_dim: int
    n_layers: int = 1
    cell_clip: float | None = None
    proj_clip: float | None = None
    use_skip_connections: bool = False

    def __post_init__(self) -> None:
        _set_count(self, "lstm.dim")
        _set_count(self, "lstm.projection_dim")
        _set_count(self, "lstm.n_layers", most=MOST_LAYERS)
        for key in ("cell_clip", "proj_clip"):
            clip = getattr(self, key)
            if clip is not None:
                check_number(f"lstm.{key}", clip, least=0)
                object.__setattr__(self, key, float(clip) or None)
        check_flag("lstm.use_skip_connections", self.use_skip_connections)


@dataclass(frozen=True)
class CharEmbeddingOptions:
    dim: int

    def __post_init__(self) -> None:
        _set_count(self, "char_cnn.embedding.dim")


@dataclass(frozen=True, kw_only=True)
class CharCNNOptions:
    """
    The block `char_cnn`; see `CharCNN`.

    # Parameters

    embedding : `Dict[str, int]`
        `dim`, the size of a character's vector.
    filters : `List[List[int]]`
        `[width, number]` of the convolutions of each width.
    n_highway : `int`, optional (default = `0`)
        Number of highway layers.
    activation : `str`, optional (default = `"relu"`)
        `"relu"` or `"tanh"`, after the maximum over a word.
    max_characters_per_token : `int`, optional (default = `50`)
        C, the number of bytes of a word in UTF-8 with the marks of its start and end, to which
        longer words are cut.
    n_code_points : `int`, optional
        Size of the lexicon if characters are code points and not bytes, as in ELMoForManyLangs.
    n_characters : `int`, optional
        Number of character ids, 261 or 262, which differs between bilm-tf's options files for
        training and for inference. Both are accepted.
    """

    embedding: CharEmbeddingOptions
    filters: tuple[tuple[int, int], ...]
    n_highway: int = 0
    activation: str = "relu"
    max_characters_per_token: int = DEFAULT_MAX_CHARACTERS
    n_code_points: int | None = None
    n_characters: InitVar[int] = NUM_CHARACTERS

    def __post_init__(self, n_characters: int) -> None:
        embedding = read_block(CharEmbeddingOptions, self.embedding, "char_cnn.embedding")
        object.__setattr__(self, "embedding", embedding)
        _set_count(self, "char_cnn.n_highway", least=0)
        check_choice("char_cnn.activation", self.activation, ACTIVATIONS)
        name = "char_cnn.max_characters_per_token"
        length = check_max_characters(name, self.max_characters_per_token)
        object.__setattr__(self, "max_characters_per_token", length)
        check_choice("char_cnn.n_characters", n_characters, (NUM_CHARACTERS - 1, NUM_CHARACTERS))
        if self.n_code_points is not None:
            _set_count(self, "char_cnn.n_code_points")
            check_count(f"{name} with n_code_points", length, least=FEWEST_CODE_POINTS)
        filters = self.filters
        is_list = isinstance(filters, list | tuple) and filters
        if not is_list or not all(isinstance(x, list | tuple) and len(x) == 2 for x in filters):
            fail("char_cnn.filters", "a list of [width, number] pairs", filters)
        name = "char_cnn.filters:"
        widths = [check_count(f"{name} width", width, most=length) for width, _ in filters]
        numbers = [check_count(f"{name} number", number) for _, number in filters]
        object.__setattr__(self, "filters", tuple(zip(widths, numbers)))

    @property
    def n_filters(self) -> int:
        """F, the number of filters of all convolutions."""
        return sum(number for _, number in self.filters)

    def sizes(self) -> dict[str, Any]:
        """Arguments of `CharCNN`."""
        return {
            "embedding_dim": self.embedding.dim,
            "filters": self.filters,
            "n_highway": self.n_highway,
            "activation": self.activation,
            "max_characters": self.max_characters_per_token,
        }


@dataclass(frozen=True, kw_only=True)
class WordOptions:
    """
    The block `words`, a table of words; see `WordTable`. `n_words` and `n_bytes`, the number of
    words and their size as text, are the vocabulary's; a config does not have them.

    # Parameters

    dim : `int`
        Size of a word's row.
    tied : `bool`, optional (default = `False`)
        Whether the table is also the weight of the softmax.
    """

    dim: int
    tied: bool = False
    n_words: int = 0
    n_bytes: int = 0

    def __post_init__(self) -> None:
        _set_count(self, "words.dim")
        check_flag("words.tied", self.tied)
        _set_count(self, "words.n_words", least=0)
        _set_count(self, "words.n_bytes", least=0)


BLOCKS: dict[str, type] = {"lstm": LSTMOptions, "char_cnn": CharCNNOptions, "words": WordOptions}


@dataclass(frozen=True, kw_only=True)
class BiLMOptions:
    """The options of a biLM: LSTMs, and a character CNN, a table of words, or both."""

    lstm: LSTMOptions
    char_cnn: CharCNNOptions | None = None
    words: WordOptions | None = None

    def __post_init__(self) -> None:
        if self.char_cnn is None and self.words is None:
            raise InputError("expected a block char_cnn or words, found neither")
        if self.words is None:
            return
        if self.char_cnn is not None and self.char_cnn.n_code_points is None:
            raise InputError("expected one of the blocks char_cnn and words, found both")
        if self.words.tied and self.words.dim != self.lstm.projection_dim:
            name = "words.dim"
            fail(name, f"lstm.projection_dim {self.lstm.projection_dim} with tied", self.words.dim)

    def of_words(self, words: Sequence[str]) -> Self:
        """These options with the sizes of the words of the table, if there is one."""
        if self.words is None:
            return self
        n_bytes = len(word_text(words))
        return replace(self, words=replace(self.words, n_words=len(words), n_bytes=n_bytes))

    @property
    def reads_code_points(self) -> bool:
        return self.char_cnn is not None and self.char_cnn.n_code_points is not None

    @property
    def is_tied(self) -> bool:
        """Whether the table of words is also the weight of the softmax."""
        return self.words is not None and self.words.tied

    @classmethod
    def from_dict(cls, options: Mapping[str, Any], *, source: str) -> Self:
        """
        Check and convert the blocks `lstm`, `char_cnn` and `words` of a config or an options file.
        Other keys are ignored. `source` names the options in error messages: a file's path, or
        `"model"`. Raises an `InputError` if a key is missing or unknown, or has a value of the
        wrong type or range.
        """
        with named(source):
            return cls(
                **{
                    name: read_block(block, options.get(name), name)
                    for name, block in BLOCKS.items()
                    if name == "lstm" or options.get(name) is not None
                }
            )

    def to_dict(self) -> dict[str, Any]:
        """The contents of an options file for inference; the inverse of `from_dict`."""
        blocks = {name: block for name, block in asdict(self).items() if block is not None}
        if char_cnn := blocks.get("char_cnn"):
            char_cnn["filters"] = [list(pair) for pair in char_cnn["filters"]]
            if char_cnn["n_code_points"] is None:
                del char_cnn["n_code_points"]
                char_cnn["n_characters"] = NUM_CHARACTERS
        # The keys of a block are in alphabetical order.
        return {name: dict(sorted(block.items())) for name, block in blocks.items()}

    def difference(self, other: Self) -> tuple[str, Any, Any] | None:
        """The first key whose values differ, with both values."""
        ours, theirs = self.to_dict(), other.to_dict()
        for name in {**ours, **theirs}:
            block, their_block = ours.get(name, {}), theirs.get(name, {})
            for key in {**block, **their_block}:
                if block.get(key) != their_block.get(key):
                    return f"{name}.{key}", block.get(key), their_block.get(key)
        return None


def word_text(words: Sequence[str]) -> bytes:
    """The words of a table as one text, each followed by a line feed."""
    return "".join(f"{word}\n" for word in words).encode("utf-8", "ignore")


def read_block(block_type: type[Block], block: Any, name: str) -> Block:
    """Build a dataclass from the block `name`."""
    if isinstance(block, block_type):
        return block
    if not isinstance(block, Mapping):
        fail(name, "a block {...}", block)
    block = {k: v for k, v in block.items() if v is not None or k not in NULL_IS_ABSENT}
    fields = signature(block_type).parameters
    for key, field in fields.items():
        if key not in block and field.default is field.empty:
            raise InputError(f"{name}: missing key {key}")
    if unknown := sorted(block.keys() - fields.keys()):
        plural = "s" * (len(unknown) > 1)
        raise InputError(
            f"{name}: unknown key{plural} {', '.join(unknown)}; its keys are {', '.join(fields)}"
        )
    return block_type(**block)
