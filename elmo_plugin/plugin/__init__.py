"""
ELMo for AllenNLP. Importing this package registers:

`bilm` (Model, DatasetReader, DataLoader, Vocabulary, Checkpointer, Predictor), `elmo`
(TokenIndexer, TokenEmbedder, Predictor, Subcommand), `elmo_output` and `lstm`, faster
(Seq2SeqEncoders), `bcn_elmo`, `bidaf_elmo`, `naqanet_elmo` and `qanet_elmo` (Models),
`clipped_adagrad` and `fused_adam` (Optimizers), `learning_curve`, `validate_every`, `bilm_export`,
`elmo_mix`, `keep_freed_memory` and `wandb`, fixed (TrainerCallbacks), `reduce_on_plateau`, fixed
(LearningRateScheduler), `bilm-encode`, `bilm-import`, `bilm-export`, `elmo-configs`, `elmo-mix` and
`uses` (Subcommands), the texts `docs://train`, `docs://heldout` and `task://CONFIG#KEY`,
and the archives `pretrained://NAME` of the models in the package.
"""

import importlib
import pkgutil

import elmo_plugin_torchvision
from elmo_plugin.files.standard_streams import occupy_closed_streams
from elmo_plugin.plugin.environment import check_environment

check_environment()
occupy_closed_streams()
# PyTorch has already called this, unless its autoload is off or the package is not installed.
elmo_plugin_torchvision.install()

# This patches AllenNLP for the imports below, which register everything.
from elmo_plugin.plugin import compat, faster  # isort: split

for _module in pkgutil.walk_packages(__path__, f"{__name__}."):
    importlib.import_module(_module.name)
