"""Numbers from a file that compiled code would follow without looking.

The trees of scikit-learn are arrays in which a node names its children and its feature. Prediction
trusts these numbers, so a file with wrong ones could crash the process or read foreign memory. A
fitted tree always has children behind their parent, which also rules out endless loops. Support
vector machines are arrays whose lengths must agree.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.ensemble._forest import BaseForest
from sklearn.ensemble._gb import BaseGradientBoosting
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.svm._base import BaseLibSVM
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

from setpoint.errors import ModelFileError

_TREE = "a tree of the model points to nodes or features that do not exist"


def check(estimator: Any) -> None:
    """Refuse an estimator some of whose indices point outside of their arrays."""
    for holder, held in _held_objects(estimator):
        features = getattr(holder, "n_features_in_", None)
        if isinstance(held, Tree):
            left, right, feature = held.children_left, held.children_right, held.feature
            inner = (left != -1) | (right != -1)
            fits = held.node_count > 0 and held.n_features == features
            _require(fits and _leads_on(left, right, feature, inner, features))
        elif isinstance(held, BaseDecisionTree) and hasattr(held, "tree_"):
            if isinstance(holder, BaseForest | BaseGradientBoosting):
                _require(getattr(held, "n_features_in_", None) == features)
        elif isinstance(held, TreePredictor):
            nodes = held.nodes
            inner = nodes["is_leaf"] == 0
            branches = nodes["left"], nodes["right"], nodes["feature_idx"]
            _require(len(nodes) > 0 and _leads_on(*branches, inner, features))
            by_category = inner & (nodes["is_categorical"] != 0)
            bitsets = nodes["bitset_idx"][by_category]
            for sets in (held.raw_left_cat_bitsets, held.binned_left_cat_bitsets):
                _require(sets.ndim == 2 and sets.shape[1] == 8 and np.all(bitsets < len(sets)))
        elif isinstance(held, BaseLibSVM) and hasattr(held, "support_"):
            _check_vectors(held)
        elif sparse.issparse(held) and held.format in ("csr", "csc"):
            try:
                held.check_format(full_check=True)
            except ValueError as error:
                raise ModelFileError(f"a sparse matrix of the model is damaged: {error}") from error


def _check_vectors(machine: BaseLibSVM) -> None:
    """Refuse support vectors, coefficients and intercepts that do not belong together."""
    counts, vectors, weights = machine._n_support, machine.support_vectors_, machine._dual_coef_
    many, classes = len(machine.support_), len(counts)
    pairs = classes * (classes - 1) // 2
    classifies = machine._impl in ("c_svc", "nu_svc")
    by_pair = (machine._intercept_, machine.intercept_, machine._probA, machine._probB)
    _require(
        sparse.issparse(vectors) == sparse.issparse(weights) == bool(machine._sparse)
        and np.all(counts >= 0)
        and (counts.sum() if classifies else counts[0]) == many
        and classes == (len(machine.classes_) if classifies else 2)
        and (weights.data.size if machine._sparse else weights.size) == (classes - 1) * many
        and weights.shape == machine.dual_coef_.shape == (classes - 1, many)
        and [len(values) for values in by_pair[:2]] == [pairs, pairs]
        and all(len(values) in (0, pairs) for values in by_pair[2:])
        and np.all((machine.support_ >= 0) & (machine.support_ < machine.shape_fit_[0]))
        and (
            vectors.shape == (many, machine.n_features_in_)
            or (machine.kernel == "precomputed" and vectors.shape == (0, 0))
        ),
        "a support vector machine of the model has arrays that do not fit each other",
    )


def _leads_on(left: Any, right: Any, feature: Any, inner: Any, features: Any) -> bool:
    """Whether each inner node has children behind it and a feature that exists."""
    here = np.flatnonzero(inner)
    children = np.concatenate([left[inner], right[inner]]).astype(np.int64)
    behind = (children > np.tile(here, 2)) & (children < len(left))
    known = (feature[inner] >= 0) & (feature[inner] < (features or 0))
    return bool(behind.all() and known.all())


def _require(holds: Any, what: str = _TREE) -> None:
    if not holds:
        raise ModelFileError(f"{what}; the file is damaged or made to do harm.")


def _held_objects(root: Any) -> Iterator[tuple[Any, Any]]:
    """Yield every object inside another one, with the estimator that holds it."""
    seen: set[int] = set()
    left = [(None, root)]
    while left:
        holder, held = left.pop()
        yield holder, held  # for every holder, for each has its own number of features
        if id(held) in seen:
            continue
        seen.add(id(held))
        if isinstance(held, dict):
            left.extend((holder, value) for value in held.values())
        elif isinstance(held, list | tuple | set):
            left.extend((holder, value) for value in held)
        elif isinstance(held, np.ndarray) and held.dtype == object:
            left.extend((holder, value) for value in held.ravel())
        elif isinstance(getattr(held, "__dict__", None), dict) and not isinstance(held, type):
            owner = held if hasattr(held, "n_features_in_") else holder
            left.extend((owner, value) for value in vars(held).values())
