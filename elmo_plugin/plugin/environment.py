from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from platform import python_version_tuple

OLDEST_PYTHON = 3, 11

# Their own pins exclude every PyTorch for Python 3.11.
WITHOUT_PINS = "allennlp==2.10.1", "allennlp-models==2.10.1", "torchvision==0.15.2"

INSTALL = (
    f"pip install elmo_plugin; pip install --no-deps {' '.join(WITHOUT_PINS)} (see the README)"
)

NEEDED = {
    "torch": "PyTorch",
    "allennlp": "AllenNLP 2.10.1",
    "allennlp_models": "allennlp-models 2.10.1",
    "torchvision": "torchvision 0.15.2",
    "h5py": "h5py",
}

# Without one of these AllenNLP only logs a line and loads no class of allennlp-models, so that a
# config fails later because of a name that is not registered.
NEEDED_BY_ALLENNLP_MODELS = ("conllu", "datasets", "ftfy", "nltk", "rouge", "word2number")


def check_environment() -> None:
    """
    Checks Python and the installed packages without importing them, because importing AllenNLP
    takes seconds.

    # Raises

    `ModuleNotFoundError`
        If a package is missing that the plugin or allennlp-models needs.
    `ImportError`
        If Python is older than 3.11 or AllenNLP is not 2.10.
    """
    python = tuple(map(int, python_version_tuple()[:2]))
    if python < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        raise ImportError(
            f"elmo_plugin needs Python {oldest}, found {'.'.join(map(str, python))}: "
            f"python{oldest} -m venv .venv, and with its pip: {INSTALL}"
        )
    for module, name in NEEDED.items():
        if find_spec(module) is None:
            raise _missing(module, name)
    for module in NEEDED_BY_ALLENNLP_MODELS:
        if find_spec(module) is None:
            raise _missing(module, f"{module}, without which AllenNLP omits allennlp-models")
    for distribution in ("allennlp", "allennlp-models"):
        try:
            found = version(distribution)
        except PackageNotFoundError:  # a source tree on the path has no version
            continue
        if found.split(".")[:2] != ["2", "10"]:
            raise ImportError(f"elmo_plugin needs {distribution} 2.10.1, found {found}: {INSTALL}")


def _missing(module: str, name: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"elmo_plugin needs {name}: {INSTALL}", name=module)
