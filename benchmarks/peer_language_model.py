"""The peer in training: the same biLM, built from AllenNLP's modules."""

from typing import Any

import torch
from allennlp.modules.elmo_lstm import ElmoLstm
from allennlp.modules.sampled_softmax_loss import SampledSoftmaxLoss
from allennlp.modules.seq2vec_encoders import CnnHighwayEncoder
from torch import Tensor, nn

from elmo_plugin.modules.sampled_softmax import IGNORE
from elmo_plugin.options import BiLMOptions
from elmo_plugin.text.characters import NUM_CHARACTERS


class AllenNLPLanguageModel(nn.Module):
    """
    Reads the windows of our data loader, with the same words, number of targets and sizes. Only the
    reading order of the backward direction differs, because `ElmoLstm` reverses its input itself.

    # Parameters

    options : `BiLMOptions`
        Sizes of the biLM.
    n_words : `int`
        Size of the vocabulary.
    n_negative_samples : `int`
        Number of words that the sampled softmax draws.
    dropout : `float`
        Dropout rate of the LSTMs' input and output.
    """

    def __init__(
        self, options: BiLMOptions, n_words: int, n_negative_samples: int, dropout: float
    ) -> None:
        super().__init__()
        lstm, char_cnn = options.lstm, options.char_cnn
        assert char_cnn is not None
        self.char_embedding = nn.Embedding(NUM_CHARACTERS, char_cnn.embedding.dim, padding_idx=0)
        self.char_cnn = CnnHighwayEncoder(
            embedding_dim=char_cnn.embedding.dim,
            filters=char_cnn.filters,
            num_highway=char_cnn.n_highway,
            projection_dim=lstm.projection_dim,
            activation=char_cnn.activation,
        )
        self.lstm = ElmoLstm(
            input_size=lstm.projection_dim,
            hidden_size=lstm.projection_dim,
            cell_size=lstm.dim,
            num_layers=lstm.n_layers,
            requires_grad=True,
            memory_cell_clip_value=lstm.cell_clip,
            state_projection_clip_value=lstm.proj_clip,
        )
        self.softmax = SampledSoftmaxLoss(n_words, lstm.projection_dim, n_negative_samples)
        self.dropout = nn.Dropout(dropout)

    def forward(self, starts: Tensor, window: Any) -> dict[str, Tensor]:
        """
        See `BiLMModel.forward`. The loss is multiplied by the window's length, like the
        gradients there.
        """
        tensors = window.tensors(starts.device)
        forward_inputs, forward_targets = tensors["forward_inputs"], tensors["forward_targets"]
        backward_targets = tensors["backward_targets"]
        characters = tensors["words"].long()[forward_inputs]  # (B, T, C)
        mask = torch.ones_like(forward_inputs, dtype=torch.bool)
        x = self.char_cnn(self.char_embedding(characters.flatten(0, 1)), mask=None)
        x = self.dropout(x.view(*mask.shape, -1))
        top = self.dropout(self.lstm(x, mask)[-1])  # (B, T, 2P)
        total = torch.zeros(())
        for hidden, targets in zip(
            top.chunk(2, dim=-1), (forward_targets, backward_targets.flip(1))
        ):
            real = targets != IGNORE
            total = total + self.softmax(hidden[real], targets[real])
        n_tokens = forward_targets.ne(IGNORE).sum()
        return {"loss": forward_targets.size(1) * total / (2 * n_tokens)}
