from collections.abc import Mapping, Set
from inspect import signature
from typing import Any, Optional

import torch
from allennlp.data import Vocabulary
from allennlp.modules.token_embedders import TokenEmbedder
from torch import Tensor

from elmo_plugin.checks import InputError, check_count, fail, named, optional_count
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.formats.archive import source_of
from elmo_plugin.formats.find import find_bilm, one_bilm
from elmo_plugin.modules import BiLM
from elmo_plugin.plugin.token_embedders.options_in_vocabulary import (
    LOADED,
    options_in_vocabulary,
    put_options_in_vocabulary,
)
from elmo_plugin.text.characters import one_token, words_to_characters

NAME = 'token embedder of type "elmo"'


@TokenEmbedder.register("elmo")
class ElmoEmbedder(TokenEmbedder):
    """
    Embeds tokens as ELMo vectors. The parameters of AllenNLP's `elmo_token_embedder` have the same
    names here.

    Name the biLM by one of `pretrained`, `archive_file`, or `options_file` with `weight_file`. The
    archive of a task model contains the biLM's options and weights, so that these files are not
    needed to load it.

    Registered as a `TokenEmbedder` with name "elmo".

    # Parameters

    options_file : `str`, optional
        Options file of bilm-tf.
    weight_file : `str`, optional
        Weight file of bilm-tf, in HDF5.
    dropout : `float`, optional (default = `0.5`)
        Dropout rate of the ELMo vectors.
    projection_dim : `int`, optional
        Size to which each mix is projected.
    vocab_to_cache : `List[str]`, optional
        Words, of which the first is the padding token. A token whose `word_inputs` is an index in
        this list is read as that word, and any other token from its characters.
    archive_file : `str`, optional
        `model.tar.gz` or folder of a trained `bilm`, or of a task model with this embedder (with
        `#` and the embedder's name if it has several); a folder, zip or `.tar.gz` file with
        bilm-tf's `options.json` and an HDF5 file or a TensorFlow checkpoint, or with a model of
        ELMoForManyLangs; `hf://USER/REPOSITORY` with one of these; or the name of an installed
        model.
    pretrained : `str`, optional
        Name of an installed model.
    elmo_dim : `int`, optional
        Expected size of a mix: 2P, or `projection_dim`. A biLM of another size raises an error.
        `elmo.libsonnet` sets it.
    cache_dir : `str`, optional
        Folder on a local disk that caches the layers of a frozen biLM, so that they are computed
        only in the first epoch. A model that is loaded from its archive does not use it.
    kwargs
        `num_output_representations` (the mixes are concatenated in the output), `requires_grad`,
        `do_layer_norm`, `scalar_mix_parameters`, `use_top_only`, `initial_state`, `precision`,
        `cache_dtype` and `cache_size_gb`: see `Elmo`.

    # Raises

    `InputError`
        If a parameter has a wrong type or value, a file is missing or damaged, or a key is unknown.
    """

    _word_characters: Optional[Tensor]
    _projection: Optional[torch.nn.Linear]

    def __init__(
        self,
        options_file: Optional[str] = None,
        weight_file: Optional[str] = None,
        archive_file: Optional[str] = None,
        pretrained: Optional[str] = None,
        dropout: float = 0.5,
        projection_dim: Optional[int] = None,
        vocab_to_cache: Any = None,  # `List[str]` would accept a string
        elmo_dim: Optional[int] = None,
        cache_dir: Optional[str] = None,
        vocab: Optional[Vocabulary] = None,
        **kwargs: Any,
    ) -> None:
        super().__init__()
        _check_keys(kwargs, own=signature(type(self)).parameters.keys())
        with named(NAME):
            files = one_bilm((pretrained, archive_file, options_file, weight_file))
        source = source_of(pretrained, archive_file, options_file, weight_file)
        known = options_in_vocabulary(vocab, source)
        cache_dir = cache_dir if LOADED.get() is None else None
        kwargs.update(dropout=dropout, cache_dir=cache_dir)
        with named(NAME):
            if known is not None:
                self._elmo = Elmo.from_options(known, **kwargs)
            else:
                self._elmo = Elmo(find_bilm(*files.values()).bilm, **kwargs)
                put_options_in_vocabulary(vocab, source, self._elmo.bilm.options)
        table = _table(vocab_to_cache, self._elmo.bilm)
        self.register_buffer("_word_characters", table, persistent=False)
        dim, self._projection = self._elmo.output_dim, None
        projection_dim = optional_count("projection_dim", projection_dim, least=0)
        if projection_dim:
            self._projection = torch.nn.Linear(dim, projection_dim)
            dim = projection_dim
        _check_size(elmo_dim, dim, source)
        self.num_output_representations = self._elmo.num_output_representations
        self.output_dim = self.num_output_representations * dim

    def get_output_dim(self) -> int:
        return self.output_dim

    def forward(
        self,
        elmo_tokens: Optional[Tensor] = None,
        word_inputs: Optional[Tensor] = None,
        **others: Any,
    ) -> Tensor:
        """
        Embed a batch of tokens.

        # Parameters

        elmo_tokens : `Tensor`, optional
            Character ids of shape `(..., B, T, C)`.
        word_inputs : `Tensor`, optional
            Indices in `vocab_to_cache` of shape `(..., B, T)`, 0 at padding.

        # Returns

        `Tensor`
            ELMo vectors in fp32 of shape `(..., B, T, output_dim)`.

        # Raises

        `InputError`
            If the token indexer is not of type `elmo`, or if a token has neither an index in
            `vocab_to_cache` nor characters.
        """
        if elmo_tokens is None:
            raise InputError(
                f'{NAME}: expected a token indexer of type "elmo" under the '
                f"same key, found one that gives {', '.join(others) or 'nothing'}"
            )
        if self._word_characters is not None and word_inputs is not None:
            elmo_tokens = self._elmo.bilm.resize_characters(elmo_tokens)
            table = self._elmo.bilm.resize_characters(self._word_characters)
            elmo_tokens = self._known_words(elmo_tokens, word_inputs, table)
        mixes = [mix.float() for mix in self._elmo(elmo_tokens)["elmo_representations"]]
        if self._projection is not None:
            dtype = self._projection.weight.dtype
            mixes = [self._projection(mix.to(dtype)) for mix in mixes]
        return torch.cat(mixes, dim=-1)

    @staticmethod
    def _known_words(elmo_tokens: Tensor, word_inputs: Tensor, table: Tensor) -> Tensor:
        """Replace the characters of tokens whose `word_inputs` is an index in the table."""
        is_known = (word_inputs >= 0) & (word_inputs < len(table))
        unknown = ~is_known & ~elmo_tokens.any(dim=-1)
        if unknown.any():
            fail(
                "vocab_to_cache",
                f"word_inputs below {len(table)}, the number of its words, or the token's "
                "characters",
                int(word_inputs[unknown][0]),
            )
        words = table[torch.where(is_known, word_inputs, 0)]
        return torch.where(is_known.unsqueeze(-1), words, elmo_tokens)


def _check_keys(kwargs: Mapping[str, Any], own: Set[str]) -> None:
    """Raise an `InputError` for keys that are none of the embedder's nor of `Elmo`."""
    # Boundaries would be misread as tokens.
    passed_on = signature(Elmo).parameters.keys() - {"bilm", "keep_sentence_boundaries"}
    if unknown := sorted(kwargs.keys() - passed_on):
        keys = ", ".join(sorted((own | passed_on) - {"vocab", "kwargs"}))
        raise InputError(f"{NAME}: unknown keys {', '.join(unknown)}; its keys are {keys}")


def _table(words: Any, bilm: BiLM) -> Tensor | None:
    """The characters of the words of `vocab_to_cache`, shape `(n, C)`, 0 for the padding token."""
    if words is None:
        return None
    if not isinstance(words, list) or not words or {*map(type, words)} != {str}:
        fail("vocab_to_cache", "a list of words, the first of them the padding token", words)
    # One more than the longest word takes: a row without padding may have been cut.
    words = list(map(one_token, words))
    most = 3 + max(len(word.encode("utf-8", "ignore")) for word in words)
    if not bilm.token_encoder.has_lexicon:
        most = min(most, bilm.max_characters_per_token)
    table = torch.from_numpy(words_to_characters(words, most))
    table[0] = 0
    return table


def _check_size(elmo_dim: Any, dim: int, source: str) -> None:
    if elmo_dim is not None and check_count("elmo_dim", elmo_dim) != dim:
        raise InputError(
            f"{NAME}: expected vectors of the size elmo_dim {elmo_dim}, for which the model's "
            f"other sizes were chosen, found {dim}, that of {source}; pass dim={dim} to "
            "elmo.libsonnet"
        )
