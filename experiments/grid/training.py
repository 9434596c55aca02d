"""Trains one cell in the current process."""

import json
import os
import resource
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.logging import prepare_global_logging
from allennlp.common.util import prepare_environment
from allennlp.training import TrainerCallback
from filelock import FileLock

from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.formats.mixes import find_mixes
from experiments.grid import readers as _readers  # noqa: F401  registers them
from experiments.grid.transformer import remember_transformers

RESULT = "result.json"
LOG = "log.txt"
BEST = "best_validation_"


def train(config: dict[str, Any], out: Path) -> None:
    """
    Train like `allennlp train`, without an archive at the end, and write `RESULT` into the folder
    `out`. The process logs to `LOG` and uses one thread. If `out` is that of a run that was killed,
    it continues after its last whole epoch, with the same numbers. With a moving average, which the
    checkpointer `bilm` does not save, it starts again.
    """
    lock = FileLock(out / ".lock", timeout=0)
    lock.acquire()  # until this process ends, because another grid may start the same run
    with (out / LOG).open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    torch.set_num_threads(1)
    (out / "config.json").write_text(json.dumps(config, indent=2))
    trainer = config["trainer"]
    spent = {"type": "cpu_seconds"}
    trainer = {**trainer, "callbacks": [spent, *(trainer.get("callbacks") or [])]}
    if trainer.get("moving_average") is None:
        trainer["checkpointer"] = {"type": "bilm", "save_every_num_seconds": None}
    else:
        for checkpoint in out.glob("*_state_*.th"):
            checkpoint.unlink()
    params = Params({**config, "trainer": trainer})
    params.pop("test_data_path", None)  # AllenNLP would also put its words into the vocabulary
    prepare_global_logging(str(out))
    prepare_environment(params)
    loop = TrainModel.from_params(params=params, serialization_dir=str(out), local_rank=0)
    remember_transformers(loop.model)
    loop.run()
    # The files of all epochs, because a run that was killed at the end of its last trains no other.
    epochs = [json.loads(file.read_text()) for file in out.glob("metrics_epoch_*.json")]
    last = max(epochs, key=itemgetter("epoch"))
    instances = list(loop.trainer.data_loader.iter_instances())  # type: ignore[attr-defined]
    mixes = find_mixes(dict(loop.model.named_parameters()))  # in the order of places
    result = {
        "instances": len({id(instance) for instance in instances}),  # a part may be repeated
        "metrics": {k.removeprefix(BEST): v for k, v in last.items() if k.startswith(BEST)},
        "epochs": last["epoch"] + 1,
        # A trainer that continues counts the best epoch in validations.
        "best_epoch": 1 + max(e["epoch"] for e in epochs if e["epoch"] == e["best_epoch"]),
        "cpu_seconds": round(loop.trainer._callbacks[0].seconds, 1),  # type: ignore[attr-defined]
        "mixes": [{"s": mix.weights, "gamma": mix.gamma} for mix in mixes.values()],
    }
    with atomic_write(out / RESULT) as temporary:
        temporary.write_text(json.dumps(result))


@TrainerCallback.register("cpu_seconds")
class CpuSeconds(TrainerCallback):
    """The CPU time of a run, without what was lost when it was killed."""

    def __init__(self, serialization_dir: str) -> None:
        super().__init__(serialization_dir)
        self._before = 0.0

    @property
    def seconds(self) -> float:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return self._before + usage.ru_utime + usage.ru_stime

    def state_dict(self) -> dict[str, Any]:
        return {"seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._before = state_dict["seconds"]
