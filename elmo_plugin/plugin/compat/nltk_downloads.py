"""
allennlp-models 2.10.1 downloads NLTK's `punkt` and `wordnet` whenever NarrativeQA's evaluation
script is imported, which every command does. Offline, that prints errors and may wait for a
timeout. Moreover, current versions of NLTK read `punkt_tab` instead of `punkt`.

This module imports the script without the download. Calling the script without the data raises
NLTK's error, which explains how to download them. The command `allennlp` imports allennlp-models
before any plugin and still tries to download; `python -m elmo_plugin` does not. Remove this when
the script no longer downloads at import.
"""

from unittest.mock import patch

with patch("nltk.download"):
    from allennlp_models.rc.tools import narrativeqa as narrativeqa
