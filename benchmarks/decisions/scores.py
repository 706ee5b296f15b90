"""Splits and scores that all methods share, stored in files; fits are the slow part."""

from __future__ import annotations

import hashlib
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from _data import Rows, split

Floats = NDArray[np.float64]
Labels = NDArray[np.bool_]
FOLDER = Path("build/decision-scores")
MODELS = ("logistic", "trees")
COMPONENTS = 128


def new_model(kind: str, seed: int) -> Any:
    """Return an unfitted classifier: the same two as in ``bench_promise.py``."""
    if kind == "trees":
        return HistGradientBoostingClassifier(
            learning_rate=0.05, max_leaf_nodes=15, l2_regularization=1.0, random_state=seed
        )
    return make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))


class Scores(ClassifierMixin, BaseEstimator):
    """A fitted classifier whose only feature is the probability: how peers get the same scores."""

    classes_ = np.array([0, 1])
    n_features_in_ = 1

    def fit(self, X: Any, y: Any) -> Scores:
        """Return the classifier, which has nothing to learn."""
        return self

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def predict_proba(self, X: Any) -> Floats:
        """Return the probabilities of both classes."""
        p = np.asarray(X, dtype=np.float64)[:, 0]
        return np.stack([1 - p, p], axis=1)


def column(p: Floats) -> Floats:
    """Return probabilities as the features of ``Scores``."""
    return p[:, None]


class Part(NamedTuple):
    """Some rows of a split: their positions, labels and probabilities."""

    rows: Rows
    y: Labels
    p: Floats


class Split(NamedTuple):
    """The rows on which a threshold is chosen, and the test rows; the model saw neither."""

    tune: Part
    test: Part


def split_of(
    name: str,
    kind: str,
    seed: int,
    load: Callable[[], tuple[Floats, Labels, NDArray[np.int64] | None]],
) -> Split:
    """Return the validation and test rows of a split with the probabilities of a model.

    ``load`` returns features, labels (with one column per label if there are several) and groups.
    """
    X, y, groups = load()
    train, tune, test = split(y if y.ndim == 1 else y.any(axis=1), groups, seed)

    def fitted() -> tuple[Floats, Floats]:
        probabilities = fit_proba(kind, seed, X[train], y[train])
        return probabilities(X[tune]), probabilities(X[test])

    p = stored(f"{name}-{kind}-{seed}", fitted)
    return Split(Part(tune, y[tune], p[0]), Part(test, y[test], p[1]))


def fit_proba(kind: str, seed: int, X: Floats, y: Labels) -> Callable[[Floats], Floats]:
    """Return a fitted model's probability of each label, as a function of features."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if y.ndim == 1:
            model = new_model(kind, seed).fit(X, y)
            return lambda X: np.asarray(model.predict_proba(X)[:, 1])
        reduce = reduction(seed).fit(X) if X.shape[1] > COMPONENTS else None
        Z = reduce.transform(X) if reduce else X
        models = [new_model(kind, seed).fit(Z, label) for label in y.T]

    def probabilities(X: Floats) -> Floats:
        Z = reduce.transform(X) if reduce else X
        return np.stack([model.predict_proba(Z)[:, 1] for model in models], axis=1)

    return probabilities


def reduction(seed: int) -> Any:
    """Return the principal components that models of several labels share, for speed."""
    return make_pipeline(StandardScaler(), PCA(COMPONENTS, random_state=seed))


def stored(key: str, compute: Callable[[], tuple[Floats, ...]]) -> list[Floats]:
    """Return arrays from a file, which is written the first time."""
    code = b"".join(Path(__file__).with_name(n).read_bytes() for n in ("data.py", "scores.py"))
    digest = hashlib.sha256(code).hexdigest()[:8]
    slug = "".join(c if c.isalnum() or c == "-" else "_" for c in key)
    file = FOLDER / f"{slug}-{digest}.npz"
    if not file.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        with threadpool_limits(limits=1):
            arrays = compute()
        temporary = file.with_suffix(".tmp.npz")
        np.savez(temporary, *arrays)
        temporary.replace(file)
    with np.load(file) as found:
        return [found[f"arr_{i}"] for i in range(len(found.files))]


def methods_of(part: str, peers: dict[str, Any], ours: bool) -> dict[str, Any]:
    """Return the methods of setpoint or those of its peers in a part."""
    if not ours:
        return peers
    from decisions.ours import METHODS

    return METHODS[part]


def timed(function: Callable[..., Any], *args: Any, **params: Any) -> tuple[Any, float]:
    """Return a result and the seconds that it took."""
    start = time.perf_counter()
    found = function(*args, **params)
    return found, time.perf_counter() - start


def table_head(*names: str) -> None:
    """Print the head of a markdown table."""
    print(f"| {' | '.join(names)} |")
    print("|---" * len(names) + "|")
