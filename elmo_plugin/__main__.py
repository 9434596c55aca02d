"""
`python -m elmo_plugin` runs the plugin's commands, and AllenNLP's with the plugin loaded, in any
folder; `allennlp` itself finds the former only where a file `.allennlp_plugins` names the plugin.
It logs less, and prints an error in a config, an argument or a file as one line. Set the
environment variable `ALLENNLP_DEBUG` to see the traceback.
"""

import logging
import os
import signal
import sys
from collections.abc import Sequence

from elmo_plugin.commands.runner import DEBUG, NAMES, PROGRAM, run_program
from elmo_plugin.files.interrupts import SIGNALS, end_command
from elmo_plugin.pretrained import pretrained_names
from elmo_plugin.version import VERSION


def run(arguments: Sequence[str]) -> int | str | None:
    """Run a command, and return the argument of `sys.exit`: an error in one line, or a code."""
    command, *others = arguments or ["--help"]
    if command in NAMES:
        return run_program(command, others)  # seconds before AllenNLP is imported
    if command == "--version":
        print(f"elmo_plugin {VERSION}")
        return None
    is_help = command in ("-h", "--help")
    try:
        from elmo_plugin.plugin.commands import run_allennlp
    except ImportError as error:
        if DEBUG in os.environ:
            raise
        commands, models = map(", ".join, (NAMES, pretrained_names()))
        without = f"{error}; without AllenNLP, there are {commands}; models: {models}"
        if not is_help:
            return f"{PROGRAM}: {without}"
        print(f"elmo_plugin {VERSION}; {PROGRAM} COMMAND --help explains a command\n{without}")
        return None
    return run_allennlp([] if is_help else arguments)


if __name__ == "__main__":
    arguments = sys.argv[1:]
    for number in SIGNALS if {*arguments[:1]} & {*NAMES} else ():  # AllenNLP has its own handlers
        if signal.getsignal(number) is not signal.SIG_IGN:  # as in a shell's background processes
            signal.signal(number, end_command)
    logging.basicConfig(format="%(message)s")
    # The metrics of `evaluate`, and the versions of `test-install`.
    for name in ("allennlp.common.util", "allennlp.commands.test_install"):
        logging.getLogger(name).setLevel(logging.INFO)
    end = run(arguments)
    for number in SIGNALS if end is None else ():  # the result is there, and Python takes time
        signal.signal(number, signal.SIG_IGN)
    sys.exit(end)
