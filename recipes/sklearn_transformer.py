"""
A scikit-learn transformer from texts, with spaces between tokens, to mean ELMo vectors:

    make_pipeline(ElmoVectors(), LogisticRegression()).fit(texts, labels)
"""

from sklearn.base import BaseEstimator, TransformerMixin

from elmo_plugin import Elmo


class ElmoVectors(TransformerMixin, BaseEstimator):
    def __init__(self, model="pretrained://small", layer="average"):
        self.model, self.layer = model, layer

    def fit(self, texts, labels=None):
        self.elmo_ = Elmo.from_archive(self.model)
        return self

    def transform(self, texts):
        return self.elmo_.embed([text.split() for text in texts], self.layer, pool="mean")
