from torch import Tensor, nn

from elmo_plugin.modules.token_encoder import TokenEncoder


class WordEmbedding(TokenEncoder):
    """
    A word's vector from a table: the input of a word-level biLM, or of a cache of vectors that a
    character CNN once computed.

    # Parameters

    n_words : `int`
        How many word ids there are, id 0 ("no word here", a row of zeros) included.
    projection_dim : `int`
        P, the size of a word's vector.
    """

    def __init__(self, *, n_words: int, projection_dim: int) -> None:
        super().__init__(n_ids=n_words, output_dim=projection_dim)
        self.embedding = nn.Embedding(n_words, projection_dim, padding_idx=0)
        self.reset_parameters()

    @property
    def word_table(self) -> nn.Embedding:
        return self.embedding

    def reset_parameters(self) -> None:
        """TensorFlow's default, Glorot uniform over the `(V, P)` table; bilm-tf gives no other."""
        nn.init.xavier_uniform_(self.embedding.weight[1:])
        nn.init.zeros_(self.embedding.weight[0])

    def forward(self, words: Tensor) -> Tensor:
        """`words`: shape `(n_words,)`, ids. Returns shape `(n_words, P)`."""
        return self.embedding(words.long())
