"""A spaCy component: nlp.add_pipe("elmo") adds ELMo vectors to documents, spans and tokens."""

import numpy as np
from spacy.language import Language
from spacy.util import minibatch

from elmo_plugin import Elmo


def mean(tokens):
    n_words = sum(not token.is_space for token in tokens)
    return tokens.doc.tensor[[token.i for token in tokens]].sum(axis=0) / max(n_words, 1)


@Language.factory("elmo", default_config={"model": "pretrained://small", "layer": "average"})
class ElmoComponent:
    def __init__(self, nlp, name, model, layer):
        self.elmo, self.layer = Elmo.from_archive(model), layer

    def __call__(self, doc):
        return next(self.pipe([doc]))

    def pipe(self, docs, batch_size=64):
        for batch in minibatch(docs, batch_size):
            parts = [doc.sents if doc.has_annotation("SENT_START") else [doc] for doc in batch]
            # The biLM never saw tokens of white space, which spaCy has. Their vectors are zeros.
            words = [[t for t in part if not t.is_space] for each in parts for part in each]
            for doc in batch:
                doc.tensor = np.zeros((len(doc), self.elmo.output_dim), "float32")
                doc.user_token_hooks["vector"] = lambda token: token.doc.tensor[token.i]
                doc.user_span_hooks["vector"] = doc.user_hooks["vector"] = mean
            vectors = self.elmo.embed(
                [[token.text for token in part] for part in words], self.layer
            )
            for part, rows in zip(words, vectors):
                for token, row in zip(part, rows):
                    token.doc.tensor[token.i] = row
            yield from batch
