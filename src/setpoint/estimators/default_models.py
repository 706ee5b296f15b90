"""The models that a search compares by default."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from scipy import sparse

from setpoint._internal.imports import BOOSTERS
from setpoint.errors import SetpointError
from setpoint.estimators.classifier import SetpointClassifier
from setpoint.goals.goal import Goal

_TREES_TIMES_ROWS, _FEWEST_TREES = 1_000_000, 25
_NEWTON_FEATURES = 200  # the Hessian costs the square of that per row


def default_models(X: Any, goal: Goal, seed: int, plain: bool = True) -> dict[str, Any]:
    """Return the models of ``"auto"`` for arrays of numbers; ``plain``: all rows count alike."""
    if sparse.issparse(X):
        raise SetpointError(
            "the default models need a dense X; for a sparse matrix name models that take one: "
            "ModelSearch({'logistic': LogisticRegression(), ...})."
        )
    try:
        values = np.asarray(_without_na(X), dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise SetpointError(
            f"the default models need numbers: {error}. Encode the columns first, or use "
            "setpoint.tables.fit_table(frame, target, goal, model='auto'), which takes columns of "
            "any kind."
        ) from error
    if values.ndim != 2:
        raise SetpointError(f"X needs two dimensions, rows and columns, not {values.ndim}.")
    complete = bool(np.isfinite(values).all())
    models = {"logistic": logistic_model(values.shape[1], fill=not complete)}
    if plain and complete:
        models["linear"] = SetpointClassifier(goal, random_state=seed)
    name = boosted_name()
    models[name] = boosted_trees(name, seed)
    models["extra-trees"] = extra_trees(seed, len(values))
    return models


def _without_na(X: Any) -> Any:
    """Return a data frame whose nullable numbers and booleans are floats; other rows as they are.

    Models of scikit-learn convert such columns in the same way.
    """
    if not hasattr(X, "isetitem"):
        return X
    X = X.copy(deep=False)
    for i, kind in enumerate(X.dtypes):
        if hasattr(kind, "na_value") and kind.kind in "iufb":
            X.isetitem(i, X.iloc[:, i].to_numpy(np.float64, na_value=np.nan))
    return X


def logistic_model(features: int, fill: bool = False) -> Any:
    """Return logistic regression on standardized features; ``fill``: missing ones are imputed."""
    from sklearn.impute import SimpleImputer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    solver = "newton-cholesky" if features <= _NEWTON_FEATURES else "lbfgs"
    steps = [SimpleImputer(keep_empty_features=True)] if fill else []
    return make_pipeline(
        *steps, StandardScaler(), LogisticRegression(solver=solver, max_iter=1_000)
    )


def boosted_name() -> str:
    """Return the library of the boosted trees: the first that is installed, or "hgb"."""
    return next((name for name in BOOSTERS if find_spec(name) is not None), "hgb")


def boosted_trees(name: str, seed: int, categories: Sequence[int] = ()) -> Any:
    """Return boosted trees of a library, or scikit-learn's ("hgb").

    Shallow trees, each on some of the rows and columns, do well on most tables without tuning.
    ``categories`` are the columns with numbered categories; only scikit-learn's trees need them.
    """
    if name == "xgboost":
        from xgboost import XGBClassifier

        return XGBClassifier(
            n_estimators=300, learning_rate=0.05, max_depth=4, subsample=0.8, colsample_bytree=0.5,
            tree_method="hist", random_state=seed,
        )  # fmt: skip
    if name == "lightgbm":
        from lightgbm import LGBMClassifier

        return LGBMClassifier(
            n_estimators=300, learning_rate=0.05, num_leaves=15, reg_lambda=1.0, subsample=0.8,
            subsample_freq=1, colsample_bytree=0.5, verbose=-1, random_state=seed,
        )  # fmt: skip
    if name == "catboost":
        from catboost import CatBoostClassifier

        return CatBoostClassifier(
            iterations=300, learning_rate=0.1, depth=4, verbose=0, allow_writing_files=False,
            random_seed=seed,
        )  # fmt: skip
    from sklearn.ensemble import HistGradientBoostingClassifier

    # Without a ridge, leaves with few rare positives get huge values that spoil the ranking.
    return HistGradientBoostingClassifier(
        l2_regularization=10.0, categorical_features=list(categories) or None, random_state=seed
    )


def extra_trees(seed: int, rows: int = 0) -> Any:
    """Return extremely randomized trees: 100, or fewer for more than 10,000 ``rows``.

    They take longest of all models; with many rows a few of them suffice.
    """
    from sklearn.ensemble import ExtraTreesClassifier

    trees = int(np.clip(_TREES_TIMES_ROWS // max(rows, 1), _FEWEST_TREES, 100))
    return ExtraTreesClassifier(trees, min_samples_leaf=2, random_state=seed)
