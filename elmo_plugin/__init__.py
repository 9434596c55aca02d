"""
Contextual word vectors (`Elmo`) and word probabilities (`LanguageModel`) from a biLM:

    elmo = Elmo.from_pretrained("small")
    vectors = elmo.embed("He threw the stick to the dog .")  # NumPy, shape (8, 256)

    model = LanguageModel.from_pretrained("small")
    surprisal = model.score("He threw the stick to the dog .").surprisal  # in bits, shape (8,)

`import elmo_plugin.plugin` registers ELMo with AllenNLP, and so does importing this package after
AllenNLP.
"""

import sys
from typing import TYPE_CHECKING

from elmo_plugin.elmo.elmo import Elmo
from elmo_plugin.elmo.language_model import LanguageModel
from elmo_plugin.lazy import lazily
from elmo_plugin.text.advice import TextWarning
from elmo_plugin.version import VERSION as __version__

if TYPE_CHECKING:
    from elmo_plugin.adapters.allennlp_09 import ElmoEmbedder

__all__ = ["Elmo", "ElmoEmbedder", "LanguageModel", "TextWarning", "__version__"]
__getattr__ = lazily(__name__, {"ElmoEmbedder": ".adapters.allennlp_09"})


if "allennlp" in sys.modules:
    import elmo_plugin.plugin  # noqa: F401
