import logging
import os
import sys
import threading
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

import torch

logger = logging.getLogger(__name__)

# Their own pins exclude every PyTorch version for Python 3.11 and later.
WITHOUT_PINS = "allennlp==2.10.1", "allennlp-models==2.10.1"

INSTALL = (
    "install elmo_plugin with its extra [allennlp], then "
    f"pip install --no-deps {' '.join(WITHOUT_PINS)} (see docs/install.md)"
)

NEEDED = ("allennlp", "allennlp_models", "transformers", "spacy")

# If one of these is missing, AllenNLP logs a line and loads no class of allennlp-models, so that a
# config fails later with a name that is not registered.
NEEDED_BY_ALLENNLP_MODELS = ("conllu", "datasets", "ftfy", "nltk", "rouge", "word2number")
NEEDED_BY_ROUGE = ("pkg_resources",)  # setuptools 81 removed it


def check_environment() -> None:
    """
    Check the installed packages without importing AllenNLP, which takes seconds. Raises a
    `ModuleNotFoundError` if a package that the plugin or allennlp-models needs is missing, and an
    `ImportError` if AllenNLP is not 2.10, or transformers lacks `AdamW`, which AllenNLP subclasses.
    """
    for module in NEEDED + NEEDED_BY_ALLENNLP_MODELS + NEEDED_BY_ROUGE:
        if find_spec(module) is None:
            name = "setuptools<81" if module == "pkg_resources" else module.replace("_", "-")
            raise ModuleNotFoundError(f"elmo_plugin needs {name}: {INSTALL}", name=module)
    for distribution in ("allennlp", "allennlp-models"):
        try:
            found = version(distribution)
        except PackageNotFoundError:  # a source tree on the path has no version
            continue
        if not found.startswith("2.10."):
            raise ImportError(f"elmo_plugin needs {distribution} 2.10.1, found {found}: {INSTALL}")
    found = version("transformers")
    if tuple(map(int, found.split(".")[:2])) >= (4, 50):
        raise ImportError(f"elmo_plugin needs transformers<4.50, found {found}: {INSTALL}")


def do_not_spin_if_busy(load_file: str = "/proc/loadavg") -> None:
    """
    Call `do_not_spin` if a command that computes for long starts on a machine that other programs
    use.
    """
    if sys.argv[1:2] not in (["train"], ["elmo"]) or "OMP_NUM_THREADS" in os.environ:
        return
    try:  # "1.52 1.20 0.80 3/345 9876": the last minute's average, and the threads that run now
        average, _, _, running, _ = Path(load_file).read_text().split()
    except OSError:  # not Linux
        return
    # The average alone may be that of a command that has just ended; this process runs too.
    load = min(float(average), int(running.partition("/")[0]) - 1)
    cores = os.cpu_count() or 1
    if cores > 1 and load > cores / 2:
        do_not_spin()
        logger.info(
            "Other programs run %g threads on %d cores, so threads do not spin", load, cores
        )


def do_not_spin() -> None:
    """
    Let PyTorch's threads sleep while they wait for one another.

    GNU OpenMP's threads wait for milliseconds in a loop, which takes the core from the very thread
    that they wait for if other programs use the other cores. They do so hardly at all in a process
    that has more such threads than there are cores, so this starts two more teams, which sleep.
    Results keep their bits, as they would not with fewer threads.
    """
    for _ in range(2):  # PyTorch may use as few threads as half of the (logical) cores
        threading.Thread(
            target=_sleeping_team, args=(ready := threading.Event(),), daemon=True
        ).start()
        ready.wait()


def _sleeping_team(ready: threading.Event) -> None:
    torch.ones(1 << 20).add_(1)  # long enough for several threads, which this one keeps
    ready.set()
    threading.Event().wait()
