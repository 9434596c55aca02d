"""The packages that AllenNLP 2.10.1 and allennlp-models 2.10.1 need, and how to install them."""

from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

# Their own pins exclude every PyTorch version for Python 3.11 and later.
WITHOUT_PINS = "allennlp==2.10.1", "allennlp-models==2.10.1"

INSTALL = (
    "pip install 'elmo_plugin[allennlp]' and then "
    f"pip install --no-deps {' '.join(WITHOUT_PINS)} (see docs/install.md)"
)

NEEDED = ("allennlp", "allennlp_models", "transformers", "spacy")

# If one of these is missing, AllenNLP logs a line and loads no class of allennlp-models, so that a
# config fails later with a name that is not registered. setuptools 81 removed `pkg_resources`.
NEEDED_BY_ALLENNLP_MODELS = "conllu datasets ftfy nltk rouge word2number pkg_resources".split()


def check_environment() -> None:
    """
    Check the installed packages without importing AllenNLP, which takes seconds. Raises a
    `ModuleNotFoundError` if a package that AllenNLP or allennlp-models needs is missing, and an
    `ImportError` if AllenNLP is not 2.10, or transformers lacks `AdamW`, which AllenNLP subclasses.
    """
    for module in [*NEEDED, *NEEDED_BY_ALLENNLP_MODELS]:
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
