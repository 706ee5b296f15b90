"""Scores of a model on the rows of a split, stored in a file; fits are the slow part."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import cross_val_predict
from threadpoolctl import threadpool_limits

from _data import load_grouped

FOLDER = Path("build/label-scores")
FOLDS = 3


class Scored(NamedTuple):
    """Labels and scores of some rows."""

    y: NDArray[np.bool_]
    scores: NDArray[np.float64]


class Split(NamedTuple):
    """The rows of one split.

    Attributes
    ----------
    planning : Scored
        The training rows, each scored by a model that was not trained on it.
    pool : Scored
        The calibration rows, whose labels have to be asked for.
    test : Scored
        Rows for measuring what was certified.
    """

    planning: Scored
    pool: Scored
    test: Scored


def split_of(name: str, seed: int) -> Split:
    """Return the scores of a split as in ``bench_promise.py``, computed once."""
    file = FOLDER / f"{name}-{seed}.npz"
    if not file.exists():
        FOLDER.mkdir(parents=True, exist_ok=True)
        parts = _scored(name, seed)
        temporary = file.with_suffix(".tmp.npz")
        np.savez(temporary, *(column for part in parts for column in part))
        temporary.replace(file)
    with np.load(file) as found:
        columns = [found[f"arr_{i}"] for i in range(6)]
    return Split(*(Scored(*columns[i : i + 2]) for i in (0, 2, 4)))


_loaded: dict[str, tuple[NDArray[np.float64], NDArray[np.bool_]]] = {}


@threadpool_limits.wrap(limits=1)
def _scored(name: str, seed: int) -> Split:
    warnings.simplefilter("ignore")
    if name not in _loaded:
        _loaded.clear()
        _loaded[name] = load_grouped(name)[:2]
    X, y = _loaded[name]
    order = np.random.default_rng(seed).permutation(len(y))  # as in bench_promise.py
    train, pool, test = np.split(order, [len(y) // 2, len(y) * 3 // 4])
    model = HistGradientBoostingClassifier(
        learning_rate=0.05, max_leaf_nodes=15, l2_regularization=1.0, random_state=seed
    )
    planned = cross_val_predict(model, X[train], y[train], cv=FOLDS, method="decision_function")
    model.fit(X[train], y[train])
    return Split(
        Scored(y[train], planned),
        *(Scored(y[rows], model.decision_function(X[rows])) for rows in (pool, test)),
    )
