"""
AllenNLP's program with the plugin's commands: those of `elmo_plugin.commands`, and `bilm-import`.
"""

import linecache
import os
import sys
import traceback
from argparse import ArgumentParser, Namespace, _SubParsersAction
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial, wraps
from tarfile import ReadError
from typing import Any

from allennlp import commands
from allennlp.commands import evaluate, find_learning_rate, main, predict, train
from allennlp.commands.subcommand import Subcommand
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import SigTermReceived, install_sigterm_handler
from allennlp.data import DatasetReader
from torch.multiprocessing import ProcessRaisedException

from allennlp_today.old_configs import OldConfigError
from elmo_plugin.adapters import allennlp_09
from elmo_plugin.checks import InputError
from elmo_plugin.commands.runner import (
    DEBUG,
    NAMES,
    PROGRAM,
    command_named,
    in_one_line,
    run_command,
)
from elmo_plugin.commands.streams import piped_output
from elmo_plugin.commands.threads import limit_threads
from elmo_plugin.files.decompression import DECOMPRESSION_ERRORS
from elmo_plugin.plugin import bilm_import
from elmo_plugin.pretrained import pretrained_names
from elmo_plugin.text.advice import in_lines

CLEAR = (ConfigurationError, InputError, OSError, FloatingPointError)
"""Errors whose message is sufficient by itself. The last is one of a loss that is not finite."""
RESUME = "; with --recover, the run resumes from its last checkpoint or, without one, starts again"
"""The end of the message about an interrupt of `train`."""


class Command(Subcommand):
    """A command of AllenNLP out of a `module` with `DESCRIPTION`, `add_arguments` and `run`."""

    module: Any

    def add_subparser(self, parser: _SubParsersAction) -> ArgumentParser:
        text = self.module.DESCRIPTION
        subparser = parser.add_parser(self.name, description=text, help=text)
        self.module.add_arguments(subparser)
        subparser.set_defaults(func=partial(run_command, self.module))
        return subparser


_modules: dict[str, Any] = {name: command_named(name) for name in NAMES}
for _name, _module in (_modules | {"bilm-import": bilm_import}).items():
    Subcommand.register(_name)(type(_name, (Command,), {"module": _module}))


# AllenNLP 1.0 removed this module, from which programs for 0.9 import `ElmoEmbedder`.
sys.modules["allennlp.commands.elmo"] = commands.elmo = allennlp_09  # type: ignore[attr-defined]


def _prepared(compute: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(compute)
    def run(*args: Any, **kwargs: Any) -> Any:
        limit_threads()
        with in_lines():
            return compute(*args, **kwargs)

    return run


# Each process of distributed training calls this method, and only one the command's function.
train.TrainModel.run = _prepared(train.TrainModel.run)  # type: ignore[method-assign]
for _module, _name in (
    (evaluate, "evaluate_from_args"),
    (predict, "_predict"),
    (find_learning_rate, "find_learning_rate_from_args"),
):
    setattr(_module, _name, _prepared(getattr(_module, _name)))


def run_allennlp(arguments: Sequence[str]) -> int | str | None:
    """
    Run a command of AllenNLP and return the argument of `sys.exit`: an exit code, or an error that
    names the config's file and key if they are known, in one line except for outdated keys.
    """
    install_sigterm_handler()  # as in AllenNLP's own program
    # Processes of distributed training import only the packages of `--include-package`.
    is_train = bool(arguments) and arguments[0] == "train"
    sys.argv = [PROGRAM, *arguments, *(["--include-package", "elmo_plugin"] if is_train else [])]
    try:
        # In training, other pipes may break too.
        with nullcontext() if is_train else piped_output():
            main(prog=PROGRAM)
            if not arguments:  # after the help
                print(f"\nInstalled models: {', '.join(pretrained_names())}")
    except (KeyboardInterrupt, SigTermReceived) as signal:
        print(f"{PROGRAM}: interrupted{RESUME * is_train}", file=sys.stderr)
        return 130 if isinstance(signal, KeyboardInterrupt) else 143  # 128 + SIGINT or SIGTERM
    except Exception as error:
        if DEBUG in os.environ:
            raise
        return f"{PROGRAM}: {_message(error)}"
    return None


def _message(error: Exception) -> str:
    message = in_one_line(error, isinstance(error, CLEAR) or _is_raised_by_allennlp(error))
    if isinstance(error, OldConfigError):
        message = str(error)
    elif isinstance(error, ProcessRaisedException):  # its message is that process's traceback
        message = str(error).strip().splitlines()[-1]
    elif isinstance(error, (ReadError, *DECOMPRESSION_ERRORS)):
        message = f"expected a model.tar.gz or the folder of a training run, found {error}"
    elif isinstance(error, ModuleNotFoundError) and error.name in sys.argv:
        message = f"--include-package: expected a package that Python finds, found {error.name!r}"
    for name in _places(error):
        message = message if name in message else f"{name}: {message}"
    return message


def _is_raised_by_allennlp(error: Exception) -> bool:
    """
    Whether AllenNLP found an invalid value itself and says so, as `Expected num_epochs to be a int`
    of type `TypeError`. It has no class of its own for such errors.
    """
    *_, (frame, line) = traceback.walk_tb(error.__traceback__)
    is_allennlp = frame.f_globals.get("__name__", "").startswith("allennlp.")
    statement = linecache.getline(frame.f_code.co_filename, line).split(maxsplit=1)[:1]
    return bool(str(error)) and is_allennlp and statement in (["raise"], ["assert"])


def _places(error: Exception) -> tuple[str, str, str]:
    """
    The key of the object that was built, the data that a reader read, and the config, the line of
    `predict` or the archive, taken from the stack frames of AllenNLP; empty strings if they are not
    there.
    """
    config = archive = line = data = key = history = ""
    for frame, _ in traceback.walk_tb(error.__traceback__):
        known = frame.f_locals
        if isinstance(args := known.get("args"), Namespace):
            config = str(getattr(args, "param_path", None) or "")
            archive = str(getattr(args, "archive_file", None) or "")
        if frame.f_code.co_name in ("_predict_json", "_json_data_of_all_lines"):
            line = getattr(known["self"], "place", "")
        if frame.f_code is DatasetReader.read.__code__:
            data = str(known["file_path"])
        if frame.f_code.co_name in ("pop_and_construct_arg", "construct_arg"):
            # The second one is called again for each value of a dictionary, as `token_embedders`.
            history = known["params"].history if "params" in known else history
            key = f"{history}{known['argument_name']}"
    # Our own errors name the file at fault, which may be the text.
    is_own = str(frame.f_globals.get("__name__")).startswith("elmo_plugin.")
    names_file = isinstance(error, InputError) or (is_own and isinstance(error, OSError))
    return key, data, config or line or (archive if key or not (names_file or data) else "")
