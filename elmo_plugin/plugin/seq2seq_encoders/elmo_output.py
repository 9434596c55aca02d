import torch
from allennlp.modules import Seq2SeqEncoder
from torch import Tensor

from elmo_plugin.checks import InputError, check_count, fail


@Seq2SeqEncoder.register("elmo_output")
class ElmoOutputEncoder(Seq2SeqEncoder):
    """
    Adds ELMo to the output of a task's encoder (Peters et al. 2018, section 3.3): h_k becomes [h_k;
    ELMo_k], with its own mix.

    The embedder `elmo` with `num_output_representations: 2` concatenates both mixes. This encoder
    removes the second mix from its input, calls the wrapped encoder, and appends the second mix to
    the output. It works in any model that passes its embedded text directly to its encoder.

    The output of a bidirectional encoder is [forward; backward], and some models split it in the
    middle. It therefore becomes [forward; forward ELMo; backward; backward ELMo].

    Registered as a `Seq2SeqEncoder` with name "elmo_output".

    # Parameters

    encoder : `Seq2SeqEncoder`
        Encoder of the task.
    elmo_dim : `int`
        Size of a mix, 2P.
    start : `int`
        First column of the second mix. AllenNLP concatenates embedders in alphabetical order of
        their keys, so `start` is `elmo_dim` plus the sizes of the embedders whose keys precede
        "elmo".

    # Raises

    `InputError`
        If the input does not have these columns.
    """

    def __init__(self, encoder: Seq2SeqEncoder, elmo_dim: int, start: int) -> None:
        super().__init__(stateful=encoder.stateful)
        check_count("elmo_output: elmo_dim", elmo_dim)
        check_count("elmo_output: start", start, least=0, most=encoder.get_input_dim())
        self._encoder = encoder
        self._elmo_dim = elmo_dim
        self._start = start
        self._n_directions = 2 if encoder.is_bidirectional() else 1
        if elmo_dim % self._n_directions:
            fail("elmo_output: elmo_dim", "an even number, for both directions", elmo_dim)

    def get_input_dim(self) -> int:
        return self._encoder.get_input_dim() + self._elmo_dim

    def get_output_dim(self) -> int:
        return self._encoder.get_output_dim() + self._elmo_dim

    def is_bidirectional(self) -> bool:
        return self._encoder.is_bidirectional()

    def reset_states(self, mask: torch.BoolTensor = None) -> None:  # type: ignore[assignment]
        self._encoder.reset_states(mask)

    def forward(self, inputs: Tensor, mask: Tensor | None = None) -> Tensor:
        """
        Encode embedded text, shape `(B, T, input_dim)`, with a mask, shape `(B, T)`. Returns shape
        `(B, T, output_dim)`.
        """
        if inputs.size(-1) != self.get_input_dim():
            raise InputError(
                f"elmo_output: expected {self.get_input_dim()} columns, the input size "
                f"{self._encoder.get_input_dim()} of its encoder and the elmo_dim {self._elmo_dim} "
                f"of the second mix, found {inputs.size(-1)}"
            )
        end = self._start + self._elmo_dim
        elmo = inputs[..., self._start : end]
        rest = torch.cat([inputs[..., : self._start], inputs[..., end:]], dim=-1)
        if mask is not None:
            elmo = elmo * mask.unsqueeze(-1)
        encoded = self._encoder(rest, mask)
        n = self._n_directions
        directions = zip(encoded.chunk(n, dim=-1), elmo.chunk(n, dim=-1))
        return torch.cat([part for direction in directions for part in direction], dim=-1)
