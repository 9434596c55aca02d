import os
from typing import Any, Optional

import torch
from allennlp.common.checks import ConfigurationError
from allennlp.common.file_utils import cached_path
from allennlp.data import Vocabulary
from allennlp.modules.token_embedders import TokenEmbedder
from torch import Tensor

from elmo_plugin.checks import check_count, check_path, fail
from elmo_plugin.data.characters import words_to_characters
from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.token_embedders.archived_options import (
    is_archive,
    is_loading,
    recall,
    remember,
)


@TokenEmbedder.register("elmo")
class ElmoEmbedder(TokenEmbedder):
    """
    ELMo in any task: what `elmo_token_embedder` is, under the same parameter names.

    Where the biLM comes from is one of: `pretrained`, `archive_file`, or `options_file` with
    `weight_file`. A task model's archive is complete: it holds the biLM's sizes and weights, and
    asks for those files never again.

    Registered as a `TokenEmbedder` with name "elmo".

    # Parameters

    options_file : `str`, optional
        bilm-tf's options file.
    weight_file : `str`, optional
        bilm-tf's weight file, in HDF5.
    do_layer_norm : `bool`, optional (default = `False`)
        Normalise each layer before mixing.
    dropout : `float`, optional (default = `0.5`)
        On the ELMo vectors.
    requires_grad : `bool`, optional (default = `False`)
        Train the biLM along. A frozen one runs without autograd.
    projection_dim : `int`, optional
        Project each mix to this size.
    vocab_to_cache : `List[str]`, optional
        Words, the first of them the padding token. A token whose number `word_inputs` is among
        theirs is that word, whatever its characters; any other is read from its characters.
    scalar_mix_parameters : `List[float]`, optional
        Fixed weights of the layers, before the softmax.
    archive_file : `str`, optional
        In place of the two files: the `model.tar.gz` of a trained `bilm`, or a folder or a zip file
        with bilm-tf's `options.json` and one HDF5 file, as models are published.
    num_output_representations : `int`, optional (default = `1`)
        How many mixes stand side by side in the output, each with weights of its own.
    initial_state : `str`, optional (default = `"warm"`)
        Where a sentence starts: `"carry"` as bilm-tf and AllenNLP have it, `"zero"` or `"warm"`.
        See `Elmo`.
    precision : `str`, optional (default = `"fp32"`)
        Of the biLM's matrix products; `"bf16"` is faster where the processor knows it. See `Elmo`.
    pretrained : `str`, optional
        In place of the two files: the name of a model that came with the package.
    cache_dir : `str`, optional
        A folder, on a disk of the machine's own, that keeps a frozen biLM's layers of each
        sentence, so that from the second epoch on the biLM need not run. Exact under `"zero"` and
        `"warm"`; see `BiLMLayers`. A model that is loaded from its archive does without.
    cache_dtype : `str`, optional (default = `"float32"`)
        Of what the cache keeps; `"float16"` is half the size.
    cache_size_gb : `float`, optional (default = `10.0`)
        The most that the folder may take, in GiB. When it is full, it stays as it is.
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
        # Lists; AllenNLP would make one of a string's characters, so it is not told.
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
        vocab: Optional[Vocabulary] = None,
        serialization_dir: Optional[str] = None,
    ) -> None:
        super().__init__()
        if projection_dim is not None:
            check_count("projection_dim", projection_dim, least=0)
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
        }
        try:
            known = recall(vocab, source) if is_loading(serialization_dir) else None
            if known is not None:
                self._elmo = Elmo.empty(known, **kwargs)
            elif archive_file is not None:
                self._elmo = Elmo.from_archive(archive_file, **kwargs)
            elif pretrained is not None:
                self._elmo = Elmo.from_pretrained(pretrained, **kwargs)
            else:
                assert options_file is not None and weight_file is not None
                files = cached_path(options_file), cached_path(weight_file)
                self._elmo = Elmo.from_files(*files, **kwargs)
            n_characters = self._elmo.max_characters_per_token
        except (ValueError, FileNotFoundError) as error:
            raise ConfigurationError(f'token embedder of type "elmo": {error}') from error
        if known is None:
            remember(vocab, source, self._elmo.options)

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
            Shape `(.., batch_size, timesteps, C)`, character ids.
        word_inputs : `Tensor`, optional
            Shape `(.., batch_size, timesteps)`, numbers in `vocab_to_cache`, 0 at padding.

        # Returns

        `Tensor`
            Shape `(.., batch_size, timesteps, output_dim)`, fp32.

        # Raises

        `ConfigurationError`
            Where the token indexer is not of type `elmo`, and for a number beyond `vocab_to_cache`
            of a token that has no characters either.
        """
        if elmo_tokens is None:
            raise ConfigurationError(
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
        """`elmo_tokens` with the words of `vocab_to_cache` where `word_inputs` names one."""
        assert self._word_characters is not None
        n_words = len(self._word_characters)
        is_known = (word_inputs >= 0) & (word_inputs < n_words)
        if (~is_known & ~elmo_tokens.any(dim=-1)).any():
            fail(
                "vocab_to_cache",
                f"word numbers below {n_words}, the words that it holds, or a token's characters",
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
    """What names the biLM in a config: what the archive remembers its options under."""
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
        raise ConfigurationError(
            'token embedder of type "elmo": expected one of pretrained, archive_file, or '
            f"options_file and weight_file, found {' and '.join(found) or 'none of them'}"
        )
    if pretrained is not None:
        return f"pretrained {pretrained}"
    return " ".join(found.values())


def _check_words(words: Any) -> None:
    if not isinstance(words, list) or not words or not all(isinstance(w, str) for w in words):
        fail("vocab_to_cache", "a list of words, the first of them the padding token", words)
