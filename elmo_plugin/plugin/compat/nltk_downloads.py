"""
allennlp-models 2.10.1 downloads NLTK's `punkt` and `wordnet` whenever NarrativeQA's evaluation
script is imported, that is at the start of every command. Without a network, that prints errors and
may wait for a timeout; and current versions of NLTK read `punkt_tab` instead of `punkt`.

Here the script is imported without the download. Whoever calls it gets NLTK's own message, which
names the missing data and how to download them. The command `allennlp` imports allennlp-models
before any plugin and so still tries; `python -m elmo_plugin` does not. This can go when the script
no longer downloads at import.
"""

from unittest.mock import patch

with patch("nltk.download"):
    from allennlp_models.rc.tools import narrativeqa as narrativeqa
