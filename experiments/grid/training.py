"""Trains one cell in the current process."""

import json
import os
import resource
import time
from pathlib import Path
from typing import Any

import torch
from allennlp.commands.train import TrainModel
from allennlp.common import Params
from allennlp.common.logging import prepare_global_logging
from allennlp.common.util import prepare_environment

from elmo_plugin.files.atomic_write import atomic_write
from elmo_plugin.modules.scalar_mix import ScalarMix
from experiments.grid import readers as _readers  # noqa: F401  registers them

RESULT = "result.json"
LOG = "log.txt"
BEST = "best_validation_"


def train(config: dict[str, Any], out: Path) -> None:
    """
    Train like `allennlp train`, without an archive at the end, and write `RESULT` into the folder
    `out`. The process logs to `LOG` and uses one thread.
    """
    with (out / LOG).open("w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
    torch.set_num_threads(1)
    start = time.monotonic()
    (out / "config.json").write_text(json.dumps(config, indent=2))
    params = Params(config)
    prepare_global_logging(str(out))
    prepare_environment(params)
    loop = TrainModel.from_params(params=params, serialization_dir=str(out), local_rank=0)
    metrics = loop.run()
    usage = resource.getrusage(resource.RUSAGE_SELF)
    instances = list(loop.trainer.data_loader.iter_instances())  # type: ignore[attr-defined]
    result = {
        "instances": len({id(instance) for instance in instances}),  # a part may be repeated
        "metrics": {k.removeprefix(BEST): v for k, v in metrics.items() if k.startswith(BEST)},
        "epochs": metrics["epoch"] + 1,
        "best_epoch": metrics["best_epoch"] + 1,
        "seconds": round(time.monotonic() - start, 1),
        "cpu_seconds": round(usage.ru_utime + usage.ru_stime, 1),
        "mixes": mixes(loop.model),
    }
    with atomic_write(out / RESULT) as temporary:
        temporary.write_text(json.dumps(result))


def mixes(model: torch.nn.Module) -> list[dict[str, Any]]:
    """The weights s, after the softmax, and the scale gamma of each mix, in the order of places."""
    found = []
    for module in model.modules():
        if isinstance(module, ScalarMix):
            w = [float(w_j.detach()) for w_j in module.scalar_parameters]
            s = torch.softmax(torch.tensor(w, dtype=torch.float64), dim=0).tolist()
            found.append({"s": s, "gamma": float(module.gamma.detach())})
    return found
