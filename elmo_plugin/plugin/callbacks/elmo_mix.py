import logging
from typing import Any

from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import TrainerCallback
from allennlp.training.callbacks.log_writer import LogWriterCallback

from elmo_plugin.checks import check_count
from elmo_plugin.elmo.mixes import find_mixes

logger = logging.getLogger(__name__)


@TrainerCallback.register("elmo_mix")
class ElmoMixCallback(TrainerCallback):
    """
    Logs how the mixes of ELMo's layers change in training: the weights s, after the softmax, and
    the scale gamma. If the trainer has callbacks for TensorBoard or Weights & Biases, they also get
    them, as `elmo_mix/NAME/s_0` .. `s_L` and `elmo_mix/NAME/gamma`.

    Registered as a `TrainerCallback` with name "elmo_mix".

    # Parameters

    interval : `int`, optional (default = `100`)
        Number of batches between two logs. The mixes are also logged after each epoch.
    """

    def __init__(self, serialization_dir: str, interval: int = 100) -> None:
        super().__init__(serialization_dir)
        check_count('callback of type "elmo_mix": interval', interval)
        self.interval = interval

    def on_start(self, trainer: Any, is_primary: bool = True, **_: Any) -> None:
        if is_primary and not find_mixes(dict(trainer.model.named_parameters())):
            logger.warning("elmo_mix: the model has no mix of ELMo's layers")

    def on_batch(
        self, trainer: Any, *_: Any, is_training: bool = True, is_primary: bool = True, **__: Any
    ) -> None:
        if is_training and is_primary and trainer._total_batches_completed % self.interval == 0:
            _log(trainer)

    def on_epoch(self, trainer: Any, *_: Any, is_primary: bool = True, **__: Any) -> None:
        if is_primary and trainer._total_batches_completed % self.interval != 0:
            _log(trainer)


def _log(trainer: GradientDescentTrainer) -> None:
    scalars: dict[str, float] = {}
    for name, mix in find_mixes(dict(trainer.model.named_parameters())).items():
        logger.info("batch %d, %s: %s", trainer._total_batches_completed, name, mix)
        scalars.update({f"{name}/s_{j}": s_j for j, s_j in enumerate(mix.weights)})
        scalars[f"{name}/gamma"] = mix.gamma
    for callback in trainer._callbacks:
        if isinstance(callback, LogWriterCallback):
            callback.log_scalars(scalars, log_prefix="elmo_mix")
