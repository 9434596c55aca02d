"""
The options of a biLM, under the keys that bilm-tf's options files and our configs share:

    lstm            {dim, projection_dim, n_layers, cell_clip, proj_clip, use_skip_connections}
    char_cnn        {embedding: {dim}, filters, n_highway, activation, max_characters_per_token}
    n_tokens_vocab  the number of words of a word table, which is built if there is no char_cnn

Each block has a dataclass whose fields are the keys of the block and which checks their values. A
biLM has one of the token encoders in `TOKEN_ENCODERS`.
"""

from elmo_plugin.options.bilm import TOKEN_ENCODERS, BiLMOptions, build_bilm, options_of
from elmo_plugin.options.char_cnn import CharCNNOptions
from elmo_plugin.options.lstm import LSTMOptions
from elmo_plugin.options.token_encoder import TokenEncoderOptions
from elmo_plugin.options.word_table import WordTableOptions

__all__ = [
    "TOKEN_ENCODERS",
    "BiLMOptions",
    "CharCNNOptions",
    "LSTMOptions",
    "TokenEncoderOptions",
    "WordTableOptions",
    "build_bilm",
    "options_of",
]
