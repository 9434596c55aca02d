"""
AllenNLP's callback `wandb` calls `wandb.util.generate_id`, which current versions of wandb lack:
`AttributeError: module 'wandb.util' has no attribute 'generate_id'`.

This module registers another class under this name, with the same parameters. Remove it when
AllenNLP no longer calls it.
"""

import secrets
from typing import Any

from allennlp.training.callbacks import TrainerCallback, WandBCallback


@TrainerCallback.register("wandb", exist_ok=True)
class CurrentWandBCallback(WandBCallback):
    """
    AllenNLP's callback for Weights & Biases, which names the run itself.

    Registered as a `TrainerCallback` with name "wandb", in place of AllenNLP's.
    """

    def on_start(self, trainer: Any, is_primary: bool = True, **kwargs: Any) -> None:
        if is_primary and self._run_id is None:
            self._run_id = secrets.token_hex(4)
        super().on_start(trainer, is_primary=is_primary, **kwargs)
