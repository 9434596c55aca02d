from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from elmo_plugin.checks import check_count, check_flag, check_number, fail
from elmo_plugin.elmo.embed import embed
from elmo_plugin.elmo.layers import BiLMLayers, without_boundaries
from elmo_plugin.files.local_path import local_path
from elmo_plugin.formats.archive import read_archive
from elmo_plugin.formats.bilm_tf.model_files import holds_model_files, model_files
from elmo_plugin.formats.bilm_tf.weight_file import load_bilm
from elmo_plugin.modules import BiLM, ScalarMix
from elmo_plugin.options import BiLMOptions, build_bilm
from elmo_plugin.pretrained import pretrained_files

MOST_MIXES = 1000


class Elmo(BiLMLayers):
    """
    Contextual word vectors: a biLM and one or more mixes of its layers. In Python:

        elmo = Elmo.from_archive("model.tar.gz")
        vectors = elmo.embed("He threw the stick to the dog .")   # NumPy, (8, 2P)

    # Parameters

    bilm : `BiLM`
        The biLM, which is modified in place; see `BiLMLayers`.
    num_output_representations : `int`
        The number of mixes, each with its own weights.
    do_layer_norm : `bool`
        Normalize each layer before mixing; see `ScalarMix`.
    dropout : `float`
        The dropout of the mixed vectors.
    keep_sentence_boundaries : `bool`
        Keep the vectors of the two boundaries, as the first and the last of a sentence.
    scalar_mix_parameters : `Sequence[float] | None`
        Fixed weights of the L + 1 layers, before the softmax, instead of learned ones.
    use_top_only : `bool`
        Use the top layer alone instead of a mix; see `ScalarMix`.
    kwargs
        `requires_grad`, `initial_state`, `precision`, `cache_dir`, `cache_dtype` and
        `cache_size_gb`: see `BiLMLayers`.

    # Raises

    `InputError`
        If there is no mix, if the weights are not one finite number for each layer, if a value has
        another type, and as `BiLMLayers`.
    """

    def __init__(
        self,
        bilm: BiLM,
        *,
        num_output_representations: int = 1,
        do_layer_norm: bool = False,
        dropout: float = 0.0,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        use_top_only: bool = False,
        **kwargs: Any,
    ) -> None:
        check_count("num_output_representations", num_output_representations, most=MOST_MIXES)
        check_flag("do_layer_norm", do_layer_norm)
        check_number("dropout", dropout, least=0, most=1)
        check_flag("keep_sentence_boundaries", keep_sentence_boundaries)
        check_flag("use_top_only", use_top_only)
        n_layers = bilm.bilstm.n_layers + 1
        if scalar_mix_parameters is not None:
            _check_mix(scalar_mix_parameters, n_layers)
            if use_top_only:
                fail("scalar_mix_parameters", "none with use_top_only", scalar_mix_parameters)
        super().__init__(bilm, **kwargs)
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.dropout = nn.Dropout(dropout)
        self.num_output_representations = num_output_representations
        for k in range(num_output_representations):
            mix = ScalarMix(
                n_layers,
                do_layer_norm=do_layer_norm,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
                use_top_only=use_top_only,
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
        A model from bilm-tf's two files, or from the folder or zip file that holds them as
        `options.json` and an HDF5 file. `kwargs` are those of `Elmo`.

        # Raises

        As `load_bilm` and `model_files`.
        """
        if weight_file is None:
            with model_files(options_file) as files:
                return cls.from_files(*files, **kwargs)
        return cls(load_bilm(options_file, weight_file), **kwargs)

    @classmethod
    def from_pretrained(cls, name: str, **kwargs: Any) -> Elmo:
        """A model that is part of the package. `kwargs` are those of `Elmo`."""
        files = pretrained_files(name)
        return cls.from_files(files.options_file, files.weight_file, **kwargs)

    @classmethod
    def from_archive(cls, archive_file: str | os.PathLike, **kwargs: Any) -> Elmo:
        """
        A model from the `model.tar.gz` or the folder of a trained `bilm`, or from a folder or zip
        file with bilm-tf's two files. `kwargs` are those of `Elmo`.
        """
        path = local_path(archive_file)
        if holds_model_files(path):
            return cls.from_files(path, **kwargs)
        archive = read_archive(path)
        bilm = build_bilm(archive.options)
        bilm.load_state_dict(archive.weights("bilm"))
        return cls(bilm, **kwargs)

    @classmethod
    def from_options(cls, options: BiLMOptions, **kwargs: Any) -> Elmo:
        """
        A model without weights: it raises an error when it is called, until `load_state_dict` has
        loaded all weights of the biLM. `kwargs` are those of `Elmo`.
        """
        elmo = cls(build_bilm(options), **kwargs)
        elmo.has_weights = False
        return elmo

    @property
    def mixes(self) -> list[ScalarMix]:
        return [getattr(self, f"scalar_mix_{k}") for k in range(self.num_output_representations)]

    def forward(self, tokens: Tensor) -> dict[str, Any]:
        """
        # Parameters

        tokens : `Tensor`
            Character ids of shape `(B, T, C)`, or `(.., B, T, C)` for lists of sentences.

        # Returns

        `dict[str, Any]`
            `elmo_representations`, a list with one tensor of shape `(.., B, T, 2P)` for each mix,
            and `mask`, of shape `(.., B, T)`. With `keep_sentence_boundaries` T is T + 2.
        """
        if tokens.dim() < 3:
            raise ValueError(
                "expected character ids of shape (.., B, T, C), found the shape "
                f"{tuple(tokens.shape)}"
            )
        outer = tokens.shape[:-2]
        # The statistics of layer norm include the boundaries, as in AllenNLP.
        boundaries = self.keep_sentence_boundaries or self.mixes[0].do_layer_norm
        layers, mask = self.layers(tokens.flatten(0, -3), boundaries)
        mixed = [mix(layers, mask) for mix in self.mixes]
        if boundaries and not self.keep_sentence_boundaries:
            mixed = [without_boundaries(x, mask) for x in mixed]
            mask = mask[:, 2:]
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
        The vectors of sentences.

        # Parameters

        sentences : `str | Sequence[str] | Sequence[Sequence[str]]`
            A sentence, as a string with white space between its tokens or as a list of tokens; or
            several sentences, as a list of such lists.
        layer : `str | int`
            `"mix"` for the first mix, `"all"` for all layers, `"average"` for their average,
            `"top"` for the top layer, or the number of a layer, where 0 is the words.
        as_tensors : `bool`
            Return tensors on the biLM's device instead of NumPy arrays.

        # Returns

        `numpy.ndarray` or `Tensor`, or a list with one for each sentence
            Vectors of shape `(n, 2P)` for a sentence of n tokens, or `(L + 1, n, 2P)` for `"all"`.

        # Raises

        `ValueError`
            If the sentences have another form, or if there is no such layer.
        """
        return embed(self, self.mixes[0], sentences, layer, as_tensors)


def _check_mix(weights: Any, n_layers: int) -> None:
    name = "scalar_mix_parameters"
    if isinstance(weights, str) or not isinstance(weights, Sequence) or len(weights) != n_layers:
        fail(name, f"a list of {n_layers} numbers, one for each layer and one for words", weights)
    for k, weight in enumerate(weights):
        check_number(f"{name}[{k}]", weight)
