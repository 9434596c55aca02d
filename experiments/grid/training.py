"""Trains one cell in the current process."""

import json
import os
import resource
import shutil
from operator import itemgetter
from pathlib import Path
from typing import Any

import torch
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.logging import prepare_global_logging
from allennlp.common.util import prepare_environment
from allennlp.training import TrainerCallback

from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.modules.scalar_mix import ScalarMix
from experiments.grid import readers as _readers  # noqa: F401  registers them

RESULT = "result.json"
LOG = "log.txt"
SPENT = "cpu_seconds.json"
BEST = "best_validation_"

# A run that is killed continues after its last whole epoch, with the same numbers.
CHECKPOINTER = {"type": "bilm", "save_every_num_seconds": None}


def train(config: dict[str, Any], out: Path) -> None:
    """
    Train like `allennlp train`, without an archive at the end, and write `RESULT` into the folder
    `out`. The process logs to `LOG` and uses one thread. If a killed run has left `out`, continue
    it, or start again with a moving average, which no checkpoint has.
    """
    if config["trainer"].get("moving_average") is not None:
        shutil.rmtree(out)
        out.mkdir()
    with (out / LOG).open("a") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    torch.set_num_threads(1)
    (out / "config.json").write_text(json.dumps(config, indent=2))
    params = Params(config)
    if params["trainer"].get("moving_average") is None:
        params["trainer"]["checkpointer"] = CHECKPOINTER
    params["trainer"].setdefault("callbacks", []).append({"type": "cpu_seconds"})
    prepare_global_logging(str(out))
    prepare_environment(params)
    loop = TrainModel.from_params(params=params, serialization_dir=str(out), local_rank=0)
    loop.run()
    # The files of all epochs, because a run that was killed at the end of its last trains no other.
    epochs = [json.loads(file.read_text()) for file in out.glob("metrics_epoch_*.json")]
    metrics = max(epochs, key=itemgetter("epoch"))
    instances = list(loop.trainer.data_loader.iter_instances())  # type: ignore[attr-defined]
    result = {
        "instances": len({id(instance) for instance in instances}),  # a part may be repeated
        "metrics": {k.removeprefix(BEST): v for k, v in metrics.items() if k.startswith(BEST)},
        "epochs": metrics["epoch"] + 1,
        "best_epoch": metrics["best_epoch"] + 1,
        "cpu_seconds": round(_spent(out), 1),
        "mixes": mixes(loop.model),
    }
    with atomic_write(out / RESULT) as temporary:
        temporary.write_text(json.dumps(result))


@TrainerCallback.register("cpu_seconds")
class CpuSeconds(TrainerCallback):
    """Writes the CPU time of the run's whole epochs, including those before it was killed."""

    def __init__(self, serialization_dir: str) -> None:
        super().__init__(serialization_dir)
        self._before = _spent(Path(serialization_dir))

    def on_epoch(self, *_: Any, **__: Any) -> None:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        with atomic_write(Path(self.serialization_dir) / SPENT) as temporary:
            temporary.write_text(json.dumps(self._before + usage.ru_utime + usage.ru_stime))


def _spent(out: Path) -> float:
    return json.loads((out / SPENT).read_text()) if (out / SPENT).exists() else 0.0


def mixes(model: torch.nn.Module) -> list[dict[str, Any]]:
    """The weights s, after the softmax, and the scale gamma of each mix, in the order of places."""
    found = []
    for module in model.modules():
        if isinstance(module, ScalarMix):
            w = [float(w_j.detach()) for w_j in module.scalar_parameters]
            s = torch.softmax(torch.tensor(w, dtype=torch.float64), dim=0).tolist()
            found.append({"s": s, "gamma": float(module.gamma.detach())})
    return found
