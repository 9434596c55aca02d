"""
`python -m elmo_plugin` runs AllenNLP with the plugin's commands in any folder. `allennlp` itself
finds them only if a file `.allennlp_plugins` names the plugin. It is quieter, and prints what is
wrong with a config, an argument or a file in one line; with the environment variable
`ALLENNLP_DEBUG` also where it was found.
"""

import logging
import os
import sys

from allennlp.commands import main
from allennlp.common.checks import ConfigurationError
from allennlp.common.util import import_module_and_submodules

from elmo_plugin.bilm_tf.model_files import ModelFilesError
from elmo_plugin.data.corpus import CorpusError
from elmo_plugin.files.hdf5 import HDF5Error

NAME = "python -m elmo_plugin"

if __name__ == "__main__":
    import_module_and_submodules("elmo_plugin")
    logging.basicConfig(format="%(message)s")
    logging.getLogger("allennlp.common.util").setLevel(logging.INFO)  # the metrics of `evaluate`
    sys.argv[0] = NAME
    try:
        main(prog=NAME)
    except (ConfigurationError, ModelFilesError, CorpusError, HDF5Error, OSError) as error:
        if "ALLENNLP_DEBUG" in os.environ:
            raise
        sys.exit(f"{NAME}: {error}")
