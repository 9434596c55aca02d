"""
The paper in plain PyTorch: character CNN, biLM, scalar mix and softmax (Peters et al. 2018).

These modules know neither AllenNLP nor files. Read them in the order of the paper: `char_cnn` (with
`highway`; `word_embedding` is the other `token_encoder`), `projected_lstm`, `bilstm` (with
`lstm_state`), `bilm`, `scalar_mix`, `sampled_softmax`. `warm_state` and `initial_state` say from
which state a sentence is read. The equations are here; their kernels are in `ops`.
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
