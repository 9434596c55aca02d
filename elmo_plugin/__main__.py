"""
`python -m elmo_plugin` runs AllenNLP with the plugin's commands in any folder. `allennlp` itself
finds them only if a file `.allennlp_plugins` names the plugin. It is quieter, and prints what is
wrong with a config, an argument or a file in one line; with the environment variable
`ALLENNLP_DEBUG` also where it was found.
"""

import logging
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence

# Before AllenNLP, which warns as it loads.
try:
    import elmo_plugin.plugin
except ImportError as error:
    if "ALLENNLP_DEBUG" in os.environ:
        raise
    sys.exit(f"python -m elmo_plugin: {error}")

from allennlp.commands import main
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import import_module_and_submodules
from torch.multiprocessing import ProcessRaisedException

from elmo_plugin.checks import InputError

NAME = "python -m elmo_plugin"
ONE_SENTENCE = (ConfigurationError, InputError, OSError)
"""Errors whose message says what is wrong."""
JSONNET = "RUNTIME ERROR", "STATIC ERROR"
"""How the messages of jsonnet begin."""
LONGEST = 1000
"""Characters of a message, after which it is cut."""


def run(arguments: Sequence[str]) -> int | str | None:
    """
    Runs a command and returns what `sys.exit` takes: an error in one line, which names the file and
    the key of a config where they are known, or the number of another end.
    """
    # Processes of distributed training import what `--include-package` names, and nothing else.
    is_train = bool(arguments) and arguments[0] == "train"
    sys.argv = [NAME, *arguments, *(["--include-package", "elmo_plugin"] if is_train else [])]
    try:
        main(prog=NAME)
    except KeyboardInterrupt:
        print(f"{NAME}: interrupted", file=sys.stderr)
        return 130
    except Exception as error:
        if "ALLENNLP_DEBUG" in os.environ:
            raise
        return f"{NAME}: {_in_one_line(error)}"
    return None


def _in_one_line(error: Exception) -> str:
    message = " ".join(str(error).split())
    if isinstance(error, ProcessRaisedException):  # its message is the traceback of that process
        message = str(error).strip().splitlines()[-1]
    elif not isinstance(error, ONE_SENTENCE) and not message.startswith(JSONNET):
        message = f"{type(error).__name__}: {message}; ALLENNLP_DEBUG=1 shows where"
    if len(message) > LONGEST:
        message = f"{message[:LONGEST]}..."
    file, key = _place(error)
    if key.rpartition(".")[2] not in message:
        message = f"{key}: {message}"
    return message if file in message else f"{file}: {message}"


def _place(error: Exception) -> tuple[str, str]:
    """
    The config or the archive that was read, and the key of the object that was built from it, as
    far as AllenNLP's calls show them; else empty strings.
    """
    file = key = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        known = frame.f_locals
        if isinstance(arguments := known.get("args"), Namespace):
            file = str(
                getattr(arguments, "param_path", None)
                or getattr(arguments, "archive_file", None)
                or ""
            )
        if frame.f_code.co_name == "pop_and_construct_arg":
            key = f"{known['params'].history}{known['argument_name']}"
    return file, key


if __name__ == "__main__":
    import_module_and_submodules("elmo_plugin")
    logging.basicConfig(format="%(message)s")
    logging.getLogger("allennlp.common.util").setLevel(logging.INFO)  # the metrics of `evaluate`
    sys.exit(run(sys.argv[1:]))
