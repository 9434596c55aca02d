import logging
import os
import sys
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

logger = logging.getLogger(__name__)

# Their own pins exclude every PyTorch version for Python 3.11 and later.
WITHOUT_PINS = "allennlp==2.10.1", "allennlp-models==2.10.1"

INSTALL = (
    "install elmo_plugin with its extra [allennlp], then "
    f"pip install --no-deps {' '.join(WITHOUT_PINS)} (see docs/install.md)"
)

NEEDED = ("torch", "allennlp", "allennlp_models", "transformers", "spacy", "h5py")

# If one of these is missing, AllenNLP logs a line and loads no class of allennlp-models, so that a
# config fails later with a name that is not registered.
NEEDED_BY_ALLENNLP_MODELS = ("conllu", "datasets", "ftfy", "nltk", "rouge", "word2number")
NEEDED_BY_ROUGE = ("pkg_resources",)  # setuptools 81 removed it


def check_environment() -> None:
    """
    Check the installed packages without importing AllenNLP, which takes seconds.

    # Raises

    `ModuleNotFoundError`
        If a package that the plugin or allennlp-models needs is missing.
    `ImportError`
        If AllenNLP is not 2.10, or transformers lacks `AdamW`, which AllenNLP subclasses.
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


def warn_if_busy(load_file: str = "/proc/loadavg") -> None:
    """
    Log what to set if a command that computes for long starts on a machine that other programs
    use. The threads of a product wait for one another, so that a thread that shares its core delays
    all of them.
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
        logger.warning(
            "Other programs run %g threads on %d cores: next to them, this command is faster with "
            "the environment variable OMP_NUM_THREADS=1",
            load,
            cores,
        )
