from torch import Tensor, nn


class TokenEncoder(nn.Module):
    """
    The base class of the modules that give a word its vector. Id 0 is "no word here".

    # Parameters

    n_ids : `int`
        The number of ids that a token is written in (characters or words), id 0 included.
    output_dim : `int`
        P, the size of a word's vector.
    """

    def __init__(self, *, n_ids: int, output_dim: int) -> None:
        super().__init__()
        self.n_ids = n_ids
        self.output_dim = output_dim

    @property
    def word_table(self) -> nn.Embedding | None:
        """
        The table of word vectors, in which row k + 1 belongs to word k of the vocabulary, if this
        encoder has one. Only then does it depend on a vocabulary.
        """
        return None

    def forward(self, words: Tensor) -> Tensor:
        """
        `words`: ids of any integer type, shape `(U, *id_shape)`; see `BiLM.id_shape`. Returns shape
        `(U, P)`.
        """
        raise NotImplementedError
