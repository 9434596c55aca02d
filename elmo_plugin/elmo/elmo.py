from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from allennlp.common.file_utils import cached_path
from torch import Tensor, nn

from elmo_plugin.bilm_tf.model_files import holds_model_files, model_files
from elmo_plugin.bilm_tf.options_file import read_options
from elmo_plugin.bilm_tf.weight_file import load_bilm
from elmo_plugin.checks import check_count, check_flag, check_number, fail
from elmo_plugin.elmo.embed import embed
from elmo_plugin.elmo.layers import BiLMLayers
from elmo_plugin.modules import BiLM, ScalarMix
from elmo_plugin.options import BiLMOptions, build_bilm
from elmo_plugin.pretrained import pretrained_files

MOST_MIXES = 1000


class Elmo(BiLMLayers):
    """
    Vectors of words in their sentences: a biLM and one or more mixes of its layers.

    In Python, without a config:

        elmo = Elmo.from_archive("model.tar.gz")
        vectors = elmo.embed("He threw the stick to the dog .")   # NumPy, (8, 2P)

    # Parameters

    bilm : `BiLM`
    options : `BiLMOptions`
        Its sizes.
    num_output_representations : `int`
        How many mixes, each with weights of its own.
    do_layer_norm : `bool`
        See `ScalarMix`.
    dropout : `float`
        On the mixed vectors.
    keep_sentence_boundaries : `bool`
        Whether the two boundaries' vectors stay, as the first and the last of a sentence.
    scalar_mix_parameters : `Sequence[float] | None`
        Fixed weights of the L + 1 layers, before the softmax, in place of learned ones.
    kwargs
        `requires_grad`, `initial_state`, `precision`, `cache_dir`, `cache_dtype` and
        `cache_size_gb`: see `BiLMLayers`.

    # Raises

    `ParameterError`
        For no mix, weights that are not one finite number a layer, values of another type, and for
        what `BiLMLayers` refuses.
    """

    def __init__(
        self,
        bilm: BiLM,
        options: BiLMOptions,
        *,
        num_output_representations: int = 1,
        do_layer_norm: bool = False,
        dropout: float = 0.0,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        **kwargs: Any,
    ) -> None:
        check_count("num_output_representations", num_output_representations, most=MOST_MIXES)
        check_flag("do_layer_norm", do_layer_norm)
        check_number("dropout", dropout, least=0, most=1)
        check_flag("keep_sentence_boundaries", keep_sentence_boundaries)
        n_layers = options.lstm.n_layers + 1
        if scalar_mix_parameters is not None:
            _check_mix(scalar_mix_parameters, n_layers)
        super().__init__(bilm, options, **kwargs)
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.dropout = nn.Dropout(dropout)
        self.num_output_representations = num_output_representations
        for k in range(num_output_representations):
            mix = ScalarMix(
                n_layers,
                do_layer_norm=do_layer_norm,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{k}", mix)  # AllenNLP's name, in regular expressions too

    @classmethod
    def from_files(
        cls,
        options_file: str | os.PathLike,
        weight_file: str | os.PathLike | None = None,
        **kwargs: Any,
    ) -> Elmo:
        """
        From bilm-tf's two files. Or from one path, the folder or the zip file that holds them as
        `options.json` and an HDF5 file. `kwargs` as above. Raises what `load_bilm` and
        `model_files` raise.
        """
        if weight_file is None:
            with model_files(options_file) as files:
                return cls.from_files(*files, **kwargs)
        return cls(load_bilm(options_file, weight_file), read_options(options_file), **kwargs)

    @classmethod
    def from_pretrained(cls, name: str, **kwargs: Any) -> Elmo:
        """A model that came with the package, by its name; `kwargs` as above."""
        return cls.from_files(*pretrained_files(name), **kwargs)

    @classmethod
    def from_archive(cls, archive_file: str | os.PathLike, **kwargs: Any) -> Elmo:
        """
        From the `model.tar.gz`, or the folder, of a trained `bilm`; or from a folder or a zip file
        with bilm-tf's two files, as models are published. `kwargs` as above.
        """
        from elmo_plugin.models.load import load_language_model

        path = cached_path(archive_file)
        if holds_model_files(path):
            return cls.from_files(path, **kwargs)
        model = load_language_model(path)
        return cls(model.bilm, model.options, **kwargs)

    @classmethod
    def empty(cls, options: BiLMOptions, **kwargs: Any) -> Elmo:
        """
        One whose weights `load_state_dict` is about to bring. Until then it refuses to read, so
        that what was never filled can never pass for a model.
        """
        elmo = cls(build_bilm(options), options, **kwargs)
        elmo.is_filled = False
        return elmo

    @property
    def mixes(self) -> list[ScalarMix]:
        return [getattr(self, f"scalar_mix_{k}") for k in range(self.num_output_representations)]

    def forward(self, tokens: Tensor) -> dict[str, Any]:
        """
        # Parameters

        tokens : `Tensor`
            Shape `(B, T, C)`, or `(.., B, T, C)` for lists of sentences; character ids.

        # Returns

        `dict[str, Any]`
            `elmo_representations`, a list with one tensor of shape `(.., B, T, 2P)` for each mix,
            and their `mask`; T + 2 instead of T where the boundaries are kept.
        """
        if tokens.dim() < 3:
            raise ValueError(
                "expected character ids of shape (.., B, T, C), found the shape "
                f"{tuple(tokens.shape)}"
            )
        outer = tokens.shape[:-2]
        layers, mask = self.layers(tokens.flatten(0, -3))
        mixed = [mix(layers, mask) for mix in self.mixes]
        if not self.keep_sentence_boundaries:
            # A row's last real token is the end of its sentence: what is left of it is padding.
            inner = mask[:, 2:]
            mixed = [x[:, 1:-1] * inner.unsqueeze(-1) for x in mixed]
            mask = inner
        return {
            "elmo_representations": [self.dropout(x).view(*outer, *x.shape[1:]) for x in mixed],
            "mask": mask.view(*outer, mask.size(1)),
        }

    def embed(
        self,
        sentences: str | Sequence[str] | Sequence[Sequence[str]],
        layer: str | int = "mix",
        as_tensors: bool = False,
    ) -> Any:
        """
        # Parameters

        sentences : `str | Sequence[str] | Sequence[Sequence[str]]`
            One sentence, as a string with white space between its tokens or as a list of tokens;
            or a list of such lists.
        layer : `str | int`
            `"mix"`, the first mix; `"all"` layers; `"top"`, their `"average"`, or a number from 0.
        as_tensors : `bool`
            PyTorch's tensors in place of NumPy's arrays, on the biLM's device.

        # Returns

        `numpy.ndarray` or `Tensor`, or a list of one for each sentence
            Shape `(n, 2P)`; with `"all"` `(L + 1, n, 2P)`.

        # Raises

        `ValueError`
            For sentences of another form, or a layer that there is not.
        """
        return embed(self, sentences, layer, as_tensors)


def _check_mix(weights: Any, n_layers: int) -> None:
    name = "scalar_mix_parameters"
    if isinstance(weights, str) or not isinstance(weights, Sequence) or len(weights) != n_layers:
        fail(name, f"a list of {n_layers} numbers, one for each layer and one for words", weights)
    for k, weight in enumerate(weights):
        check_number(f"{name}[{k}]", weight)
