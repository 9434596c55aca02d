from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from elmo_plugin.batching import batches_by_length
from elmo_plugin.bilm_tf import load_bilm, read_options
from elmo_plugin.data.characters import words_to_characters
from elmo_plugin.modules import BiLM, LSTMState, ScalarMix
from elmo_plugin.options import BiLMOptions, build_bilm
from elmo_plugin.word_vectors import WordVectorCache

INITIAL_STATES = ("carry", "zero", "warm")


class Elmo(nn.Module):
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
    requires_grad : `bool`
        Whether the biLM is trained along. A frozen one runs without autograd, and remembers the
        vectors of words.
    do_layer_norm : `bool`
        See `ScalarMix`.
    dropout : `float`
        On the mixed vectors.
    keep_sentence_boundaries : `bool`
        Whether the two boundaries' vectors stay, as the first and the last of a sentence.
    scalar_mix_parameters : `Sequence[float] | None`
        Fixed weights of the layers, before the softmax, in place of learned ones.
    initial_state : `str`
        Where a sentence starts. `"carry"`: on from the row above in the batch before, as bilm-tf
        and AllenNLP have it, so that a vector depends on what came before; `"zero"`; or `"warm"`:
        the mean state that training found at the starts of sentences.
    precision : `str`
        Of the biLM's matrix products: `"fp32"`, or `"bf16"`, which is faster where the processor
        knows it. The vectors are fp32 either way.

    # Raises

    `ValueError`
        For another initial state or precision, no mix, or weights that are not one a layer.
    """

    def __init__(
        self,
        bilm: BiLM,
        options: BiLMOptions,
        *,
        num_output_representations: int = 1,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.0,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: Sequence[float] | None = None,
        initial_state: str = "warm",
        precision: str = "fp32",
    ) -> None:
        super().__init__()
        if initial_state not in INITIAL_STATES:
            choices = ", ".join(INITIAL_STATES)
            raise ValueError(f"initial_state: expected one of {choices}, found {initial_state!r}")
        if num_output_representations < 1:
            raise ValueError(
                "num_output_representations: expected at least 1, "
                f"found {num_output_representations}"
            )
        self.bilm = bilm.requires_grad_(requires_grad)
        self.bilm.set_precision(precision)
        self.options = options
        self.requires_grad = requires_grad
        self.keep_sentence_boundaries = keep_sentence_boundaries
        self.initial_state = initial_state
        self.dropout = nn.Dropout(dropout)
        self.num_output_representations = num_output_representations
        for k in range(num_output_representations):
            mix = ScalarMix(
                options.lstm.n_layers + 1,
                do_layer_norm=do_layer_norm,
                initial_scalar_parameters=scalar_mix_parameters,
                trainable=scalar_mix_parameters is None,
            )
            self.add_module(f"scalar_mix_{k}", mix)  # AllenNLP's name, in regular expressions too
        self.word_vectors = WordVectorCache()
        self.is_filled = True
        self.carried_state: LSTMState | None = None
        self.register_load_state_dict_pre_hook(_note_weights)

    @classmethod
    def from_files(cls, options_file: str, weight_file: str, **kwargs: Any) -> Elmo:
        """From bilm-tf's two files; `kwargs` as above. Raises what `load_bilm` raises."""
        return cls(load_bilm(options_file, weight_file), read_options(options_file), **kwargs)

    @classmethod
    def from_archive(cls, archive_file: str | os.PathLike, **kwargs: Any) -> Elmo:
        """From the `model.tar.gz`, or the folder, of a trained `bilm`; `kwargs` as above."""
        from elmo_plugin.models.bilm import load_language_model

        model = load_language_model(archive_file)
        return cls(without_dropout(model.bilm), model.options, **kwargs)

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

    @property
    def output_dim(self) -> int:
        """2P, the size of a vector."""
        return self.bilm.output_dim

    @property
    def max_characters_per_token(self) -> int:
        char_cnn = self.options.char_cnn
        if char_cnn is None:
            raise ValueError(
                "expected a biLM that reads characters, found one whose words come from a table"
            )
        return char_cnn.max_characters_per_token

    def forget(self) -> None:
        """Lets go of all that came from earlier batches: carried states and words' vectors."""
        self.carried_state = None
        self.word_vectors.clear()

    def _apply(self, *args: Any, **kwargs: Any) -> Elmo:
        self.forget()  # what is kept would stay on the old device
        return super()._apply(*args, **kwargs)

    def train(self, mode: bool = True) -> Elmo:
        super().train(mode)
        if not self.requires_grad:
            self.bilm.eval()
        return self

    def layers(self, tokens: Tensor) -> tuple[list[Tensor], Tensor]:
        """
        # Parameters

        tokens : `Tensor`
            Shape `(B, T, C)`, character ids, or `(B, T)`, word ids; zeros at padding.

        # Returns

        `tuple[list[Tensor], Tensor]`
            h_0 .. h_L, each of shape `(B, T + 2, 2P)`, with both boundaries, and their mask.
        """
        if not self.is_filled:
            raise RuntimeError(
                "this biLM was built to be loaded from an archive, and its weights never came"
            )
        mask = tokens > 0
        if tokens.dim() == 3:
            if tokens.size(-1) != self.max_characters_per_token:
                raise ValueError(
                    f"expected {self.max_characters_per_token} characters a token, the biLM's "
                    f"max_characters_per_token, found {tokens.size(-1)}; the token indexer must "
                    "have the same"
                )
            mask = mask.any(dim=-1)
        if not len(tokens):
            nothing = self.bilm.warm_state.output.new_zeros(0, mask.size(1) + 2, self.output_dim)
            return [nothing] * (self.options.lstm.n_layers + 1), nothing[:, :, 0].bool()
        frozen = not self.requires_grad
        encode = partial(self.word_vectors, self.bilm.token_encoder) if frozen else None
        with torch.set_grad_enabled(torch.is_grad_enabled() and not frozen):
            read = self.bilm.sentences(tokens, mask, self._initial_state(len(tokens)), encode)
        if self.initial_state == "carry":
            before = self.carried_state
            keep = before is not None and before.n_rows > len(tokens)
            self.carried_state = (
                before.put(read.state) if before is not None and keep else read.state
            )
        return read.layers, read.mask

    def _initial_state(self, n_rows: int) -> LSTMState:
        if self.initial_state == "warm":
            return self.bilm.warm_state(n_rows)
        if self.initial_state == "carry" and self.carried_state is not None:
            return self.carried_state.take(n_rows)
        return self.bilm.bilstm.zero_state(n_rows)

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

    @torch.no_grad()
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
        batch = _token_lists(sentences)
        one = isinstance(sentences, str) or (len(sentences) > 0 and isinstance(sentences[0], str))
        was_training = self.training
        self.eval()
        try:
            found = self._embed(batch, layer)
        finally:
            self.train(was_training)
        vectors = found if as_tensors else [x.cpu().numpy() for x in found]
        return vectors[0] if one else vectors

    def _embed(self, sentences: list[list[str]], layer: str | int) -> list[Tensor]:
        lengths = [len(sentence) for sentence in sentences]
        if self.initial_state == "carry":  # all at once: what came before matters
            batches = [list(range(len(sentences)))] if sentences else []
        else:
            batches = list(batches_by_length(lengths))
        found: list[Tensor] = [torch.empty(0)] * len(sentences)
        for places in batches:
            layers, mask = self.layers(self.characters([sentences[b] for b in places]))
            chosen = self._choose(layers, mask, layer)  # (.., B, T + 2, 2P)
            for row, b in enumerate(places):
                found[b] = chosen[..., row, 1 : lengths[b] + 1, :].float().clone()
        return found

    def _choose(self, layers: list[Tensor], mask: Tensor, layer: str | int) -> Tensor:
        if layer == "mix":
            return self.mixes[0](layers, mask)
        if layer == "all":
            return torch.stack(layers)
        if layer == "average":
            return torch.stack(layers).mean(dim=0)
        if layer == "top":
            return layers[-1]
        if isinstance(layer, int) and 0 <= layer < len(layers):
            return layers[layer]
        raise ValueError(
            f"layer: expected mix, all, average, top or a number below {len(layers)}, "
            f"found {layer!r}"
        )

    def characters(self, sentences: Sequence[Sequence[str]]) -> Tensor:
        """The character ids of a batch of sentences, shape `(B, T, C)`, zeros at padding."""
        n_characters = self.max_characters_per_token
        lengths = [len(sentence) for sentence in sentences]
        tokens = torch.zeros(len(sentences), max(lengths), n_characters, dtype=torch.long)
        for row, sentence in zip(tokens, sentences):
            ids = words_to_characters(list(sentence), n_characters)
            row[: len(sentence)] = torch.from_numpy(ids)
        return tokens.to(self.bilm.boundaries.device)


def _token_lists(sentences: Any) -> list[list[str]]:
    """What `Elmo.embed` takes, as lists of tokens."""
    if isinstance(sentences, str):
        return [sentences.split()]
    kinds = {type(sentence) for sentence in sentences}
    if kinds == {str}:
        for token in sentences:
            if token.split() != [token]:
                raise ValueError(
                    f"expected one sentence's tokens, found {token!r} among them; several "
                    "sentences are a list of lists: [s.split() for s in sentences]"
                )
        return [list(sentences)]
    if str in kinds:
        raise ValueError("expected a list of tokens or a list of lists of them, found both in one")
    return [list(sentence) for sentence in sentences]


def _note_weights(elmo: Elmo, state_dict: Mapping[str, Any], prefix: str, *_: Any) -> None:
    """Weights have come: all of the biLM's, or else `load_state_dict` says which are missing."""
    elmo.forget()
    if all(f"{prefix}bilm.{name}" in state_dict for name, _ in elmo.bilm.named_parameters()):
        elmo.is_filled = True


def without_dropout(bilm: BiLM) -> BiLM:
    """The same biLM as it reads: what was dropped in training is not dropped in use."""
    bilm.bilstm.dropout.p = 0.0
    return bilm
