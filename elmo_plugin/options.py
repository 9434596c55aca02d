"""
The options of a biLM, under the keys that bilm-tf's options files and our configs share:

    lstm        {dim, projection_dim, n_layers, cell_clip, proj_clip, use_skip_connections}
    char_cnn    {embedding: {dim}, filters, n_highway, activation, max_characters_per_token}

Each block is a dataclass that checks its values.
"""

from collections.abc import Mapping
from dataclasses import InitVar, asdict, dataclass
from inspect import signature
from typing import Any, Self, TypeVar

from elmo_plugin.checks import InputError, check_choice, check_count, check_flag, check_number, fail
from elmo_plugin.text.characters import DEFAULT_MAX_CHARACTERS, NUM_CHARACTERS, check_max_characters

ACTIVATIONS = ("relu", "tanh")

MOST_LAYERS = 1000
MOST_PARAMETERS = 1 << 32
"""More layers or parameters would exhaust the memory; ELMo has 94 million parameters."""

NULL_IS_ABSENT = ("n_highway", "use_skip_connections")
"""bilm-tf reads these with `.get(key)` and tests the result for truth."""

Block = TypeVar("Block")


@dataclass(frozen=True, kw_only=True)
class LSTMOptions:
    """The block `lstm`; see `BiLSTM`. A clip of 0 disables clipping, as in AllenNLP."""

    dim: int
    projection_dim: int
    n_layers: int = 1
    cell_clip: float | None = None
    proj_clip: float | None = None
    use_skip_connections: bool = False

    def __post_init__(self) -> None:
        check_count("lstm.dim", self.dim)
        check_count("lstm.projection_dim", self.projection_dim)
        check_count("lstm.n_layers", self.n_layers, most=MOST_LAYERS)
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
        check_count("char_cnn.embedding.dim", self.dim)


@dataclass(frozen=True, kw_only=True)
class CharCNNOptions:
    """
    The block `char_cnn`; see `CharCNN`. `max_characters_per_token` counts the two marks of a word.
    `n_characters` differs between options files for training and for inference; both are accepted.
    """

    embedding: CharEmbeddingOptions
    filters: tuple[tuple[int, int], ...]
    n_highway: int = 0
    activation: str = "relu"
    max_characters_per_token: int = DEFAULT_MAX_CHARACTERS
    n_characters: InitVar[int] = NUM_CHARACTERS

    def __post_init__(self, n_characters: int) -> None:
        embedding = read_block(CharEmbeddingOptions, self.embedding, "char_cnn.embedding")
        object.__setattr__(self, "embedding", embedding)
        check_count("char_cnn.n_highway", self.n_highway, least=0)
        check_choice("char_cnn.activation", self.activation, ACTIVATIONS)
        length = self.max_characters_per_token
        check_max_characters("char_cnn.max_characters_per_token", length)
        check_choice("char_cnn.n_characters", n_characters, (NUM_CHARACTERS - 1, NUM_CHARACTERS))
        filters = self.filters
        if not isinstance(filters, list | tuple) or not filters:
            fail("char_cnn.filters", "a list of [width, number] pairs", filters)
        for pair in filters:
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                fail("char_cnn.filters", "a list of [width, number] pairs", filters)
            check_count("char_cnn.filters: width", pair[0], most=length)
            check_count("char_cnn.filters: number", pair[1])
        object.__setattr__(self, "filters", tuple(map(tuple, filters)))

    @property
    def n_filters(self) -> int:
        """F, the number of filters of all convolutions."""
        return sum(number for _, number in self.filters)


@dataclass(frozen=True, kw_only=True)
class BiLMOptions:
    """The options of a biLM: character CNN and LSTMs."""

    lstm: LSTMOptions
    char_cnn: CharCNNOptions

    def check_size(self, n_words: int = 0) -> None:
        """
        Raise an `InputError` if a biLM, with a softmax of `n_words` words, would take too much
        memory. This is for new models, because a weight file bounds the sizes of others.
        """
        check_count("char_cnn.n_highway", self.char_cnn.n_highway, least=0, most=MOST_LAYERS)
        n_parameters = self.n_parameters(n_words)
        if n_parameters > MOST_PARAMETERS:
            raise InputError(
                f"lstm and char_cnn: expected sizes of at most {MOST_PARAMETERS:,} parameters, "
                f"found {n_parameters:,}"
            )

    def n_parameters(self, n_words: int = 0) -> int:
        """The number of parameters of the biLM and of a softmax of `n_words` words."""
        lstm, cnn = self.lstm, self.char_cnn
        n, p, d = cnn.n_filters, lstm.projection_dim, lstm.dim
        convolutions = sum(k * (width * cnn.embedding.dim + 1) for width, k in cnn.filters)
        encoder = NUM_CHARACTERS * cnn.embedding.dim + convolutions
        encoder += cnn.n_highway * 2 * (n * n + n) + (n * p + p if n != p else 0)
        direction = 4 * d * (2 * p + 1) + (d * p if d != p else 0)
        return encoder + lstm.n_layers * 2 * direction + n_words * (p + 1)

    @classmethod
    def from_dict(cls, options: Mapping[str, Any], *, source: str) -> Self:
        """
        Check and convert the blocks `lstm` and `char_cnn` of a config or an options file. Other
        keys are ignored. `source` names the options in error messages: a file's path, or `"model"`.
        Raises an `InputError` if a key is missing or unknown, or has a value of the wrong type or
        range.
        """
        try:
            return cls(
                lstm=read_block(LSTMOptions, options.get("lstm"), "lstm"),
                char_cnn=read_block(CharCNNOptions, options.get("char_cnn"), "char_cnn"),
            )
        except InputError as error:
            raise InputError(f"{source}: {error}") from None

    def to_dict(self) -> dict[str, Any]:
        """The contents of an options file for inference; the inverse of `from_dict`."""
        blocks = asdict(self)
        blocks["char_cnn"]["n_characters"] = NUM_CHARACTERS
        blocks["char_cnn"]["filters"] = [list(pair) for pair in self.char_cnn.filters]
        # The keys of a block are in alphabetical order.
        return {name: dict(sorted(blocks[name].items())) for name in ("lstm", "char_cnn")}

    def difference(self, other: Self) -> tuple[str, Any, Any] | None:
        """The first key whose values differ, with both values."""
        theirs = other.to_dict()
        for name, block in self.to_dict().items():
            for key, value in block.items():
                if value != theirs[name][key]:
                    return f"{name}.{key}", value, theirs[name][key]
        return None


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
