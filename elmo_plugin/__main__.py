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
from elmo_plugin.pretrained import pretrained_names


def run(arguments: Sequence[str]) -> int | str | None:
    """Run a command, and return the argument of `sys.exit`: an error in one line, or a code."""
    if arguments and arguments[0] in NAMES:
        return run_program(arguments[0], arguments[1:])  # seconds before AllenNLP is imported
    try:
        from elmo_plugin.plugin.commands import run_allennlp
    except ImportError as error:
        if DEBUG in os.environ:
            raise
        commands, models = map(", ".join, (NAMES, pretrained_names()))
        return f"{PROGRAM}: {error}; without AllenNLP, there are {commands}; models: {models}"
    return run_allennlp(arguments)


if __name__ == "__main__":
    # SIGTERM ends a command as an error does, after which no temporary file is left.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    logging.basicConfig(format="%(message)s")
    # The metrics of `evaluate`, and the versions of `test-install`.
    for name in ("allennlp.common.util", "allennlp.commands.test_install"):
        logging.getLogger(name).setLevel(logging.INFO)
    sys.exit(run(sys.argv[1:]))
