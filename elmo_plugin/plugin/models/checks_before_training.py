"""
A patch of AllenNLP's training: a `validation_metric` that the model lacks, and a
`validation_dataset_reader` with too few characters, were found at the first validation, or at the
test after the last epoch, and a trainer that cannot train or save the model at the first batch.
Here those of a `bilm` are found before training.
"""

from functools import wraps
from typing import Any

from allennlp.commands.train import TrainModel
from allennlp.training import GradientDescentTrainer

from elmo_plugin.checks import check_choice, fail
from elmo_plugin.plugin.data.data_loader import BiLMDataLoader
from elmo_plugin.plugin.models.bilm_model import BiLMModel
from elmo_plugin.plugin.training.checkpointer import BiLMCheckpointer
from elmo_plugin.plugin.training.optimizer import check_optimizer

_init = TrainModel.__init__


@wraps(_init)
def _init_checked(self: TrainModel, *args: Any, **kwargs: Any) -> None:
    _init(self, *args, **kwargs)
    model, trainer = self.model, self.trainer
    if not isinstance(model, BiLMModel) or not isinstance(trainer, GradientDescentTrainer):
        return
    if trainer._grad_norm is None:
        fail("trainer.grad_norm", "a number or false", None)
    if isinstance(trainer._checkpointer, BiLMCheckpointer):
        trainer._checkpointer.check_trainer(trainer)
    if model.softmax.sparse_gradients:
        check_optimizer(model.softmax.parameters())
    validation = trainer._validation_data_loader
    for loader in (trainer.data_loader, validation, self.evaluation_data_loader):
        if isinstance(loader, BiLMDataLoader):
            model.check_characters(loader.reader.max_characters_per_token)
    if validation is not None:
        known = ["loss", *model.eval().get_metrics(), *["reg_loss"] * bool(model._regularizer)]
        for _, name in trainer._metric_tracker.tracked_metrics:
            check_choice("trainer.validation_metric", name, known)


TrainModel.__init__ = _init_checked  # type: ignore[method-assign]
