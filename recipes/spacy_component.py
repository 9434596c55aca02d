"""A spaCy component: nlp.add_pipe("elmo") adds ELMo vectors to documents, spans and tokens."""

import numpy as np
from spacy.language import Language

from elmo_plugin import Elmo


def mean(tokens):
    n_words = sum(not token.is_space for token in tokens)
    return tokens.doc.tensor[[token.i for token in tokens]].sum(axis=0) / max(n_words, 1)


@Language.factory("elmo", default_config={"model": "pretrained://small", "layer": "average"})
class ElmoComponent:
    def __init__(self, nlp, name, model, layer):
        self.elmo, self.layer = Elmo.from_archive(model), layer

    def __call__(self, doc):
        parts = doc.sents if doc.has_annotation("SENT_START") else [doc]
        # The biLM never saw tokens of white space, which spaCy has. Their vectors are zeros.
        words = [[token for token in part if not token.is_space] for part in parts]
        doc.tensor = np.zeros((len(doc), self.elmo.output_dim), "float32")
        # Merged tokens contain spaces, and tokens of the biLM do not.
        texts = [["_".join(token.text.split()) for token in part] for part in words]
        for part, found in zip(words, self.elmo.embed(texts, self.layer)):
            doc.tensor[[token.i for token in part]] = found
        doc.user_token_hooks["vector"] = lambda token: token.doc.tensor[token.i]
        doc.user_span_hooks["vector"] = doc.user_hooks["vector"] = mean
        return doc
