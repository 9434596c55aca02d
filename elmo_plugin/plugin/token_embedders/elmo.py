import os
from typing import Any, Optional

import torch
from allennlp.common.file_utils import cached_path
from allennlp.data import Vocabulary
from allennlp.modules.token_embedders import TokenEmbedder
from torch import Tensor

from elmo_plugin.checks import InputError, check_count, check_path, fail
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.plugin.token_embedders.archived_options import (
    is_archive,
    is_loading,
    store_options,
    stored_options,
)
from elmo_plugin.text.characters import words_to_characters


@TokenEmbedder.register("elmo")
class ElmoEmbedder(TokenEmbedder):
    """
    Embeds tokens as ELMo vectors. It takes the parameters of AllenNLP's `elmo_token_embedder` under
    the same names.

    The biLM is given by one of `pretrained`, `archive_file`, or `options_file` with `weight_file`.
    The archive of a task model contains the options and weights of the biLM, so that these files
    are not needed to use it.

    Registered as a `TokenEmbedder` with name "elmo".

    # Parameters

    options_file : `str`, optional
        The options file of bilm-tf.
    weight_file : `str`, optional
        The weight file of bilm-tf, in HDF5.
    do_layer_norm : `bool`, optional (default = `False`)
        Normalize each layer before mixing.
    dropout : `float`, optional (default = `0.5`)
        The dropout of the ELMo vectors.
    requires_grad : `bool`, optional (default = `False`)
        Fine-tune the biLM with the task. A frozen biLM runs without autograd.
    projection_dim : `int`, optional
        The size to which each mix is projected.
    vocab_to_cache : `List[str]`, optional
        Words, of which the first is the padding token. A token whose `word_inputs` is an index in
        this list is read as that word, any other token is read from its characters.
    scalar_mix_parameters : `List[float]`, optional
        Fixed weights of the layers, before the softmax, instead of learned ones.
    archive_file : `str`, optional
        The `model.tar.gz` of a trained `bilm`, or a folder or zip file with bilm-tf's
        `options.json` and one HDF5 file.
    num_output_representations : `int`, optional (default = `1`)
        The number of mixes, each with its own weights, which are concatenated in the output.
    initial_state : `str`, optional (default = `"warm"`)
        The LSTM state at the start of a sentence: `"carry"`, as in bilm-tf and AllenNLP, `"zero"`
        or `"warm"`. See `Elmo`.
    precision : `str`, optional (default = `"fp32"`)
        The precision of the biLM's matrix products. `"bf16"` is faster on CPUs with native
        bfloat16. See `Elmo`.
    pretrained : `str`, optional
        The name of a model that is part of the package.
    cache_dir : `str`, optional
        A folder on a local disk for the layers of a frozen biLM, which then need not be computed
        from the second epoch on. It requires `"zero"` or `"warm"`; see `Elmo`. A model that
        is loaded from its archive does not use it.
    cache_dtype : `str`, optional (default = `"float32"`)
        The type of the numbers in the cache. `"float16"` takes half the space.
    cache_size_gb : `float`, optional (default = `10.0`)
        The highest size of the cache, in GiB. Once it is full, nothing more is stored.
    use_top_only : `bool`, optional (default = `False`)
        Use the top layer of the biLM alone instead of a mix. Its scale, gamma, is learned.
    elmo_dim : `int`, optional
        The size of a mix for which the other sizes in the config were chosen: 2P, or
        `projection_dim`. A biLM of another size is an error. `elmo.libsonnet` sets it.
    """

    _word_characters: Optional[Tensor]
    _projection: Optional[torch.nn.Linear]

    def __init__(
        self,
        options_file: Optional[str] = None,
        weight_file: Optional[str] = None,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        requires_grad: bool = False,
        projection_dim: Optional[int] = None,
        # These are lists. With a type, AllenNLP would convert a string to a list of characters.
        vocab_to_cache: Any = None,
        scalar_mix_parameters: Any = None,
        archive_file: Optional[str] = None,
        num_output_representations: int = 1,
        initial_state: str = "warm",
        precision: str = "fp32",
        pretrained: Optional[str] = None,
        cache_dir: Optional[str] = None,
        cache_dtype: str = "float32",
        cache_size_gb: float = 10.0,
        use_top_only: bool = False,
        elmo_dim: Optional[int] = None,
        vocab: Optional[Vocabulary] = None,
        serialization_dir: Optional[str] = None,
    ) -> None:
        super().__init__()
        if projection_dim is not None:
            check_count("projection_dim", projection_dim, least=0)
        if elmo_dim is not None:
            check_count("elmo_dim", elmo_dim)
        if vocab_to_cache is not None:
            _check_words(vocab_to_cache)
        source = _source(options_file, weight_file, archive_file, pretrained)
        kwargs: dict[str, Any] = {
            "num_output_representations": num_output_representations,
            "requires_grad": requires_grad,
            "do_layer_norm": do_layer_norm,
            "dropout": dropout,
            "scalar_mix_parameters": scalar_mix_parameters,
            "initial_state": initial_state,
            "precision": precision,
            "cache_dir": None if is_archive(serialization_dir) else cache_dir,
            "cache_dtype": cache_dtype,
            "cache_size_gb": cache_size_gb,
            "use_top_only": use_top_only,
        }
        try:
            known = stored_options(vocab, source) if is_loading(serialization_dir) else None
            if known is not None:
                self._elmo = Elmo.from_options(known, **kwargs)
            elif archive_file is not None:
                self._elmo = Elmo.from_archive(archive_file, **kwargs)
            elif pretrained is not None:
                self._elmo = Elmo.from_pretrained(pretrained, **kwargs)
            else:
                assert options_file is not None and weight_file is not None
                files = cached_path(options_file), cached_path(weight_file)
                self._elmo = Elmo.from_files(*files, **kwargs)
            n_characters = self._elmo.bilm.max_characters_per_token
        except FileNotFoundError as error:
            raise InputError(
                f'token embedder of type "elmo": expected a file, found none: {error} (relative '
                f"paths start at {os.getcwd()})"
            ) from error
        except ValueError as error:
            raise InputError(f'token embedder of type "elmo": {error}') from error
        if known is None:
            store_options(vocab, source, self._elmo.bilm.options)

        table: Optional[Tensor] = None
        if vocab_to_cache is not None:
            ids = words_to_characters(vocab_to_cache, n_characters)
            table = torch.from_numpy(ids)
            table[0] = 0  # the padding token
        self.register_buffer("_word_characters", table, persistent=False)
        self._projection = None
        dim = self._elmo.output_dim
        if projection_dim:
            self._projection = torch.nn.Linear(dim, projection_dim)
            dim = projection_dim
        if elmo_dim is not None and elmo_dim != dim:
            raise InputError(
                f'token embedder of type "elmo": expected vectors of the size elmo_dim {elmo_dim}, '
                f"for which the model's other sizes were chosen, found {dim}, that of {source}; "
                f"pass dim={dim} to elmo.libsonnet"
            )
        self.num_output_representations = num_output_representations
        self.output_dim = num_output_representations * dim

    def get_output_dim(self) -> int:
        return self.output_dim

    def forward(
        self,
        elmo_tokens: Optional[Tensor] = None,
        word_inputs: Optional[Tensor] = None,
        **others: Any,
    ) -> Tensor:
        """
        # Parameters

        elmo_tokens : `Tensor`
            Character ids of shape `(.., batch_size, timesteps, C)`.
        word_inputs : `Tensor`, optional
            Indices in `vocab_to_cache` of shape `(.., batch_size, timesteps)`, 0 at padding.

        # Returns

        `Tensor`
            ELMo vectors in fp32 of shape `(.., batch_size, timesteps, output_dim)`.

        # Raises

        `InputError`
            If the token indexer is not of type `elmo`, or if a token has neither an index in
            `vocab_to_cache` nor characters.
        """
        if elmo_tokens is None:
            raise InputError(
                'token embedder of type "elmo": expected a token indexer of type "elmo" under the '
                f"same key, found one that gives {', '.join(others) or 'nothing'}"
            )
        if self._word_characters is not None and word_inputs is not None:
            elmo_tokens = self._known_words(elmo_tokens, word_inputs)
        mixes = [mix.float() for mix in self._elmo(elmo_tokens)["elmo_representations"]]
        if self._projection is not None:
            dtype = self._projection.weight.dtype
            mixes = [self._projection(mix.to(dtype)) for mix in mixes]
        return torch.cat(mixes, dim=-1)

    def _known_words(self, elmo_tokens: Tensor, word_inputs: Tensor) -> Tensor:
        """Replaces the characters of tokens whose `word_inputs` is an index in `vocab_to_cache`."""
        assert self._word_characters is not None
        n_words = len(self._word_characters)
        is_known = (word_inputs >= 0) & (word_inputs < n_words)
        if (~is_known & ~elmo_tokens.any(dim=-1)).any():
            fail(
                "vocab_to_cache",
                f"word_inputs below {n_words}, the number of its words, or the token's characters",
                int(word_inputs[~is_known][0]),
            )
        words = self._word_characters[torch.where(is_known, word_inputs, 0)]
        return torch.where(is_known.unsqueeze(-1), words, elmo_tokens)


def _source(
    options_file: Optional[str],
    weight_file: Optional[str],
    archive_file: Optional[str],
    pretrained: Optional[str],
) -> str:
    """The biLM's name in the config, under which the archive stores its options."""
    given = {
        "options_file": options_file,
        "weight_file": weight_file,
        "archive_file": archive_file,
        "pretrained": pretrained,
    }
    for key, value in given.items():
        if value is not None:
            check_path(key, value)
    found = {key: os.fspath(value) for key, value in given.items() if value is not None}
    if found.keys() not in ({"options_file", "weight_file"}, {"archive_file"}, {"pretrained"}):
        raise InputError(
            'token embedder of type "elmo": expected one of pretrained, archive_file, or '
            f"options_file and weight_file, found {' and '.join(found) or 'none of them'}"
        )
    if pretrained is not None:
        return f"pretrained {pretrained}"
    return " ".join(found.values())


def _check_words(words: Any) -> None:
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        fail("vocab_to_cache", "a list of words, the first of them the padding token", words)
