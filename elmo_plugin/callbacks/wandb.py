import secrets
from typing import Any

from allennlp.training import GradientDescentTrainer
from allennlp.training.callbacks import TrainerCallback, WandBCallback

from elmo_plugin.checks import check_count, check_flag, check_text, fail

COUNTS = ("summary_interval", "distribution_interval", "batch_size_interval")
FLAGS = ("should_log_parameter_statistics", "should_log_learning_rate", "watch_model")
TEXTS = ("project", "entity", "group", "name", "notes")
LISTS = ("tags", "files_to_save")


@TrainerCallback.register("wandb", exist_ok=True)
class CurrentWandBCallback(WandBCallback):
    """
    AllenNLP's callback for Weights & Biases, with its parameters, on a current wandb, which no
    longer has the function that AllenNLP calls to name a run.

    Registered as a `TrainerCallback` with name "wandb", in place of AllenNLP's.
    """

    def __init__(self, serialization_dir: str, **kwargs: Any) -> None:
        for key, value in kwargs.items():
            name = f'callback of type "wandb": {key}'
            if key in FLAGS:
                check_flag(name, value)
            elif value is None and key not in ("summary_interval", "files_to_save"):
                continue
            elif key in COUNTS:
                check_count(name, value)
            elif key in TEXTS:
                check_text(name, value)
            elif key in LISTS:
                if not isinstance(value, (list, tuple)):
                    fail(name, "a list of strings", value)
                for item in value:
                    check_text(name, item)
            elif key == "wandb_kwargs" and not isinstance(value, dict):
                fail(name, "a block {...}", value)
        super().__init__(serialization_dir, **kwargs)

    def on_start(
        self, trainer: GradientDescentTrainer, is_primary: bool = True, **kwargs: Any
    ) -> None:
        if is_primary and self._run_id is None:
            self._run_id = secrets.token_hex(4)
        super().on_start(trainer, is_primary=is_primary, **kwargs)
