"""
ELMo for AllenNLP. Importing this package registers:

`bilm` (Model, DatasetReader, DataLoader, Vocabulary, Checkpointer, Predictor), `elmo`
(TokenIndexer, TokenEmbedder, Predictor, Subcommand), `elmo_output` (Seq2SeqEncoder), `bcn_elmo`,
`bidaf_elmo`, `naqanet_elmo` and `qanet_elmo` (Models), `clipped_adagrad` and `fused_adam`
(Optimizers), `learning_curve`, `validate_every`, `bilm_export`, `elmo_mix`, `keep_freed_memory` and
`wandb`, fixed (TrainerCallbacks), `reduce_on_plateau`, fixed (LearningRateScheduler),
`bilm-encode`, `bilm-import`, `bilm-export`, `elmo-configs`, `elmo-mix` and `elmo-nearest`
(Subcommands), the texts `docs://train`, `docs://heldout` and `task://CONFIG#KEY`, and the archives
`pretrained://NAME` of the models in the package.
"""

import elmo_plugin_torchvision
from elmo_plugin.plugin.environment import check_environment, do_not_spin_if_busy

check_environment()
do_not_spin_if_busy()
# PyTorch has already called this, unless its autoload is off or the package is not installed.
elmo_plugin_torchvision.install()

# This patches AllenNLP for the imports below.
from elmo_plugin.plugin import compat  # isort: split

from elmo_plugin.plugin.callbacks import bilm_export as bilm_export_callback
from elmo_plugin.plugin.callbacks import elmo_mix as elmo_mix_callback
from elmo_plugin.plugin.callbacks import keep_freed_memory, learning_curve, validate_every, wandb
from elmo_plugin.plugin.commands import (
    bilm_export,
    bilm_import,
    elmo_configs,
    elmo_mix,
    elmo_nearest,
    elmo_vectors,
    encode,
)
from elmo_plugin.plugin.data import (
    data_loader,
    dataset_reader,
    installed_docs,
    task_text,
    token_indexer,
    vocabulary,
)
from elmo_plugin.plugin.models import archives, language_model
from elmo_plugin.plugin.predictors import sentences
from elmo_plugin.plugin.seq2seq_encoders import elmo_output
from elmo_plugin.plugin.task_models import bcn, bidaf, qanet
from elmo_plugin.plugin.token_embedders import elmo_token_embedder
from elmo_plugin.plugin.training import checkpointer, optimizer
