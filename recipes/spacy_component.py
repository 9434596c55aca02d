"""A spaCy component: nlp.add_pipe("elmo") adds ELMo vectors to documents, spans and tokens."""

import numpy as np
from spacy.language import Language
from spacy.util import minibatch

from elmo_plugin import Elmo


@Language.factory("elmo", default_config={"model": "pretrained://small", "layer": "average"})
class ElmoComponent:
    def __init__(self, nlp, name, model, layer):
        self.elmo, self.layer = Elmo.from_archive(model), layer
        self.empty = np.zeros((0, self.elmo.output_dim), "float32")

    def __call__(self, doc):
        return next(self.pipe([doc]))

    def pipe(self, docs, batch_size=64):
        for batch in minibatch(docs, batch_size):
            parts = [doc.sents if doc.has_annotation("SENT_START") else [doc] for doc in batch]
            parts = [[[token.text for token in part] for part in each] for each in parts]
            vectors = iter(self.elmo.embed([part for each in parts for part in each], self.layer))
            for doc, each in zip(batch, parts):
                doc.tensor = np.concatenate([next(vectors) for _ in each] or [self.empty])
                doc.user_token_hooks["vector"] = lambda token: token.doc.tensor[token.i]
                doc.user_span_hooks["vector"] = lambda x: x.doc.tensor[x.start : x.end].mean(axis=0)
                doc.user_hooks["vector"] = lambda doc: doc.tensor.mean(axis=0)
                yield doc
