"""
The paper in plain PyTorch: token encoders, biLM, scalar mix and softmax (Peters et al. 2018).

These modules depend on neither AllenNLP nor files. Read them in the order of the paper: `char_cnn`,
`token_encoder`, `lstm`, `bilm`, `scalar_mix`, `sampled_softmax`, `language_model`. The equations
are here, and the kernels in `ops`. Not from the paper are `lexicon`, which finds words of a table
and characters of ELMoForManyLangs, and `initial_state`, the state from which a sentence is read.

A frozen biLM (`elmo/frozen.py`) computes the same equations on a copy, in which `Linear`,
`ProjectedLSTM.weights` and `CharCNN.convolve` use weights that are packed once, and the token
encoder is behind a cache of word vectors.
"""

from elmo_plugin.modules.bilm import BiLM
from elmo_plugin.modules.char_cnn import CharCNN
from elmo_plugin.modules.language_model import BiLMWithSoftmax
from elmo_plugin.modules.lstm import BiLSTM, LSTMState, ProjectedLSTM
from elmo_plugin.modules.sampled_softmax import SampledSoftmax
from elmo_plugin.modules.scalar_mix import ScalarMix

__all__ = [
    "BiLM",
    "BiLSTM",
    "CharCNN",
    "BiLMWithSoftmax",
    "LSTMState",
    "ProjectedLSTM",
    "SampledSoftmax",
    "ScalarMix",
]
