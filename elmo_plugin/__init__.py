"""
ELMo for AllenNLP. Importing this registers all that the plugin adds, which is:

`bilm` (Model, DatasetReader, DataLoader, Vocabulary, Checkpointer, Predictor), `elmo`
(TokenIndexer, TokenEmbedder, Predictor, Subcommand), `elmo_output` (Seq2SeqEncoder),
`learning_curve` and `bilm_export` (TrainerCallbacks), `bilm-encode`, `bilm-import` and
`bilm-export` (Subcommands), and the texts `docs://train` and `docs://heldout`.
"""

from elmo_plugin._environment import check_environment

check_environment()

from elmo_plugin.commands import elmo as elmo_command  # noqa: E402
from elmo_plugin.commands import encode  # noqa: E402
from elmo_plugin.data import (  # noqa: E402
    data_loader,
    dataset_reader,
    installed_docs,
    token_indexer,
    vocabulary,
)
from elmo_plugin.elmo import Elmo  # noqa: E402
from elmo_plugin.models import bilm  # noqa: E402
from elmo_plugin.predictors import bilm as bilm_predictor  # noqa: E402
from elmo_plugin.predictors import elmo as elmo_predictor  # noqa: E402
from elmo_plugin.seq2seq_encoders import elmo_output  # noqa: E402
from elmo_plugin.token_embedders import elmo as elmo_embedder  # noqa: E402
from elmo_plugin.training import checkpointer, learning_curve  # noqa: E402

__all__ = ["Elmo"]
