"""
The paper in plain PyTorch: character CNN, biLM, scalar mix and softmax (Peters et al. 2018).

Nothing in here knows AllenNLP, a file or a caller. Read in this order: `char_cnn` (with `highway`),
`projected_lstm`, `bilstm`, `bilm`, `scalar_mix`, `sampled_softmax`.
"""

from elmo_plugin.modules.bilm import BiLM, SentenceLayers
from elmo_plugin.modules.bilstm import BiLSTM
from elmo_plugin.modules.char_cnn import CharCNN
from elmo_plugin.modules.lstm_state import LSTMState
from elmo_plugin.modules.projected_lstm import ProjectedLSTM
from elmo_plugin.modules.sampled_softmax import SampledSoftmax
from elmo_plugin.modules.scalar_mix import ScalarMix
from elmo_plugin.modules.token_encoder import TokenEncoder
from elmo_plugin.modules.word_embedding import WordEmbedding

__all__ = [
    "BiLM",
    "BiLSTM",
    "CharCNN",
    "LSTMState",
    "ProjectedLSTM",
    "SampledSoftmax",
    "ScalarMix",
    "SentenceLayers",
    "TokenEncoder",
    "WordEmbedding",
]
