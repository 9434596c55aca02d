import secrets
from typing import Any

from allennlp.training.callbacks import TrainerCallback, WandBCallback


@TrainerCallback.register("wandb", exist_ok=True)
class CurrentWandBCallback(WandBCallback):
    """
    AllenNLP's callback for Weights & Biases, with the same parameters. It names the run itself,
    because current versions of wandb lack `wandb.util.generate_id`, which AllenNLP calls.

    Registered as a `TrainerCallback` with name "wandb", in place of AllenNLP's.
    """

    def on_start(self, trainer: Any, is_primary: bool = True, **kwargs: Any) -> None:
        if is_primary and self._run_id is None:
            self._run_id = secrets.token_hex(4)
        super().on_start(trainer, is_primary=is_primary, **kwargs)
