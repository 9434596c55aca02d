"""
`python -m elmo_plugin` runs AllenNLP with the plugin's commands in any folder; `allennlp` itself
finds them only where a file `.allennlp_plugins` names the plugin. It logs less, and prints an error
in a config, an argument or a file as one line. Set the environment variable `ALLENNLP_DEBUG` to see
the traceback.
"""

import linecache
import logging
import os
import sys
import traceback
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from importlib.util import find_spec
from tarfile import ReadError

if sys.argv[1:2] in (["score"], ["uses"]) and find_spec("allennlp") is None:
    from elmo_plugin.elmo import score, uses_command
    from elmo_plugin.elmo.arguments import run_command

    command = score if sys.argv[1] == "score" else uses_command
    sys.exit(run_command(command, sys.argv[2:], f"python -m elmo_plugin {sys.argv[1]}"))

# Before AllenNLP, whose import prints warnings.
try:
    import elmo_plugin.plugin
except ImportError as error:
    if "ALLENNLP_DEBUG" in os.environ:
        raise
    sys.exit(f"python -m elmo_plugin: {error}")

from allennlp.commands import main
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived, install_sigterm_handler
from torch.multiprocessing import ProcessRaisedException

from elmo_plugin.checks import InputError
from elmo_plugin.files.standard_streams import piped_output

NAME = "python -m elmo_plugin"
ONE_SENTENCE = (ConfigurationError, InputError, OSError, FloatingPointError)
"""Errors whose message is sufficient by itself. The last is one of a loss that is not finite."""
LONGEST = 1000
"""Length in characters at which a message is truncated."""


def run(arguments: Sequence[str]) -> int | str | None:
    """
    Run a command and return the argument of `sys.exit`: an error in one line, which names the
    config's file and key if they are known, or an exit code.
    """
    # Processes of distributed training import only the packages of `--include-package`.
    is_train = bool(arguments) and arguments[0] == "train"
    sys.argv = [NAME, *arguments, *(["--include-package", "elmo_plugin"] if is_train else [])]
    try:
        # In training, other pipes may break too.
        with nullcontext() if is_train else piped_output():
            main(prog=NAME)
    except (KeyboardInterrupt, SigTermReceived) as signal:
        hint = "; the same command with --recover resumes the run" if is_train else ""
        print(f"{NAME}: interrupted{hint}", file=sys.stderr)
        return 130 if isinstance(signal, KeyboardInterrupt) else 143  # 128 + SIGINT or SIGTERM
    except Exception as error:
        if "ALLENNLP_DEBUG" in os.environ:
            raise
        return f"{NAME}: {_in_one_line(error)}"
    return None


def _in_one_line(error: Exception) -> str:
    message = " ".join(str(error).split())
    if isinstance(error, ProcessRaisedException):  # its message is that process's traceback
        message = str(error).strip().splitlines()[-1]
    elif isinstance(error, ReadError):
        message = f"expected a model.tar.gz or the folder of a training run, found {message}"
    elif isinstance(error, ModuleNotFoundError) and error.name in sys.argv:
        message = f"--include-package: expected a package that Python finds, found {error.name!r}"
    elif not isinstance(error, ONE_SENTENCE) and not _is_raised_by_allennlp(error):
        message = f"{type(error).__name__}: {message}; ALLENNLP_DEBUG=1 shows where"
    if len(message) > LONGEST:
        message = f"{message[:LONGEST]}..."
    file, key = _place(error)
    if key.rpartition(".")[2] not in message:
        message = f"{key}: {message}"
    return message if file in message else f"{file}: {message}"


def _is_raised_by_allennlp(error: Exception) -> bool:
    """
    Whether AllenNLP found an invalid value itself and says so, as `Expected num_epochs to be a int`
    of type `TypeError`. It has no class of its own for such errors.
    """
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    is_allennlp = frame.f_globals.get("__name__", "").startswith("allennlp.")
    statement = linecache.getline(frame.f_code.co_filename, line).split(maxsplit=1)[:1]
    return bool(str(error)) and is_allennlp and statement in (["raise"], ["assert"])


def _place(error: Exception) -> tuple[str, str]:
    """
    The config or archive that was read, and the key of the object that was built from it, taken
    from the stack frames of AllenNLP; empty strings if they are not there.
    """
    file = archive_file = key = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        known = frame.f_locals
        if isinstance(arguments := known.get("args"), Namespace):
            named = vars(arguments)
            file = str(named.get("param_path") or "")
            archive_file = str(named.get("archive_file") or "")
        if frame.f_code.co_name == "pop_and_construct_arg":
            key = f"{known['params'].history}{known['argument_name']}"
    # Our own errors name the file at fault, which may be the text.
    is_own = str(frame.f_globals.get("__name__")).startswith("elmo_plugin.")
    names_file = isinstance(error, InputError) or (is_own and isinstance(error, OSError))
    if not file and (key or not names_file):
        file = archive_file
    return file, key


if __name__ == "__main__":
    install_sigterm_handler()  # as in AllenNLP's own program
    logging.basicConfig(format="%(message)s")
    # The metrics of `evaluate`, and the versions of `test-install`.
    for name in ("allennlp.common.util", "allennlp.commands.test_install"):
        logging.getLogger(name).setLevel(logging.INFO)
    sys.exit(run(sys.argv[1:]))
