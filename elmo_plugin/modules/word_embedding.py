from torch import Tensor, nn

from elmo_plugin.modules.token_encoder import TokenEncoder


class WordEmbedding(TokenEncoder):
    """
    Looks up a word's vector in a table: the input of a word-level biLM, or vectors that a character
    CNN computed before.

    # Parameters

    n_words : `int`
        Number of word ids, id 0 ("no word here", a row of zeros) included.
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
        """TensorFlow's default, which bilm-tf uses: Glorot uniform over the `(V, P)` table."""
        nn.init.xavier_uniform_(self.embedding.weight[1:])
        nn.init.zeros_(self.embedding.weight[0])

    def forward(self, words: Tensor) -> Tensor:
        """`words`: ids, shape `(U,)`. Returns shape `(U, P)`."""
        return self.embedding(words.long())
