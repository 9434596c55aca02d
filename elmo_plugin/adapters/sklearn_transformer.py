"""ELMo as a transformer of scikit-learn."""

from __future__ import annotations

from typing import Any

import numpy as np

from elmo_plugin.adapters import check_has_one_vector, load_model, missing
from elmo_plugin.checks import check_flag, fail, shown
from elmo_plugin.elmo.elmo import check_layer
from elmo_plugin.text.forms import is_table, named_rows, tokens_of

try:
    from sklearn import base
    from sklearn.utils.validation import check_is_fitted

    BASES: tuple[Any, ...] = (
        base.ClassNamePrefixFeaturesOutMixin,
        base.TransformerMixin,
        base.BaseEstimator,
    )
except ModuleNotFoundError:
    BASES = (missing("scikit-learn"),)


class ElmoVectors(*BASES):  # type: ignore[misc]
    """
    A transformer from texts to the mean ELMo vectors of their tokens:

        make_pipeline(ElmoVectors(), LogisticRegression()).fit(texts, labels)

    Pickling a fitted transformer stores its biLM, so that loading it needs no other file.

    # Parameters

    model : `str | os.PathLike`, optional (default = `"small"`)
        The name of an installed model, or anything else that `Elmo.from_archive` accepts.
    layer : `str | int`, optional (default = `"average"`)
        See `Elmo.embed`; a layer for which it gives one vector per token.
    raw : `bool`, optional (default = `False`)
        Whether texts are raw English, to split into tokens as in `Elmo.embed`. Needs nltk
        and nupunkt.
    device : `str | torch.device`, optional (default = `"cpu"`)
        Device of the biLM, such as `"cuda"`.
    precision : `str`, optional
        See `Elmo`.
    initial_state : `str`, optional
        `"warm"` or `"zero"`, see `Elmo`. By default that of the model, or `"warm"` if that is
        `"carry"`.
    """

    def __init__(
        self,
        model: Any = "small",
        layer: str | int = "average",
        raw: bool = False,
        *,
        device: Any = "cpu",
        precision: str | None = None,
        initial_state: str | None = None,
    ) -> None:
        self.model, self.layer, self.raw = model, layer, raw
        self.device, self.precision, self.initial_state = device, precision, initial_state

    def fit(self, X: Any, y: Any = None) -> ElmoVectors:
        """Load the biLM, which is not trained. Later, only `raw` may be set without a new fit."""
        check_flag("raw", self.raw)
        check_has_one_vector(self.layer)
        self._loaded_with = self.get_params(deep=False)
        self._loaded_with.pop("raw")  # the model does not depend on it
        self.elmo_ = load_model(**{k: x for k, x in self._loaded_with.items() if k != "layer"})
        check_layer(self.layer, self.elmo_.n_layers)
        self._n_features_out = self.elmo_.output_dim  # names of features need it
        return self

    def transform(self, X: Any) -> np.ndarray:
        """
        The vectors of N texts, shape `(N, 2P)`, zeros for a text without tokens. `X`: a list,
        an array, a column of a DataFrame, or a DataFrame with one column, of strings with
        whitespace between tokens or of lists of tokens. Several columns are an error.
        """
        check_is_fitted(self)
        for name, value in self._loaded_with.items():
            if (found := getattr(self, name)) != value:
                expected = f"{shown(value)} as when the transformer was fitted; fit it again"
                fail(name, expected, found)
        if getattr(X, "ndim", 1) == 2 and X.shape[1] == 1:
            X = np.asarray(X)[:, 0]
        if isinstance(X, str) or is_table(X) or getattr(X, "ndim", 1) == 2:
            fail("X", "a list of texts or one column", getattr(X, "shape", type(X).__name__))
        if not self.raw:
            X = [tokens_of(*row) for row in named_rows(X)]
        return self.elmo_.embed(X, self.layer, pool="mean", raw=self.raw)
