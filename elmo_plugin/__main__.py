"""
`python -m elmo_plugin` runs AllenNLP with the plugin's commands in any folder. `allennlp` itself
finds them only if a file `.allennlp_plugins` names the plugin.
"""

import logging
import sys

from allennlp.commands import main
from allennlp.common.util import import_module_and_submodules

if __name__ == "__main__":
    import_module_and_submodules("elmo_plugin")
    logging.basicConfig(format="%(message)s")
    logging.getLogger("allennlp.common.util").setLevel(logging.INFO)  # the metrics of `evaluate`
    sys.argv[0] = "python -m elmo_plugin"
    main(prog="python -m elmo_plugin")
