"""The transformer with scikit-learn itself."""

import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from elmo_plugin import Elmo
from elmo_plugin.adapters.sklearn_transformer import ElmoVectors
from elmo_plugin.checks import InputError
from tests.compare import assert_close
from tests.conftest import BiLMFiles

TEXTS = ["He threw the stick to the dog .", "The ferry leaves at seven .", "", "A dog"]
LABELS = ["dog", "ferry", "ferry", "dog"]


@pytest.fixture(scope="module")
def expected(bilm_files: BiLMFiles) -> np.ndarray:
    """By NumPy: the mean over the tokens of the mean over the layers."""
    elmo = Elmo.from_files(*bilm_files)
    vectors = [elmo.embed(text, "all").mean(axis=0) for text in TEXTS]
    return np.stack([x.sum(axis=0) / max(1, len(x)) for x in vectors])


@pytest.fixture(scope="module")
def folder(bilm_files: BiLMFiles) -> Path:
    return Path(bilm_files.options_file).parent


def test_what_it_reads(folder: Path, expected: np.ndarray) -> None:
    """The same texts as a list, as an array of one column, and as a frame of one; `test_forms.py`
    has other types."""
    frame = pd.DataFrame({"text": TEXTS}, index=list("dbca"))
    for texts in (TEXTS, np.array(TEXTS)[:, None], frame):
        found = ElmoVectors(folder).fit_transform(texts, LABELS)
        assert_close(found, expected, what=type(texts).__name__, atol=1e-6)


def test_a_saved_model_that_carries(folder: Path, tmp_path: Path) -> None:
    """The expected vectors are those of the same texts with the state warm, however often they are
    read, and the vectors of its mix do not depend on the other texts."""
    texts = [text for text in TEXTS if text]
    Elmo.from_archive(folder, initial_state="carry").save(tmp_path / "carry")
    found = ElmoVectors(tmp_path / "carry").fit(texts)
    for _ in range(2):
        assert np.array_equal(found.transform(texts), ElmoVectors(folder).fit_transform(texts))
    Elmo.from_archive(folder, do_layer_norm=True).save(tmp_path / "norm")
    mixes = ElmoVectors(tmp_path / "norm", "mix").fit(texts)
    alone = np.concatenate([mixes.transform([text]) for text in texts])
    assert_close(mixes.transform(texts), alone, what="mix", atol=1e-6)


def test_settings(folder: Path) -> None:
    """The expected means are NumPy's of `Elmo.embed` with this start state; a wrong value is an
    error when the transformer is fitted. scikit-learn copies the settings with the transformer."""
    texts = [text for text in TEXTS if text]
    zero = Elmo.from_archive(folder, initial_state="zero")
    expected = np.stack([zero.embed(text, "top").mean(axis=0) for text in texts])
    made = ElmoVectors(folder, "top", device="cpu", initial_state="zero")
    assert_close(clone(made).fit_transform(texts), expected, what="zero", atol=1e-6)
    assert not np.allclose(ElmoVectors(folder, "top").fit_transform(texts), expected, atol=1e-5)
    precise = clone(made).set_params(precision="bf16").fit(texts)
    assert precise.elmo_.bilm.permitted_precision == "bf16"
    wrong = {"device": "cuda:99", "precision": "fp8", "initial_state": "carry", "raw": "no"}
    for name, value in wrong.items():
        with pytest.raises(InputError, match=f"^{name}: expected .*, found '{value}'"):
            ElmoVectors(folder, **{name: value}).fit(texts)


def test_settings_after_the_fit(folder: Path) -> None:
    """By definition, a setting takes effect or is an error: the model was loaded with the others.
    Fitted again, or set back, the transformer has the vectors of a new one."""
    texts = [text for text in TEXTS if text]
    made = ElmoVectors(folder, "top").fit(texts)
    changed = {"initial_state": "zero", "precision": "bf16", "layer": "all", "model": "tiny"}
    for name, value in {**changed, "device": "meta"}.items():
        before = getattr(made, name)
        made.set_params(**{name: value})
        with pytest.raises(InputError, match=f"^{name}: expected .* as when .* found '{value}'$"):
            made.transform(texts)
        made.set_params(**{name: before})
    expected = ElmoVectors(folder, "top", initial_state="zero").fit_transform(texts)
    assert not np.allclose(made.transform(texts), expected, atol=1e-5)
    made.set_params(initial_state="zero").fit(texts)
    assert_close(made.transform(texts), expected, what="zero", atol=1e-6)
    raw = made.set_params(raw=True).transform(["It isn't easy."])
    split = made.set_params(raw=False).transform(["It is n't easy ."])
    assert_close(raw, split, what="raw", atol=1e-6)


def test_in_a_pipeline(folder: Path, expected: np.ndarray) -> None:
    """It is cloned, searched, pickled with its biLM, and names its features, as scikit-learn does
    with its own transformers."""
    frame = pd.DataFrame({"text": TEXTS, "length": [8, 6, 0, 2]})
    columns = make_column_transformer((ElmoVectors(folder), "text"), remainder="passthrough")
    table = columns.set_output(transform="pandas").fit_transform(frame)
    assert list(table.columns[[0, -1]]) == ["elmovectors__elmovectors0", "remainder__length"]
    assert_close(table.to_numpy()[:, :-1], expected, what="table", atol=1e-6)

    pipeline = make_pipeline(ElmoVectors(folder, layer="top"), LogisticRegression())
    other = clone(pipeline).set_params(elmovectors__layer=0)
    assert other[0].layer == 0 and pipeline[0].layer == "top"
    search = GridSearchCV(pipeline, {"elmovectors__layer": ["top", "average"]}, cv=2)
    search.fit(TEXTS, LABELS)
    fitted = search.best_estimator_
    loaded = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(loaded[0].transform(TEXTS), fitted[0].transform(TEXTS))
    assert np.array_equal(loaded.predict_proba(TEXTS), fitted.predict_proba(TEXTS))


def test_what_is_refused(folder: Path) -> None:
    """Parameters are checked when the transformer is fitted, as in scikit-learn."""
    with pytest.raises(InputError, match=r"^model: expected a path, found "):
        ElmoVectors(Elmo.from_archive(folder)).fit(TEXTS)
    for layers in ("all", np.array([0, 1]), 9):
        with pytest.raises(InputError, match=r"^layer: expected (one that has a single vec|mix, )"):
            ElmoVectors(folder, layers).fit(TEXTS)
    with pytest.raises(NotFittedError):
        ElmoVectors(folder).transform(TEXTS)
    with pytest.raises(ValueError, match=r"sentence 1: expected a sentence or a list .*, found 3"):
        ElmoVectors(folder).fit_transform(["A", 3])
    for texts in ("A cat", two := pd.DataFrame({"one": TEXTS, "two": TEXTS}), two.to_numpy()):
        with pytest.raises(InputError, match="X: expected a list of texts or one column"):
            ElmoVectors(folder).fit(TEXTS).transform(texts)
