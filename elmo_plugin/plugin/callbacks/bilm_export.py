import logging
from pathlib import Path
from typing import Any

from allennlp.training.callbacks import TrainerCallback

from elmo_plugin.checks import InputError
from elmo_plugin.formats.bilm_tf.model_files import write_model_files
from elmo_plugin.plugin.data.vocabulary import vocabulary_words
from elmo_plugin.plugin.models.export_readers import refused_by_allennlp, who_reads
from elmo_plugin.plugin.models.language_model import BiLMModel

logger = logging.getLogger(__name__)


@TrainerCallback.register("bilm_export")
class BiLMExportCallback(TrainerCallback):
    """
    Writes the best weights of a finished run as bilm-tf's files, to the folder `bilm-tf` inside the
    run's output folder. Before training it warns if AllenNLP's own ELMo cannot read them.

    Registered as a `TrainerCallback` with name "bilm_export".

    # Parameters

    softmax : `bool`, optional (default = `False`)
        Whether to write the softmax too.
    """

    def __init__(self, serialization_dir: str, softmax: bool = False) -> None:
        super().__init__(serialization_dir)
        self.softmax = softmax

    def on_start(self, trainer: Any, is_primary: bool = True, **_: Any) -> None:
        if not isinstance(trainer.model, BiLMModel):
            found = type(trainer.model).__name__
            raise InputError(
                f'callback of type "bilm_export": expected a model of type "bilm", found {found}'
            )
        if is_primary and refused_by_allennlp(trainer.model.bilm.options):
            logger.warning("The files of bilm_export: %s", who_reads(trainer.model.bilm.options))

    def on_end(
        self, trainer: Any, metrics: Any = None, *_: Any, is_primary: bool = True, **__: Any
    ) -> None:
        # The trainer has loaded the best weights, unless it failed and there are no metrics.
        if is_primary and metrics is not None:
            model = trainer.model
            write_model_files(
                Path(self.serialization_dir) / "bilm-tf",
                model.bilm,
                softmax=model.softmax if self.softmax else None,
                words=vocabulary_words(model.vocab),
            )
