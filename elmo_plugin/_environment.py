from importlib.util import find_spec

INSTALL = "pip install torch==2.13.0, then pip install --no-deps -r requirements.txt (see the README)"


def check_environment() -> None:
    """
    # Raises

    `ModuleNotFoundError`
        One line, where AllenNLP or a package is missing without which it is silently less.
    """
    needed = {
        "torch": "PyTorch",
        "allennlp": "AllenNLP 2.10.1",
        "allennlp_models": "allennlp-models 2.10.1",
        "ftfy": "ftfy, without which AllenNLP drops all of allennlp-models",
        "h5py": "h5py",
    }
    for module, name in needed.items():
        if find_spec(module) is None:
            message = f"elmo_plugin needs {name}: {INSTALL}"
            raise ModuleNotFoundError(message, name=module) from None
