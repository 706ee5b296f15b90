"""Tree ensembles of scikit-learn as ONNX nodes, in double precision."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import OnnxError
from setpoint.export.graph import ML, Graph


@dataclass(frozen=True)
class _Tree:
    """Nodes of a tree; a row goes left if its feature is at most the split."""

    is_leaf: NDArray[np.bool_]
    left: NDArray[np.integer]
    right: NDArray[np.integer]
    feature: NDArray[np.integer]
    split: NDArray[np.float64]
    missing_left: NDArray[np.bool_]
    value: NDArray[np.float64]


class _Sets:
    """Indicator features: 1 if a category is in a set, otherwise 0.

    onnxruntime's own nodes for set membership do not support all sets.
    """

    def __init__(self, n_features: int) -> None:
        self.n_features = n_features
        self._column: dict[tuple[int, bytes], int] = {}

    def column(self, feature: int, members: NDArray[np.bool_]) -> int:
        """Return the column of the indicator for a set of levels of a feature."""
        key = feature, members.tobytes()
        return self.n_features + self._column.setdefault(key, len(self._column))

    def added_to(self, graph: Graph, X: str, levels: Mapping[int, NDArray[Any]]) -> str:
        """Append the indicators to X, given the levels of each feature; return its name."""
        every, axis = [X], graph.constant(np.array([1]))
        for feature, members in self._column:
            chosen = levels[feature][np.frombuffer(members, dtype=bool)].astype(np.float64)
            one = graph.add("Gather", X, graph.constant(np.array([feature])), axis=1)
            hits = graph.add("Equal", one, graph.constant(chosen.reshape(1, -1)))
            every.append(graph.add("ReduceSum", graph.cast(hits, np.float64), axis))
        return graph.add("Concat", *every, axis=1)


def boosted_scores(graph: Graph, model: Any, X: str) -> str:
    """Add a fitted HistGradientBoostingClassifier; return the name of its decision function."""
    sets = _Sets(model.n_features_in_)
    levels: dict[int, NDArray[Any]] = {}
    order = np.arange(model.n_features_in_)
    if model.is_categorical_ is not None and np.any(model.is_categorical_):
        # The trees get categories as codes, with the categorical columns first.
        categorical = np.asarray(model.is_categorical_, dtype=bool)
        order = np.argsort(~categorical, kind="stable")
        found = model._preprocessor.named_transformers_["encoder"].categories_
        if any(values.dtype.kind not in "biuf" for values in found):
            raise OnnxError(
                "categories that are strings cannot be exported; encode them as numbers first."
            )
        levels = {int(f): values for f, values in zip(order, found, strict=False)}
    trees = [_boosted_tree(model, p, order, levels, sets) for (p,) in model._predictors]
    X = sets.added_to(graph, graph.cast(X, np.float64), levels)
    total = _sum_of_trees(graph, trees, X)
    return graph.add("Add", total, graph.constant(np.ravel(model._baseline_prediction)[0]))


def _boosted_tree(
    model: Any, predictor: Any, order: Any, levels: Mapping[int, Any], sets: _Sets
) -> _Tree:
    n = predictor.nodes
    left, right = n["left"].copy(), n["right"].copy()
    feature, split = order[n["feature_idx"]], n["num_threshold"].copy()
    missing = n["missing_go_to_left"] == 1
    known, place = model._bin_mapper.make_known_categories_bitsets()
    for node in np.flatnonzero((n["is_leaf"] == 0) & (n["is_categorical"] == 1)):
        codes = np.arange(len(levels[feature[node]]))
        goes_left = _has(predictor.raw_left_cat_bitsets[n["bitset_idx"][node]], codes)
        is_known = _has(known[place[n["feature_idx"][node]]], codes)
        # A missing or unknown value is in no set, so its indicator is 0 and it goes left. The set
        # must therefore contain the categories that go the other way.
        if missing[node]:
            members = is_known & ~goes_left
        else:
            members = is_known & goes_left
            left[node], right[node] = right[node], left[node]
        feature[node], split[node] = sets.column(int(feature[node]), members), 0.5
    return _Tree(n["is_leaf"] == 1, left, right, feature, split, missing, n["value"])


def _has(bits: NDArray[np.uint32], codes: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Return which codes are in a bit set of eight 32-bit numbers."""
    return np.asarray((bits[codes // 32] >> (codes % 32).astype(np.uint32)) & 1 == 1)


def forest_scores(graph: Graph, model: Any, X: str, positive_index: int, label: int = 0) -> str:
    """Add a forest; return the name of its probability of the positive class.

    ``label`` is the column of a forest that is fitted to a matrix of labels.
    """
    trees = []
    for estimator in model.estimators_:
        t = estimator.tree_
        fraction = t.value[:, label, positive_index] / t.value[:, label, :].sum(axis=1)
        missing = np.asarray(t.missing_go_to_left) == 1
        trees.append(
            _Tree(
                t.children_left == -1, t.children_left, t.children_right, t.feature, t.threshold,
                missing, fraction,
            )
        )  # fmt: skip
    # scikit-learn's forests convert rows to float32, and divide the sum by the number of trees.
    total = _sum_of_trees(graph, trees, graph.cast(graph.cast(X, np.float32), np.float64))
    return graph.add("Div", total, graph.constant(np.float64(len(trees))))


def _sum_of_trees(graph: Graph, trees: Iterable[_Tree], X: str) -> str:
    inner: dict[str, list[Any]] = {name: [] for name in ("feature", "split", "missing")}
    ways: dict[str, list[int]] = {n: [] for n in ("true", "true_leaf", "false", "false_leaf")}
    roots: list[int] = []
    leaves: list[float] = []
    for tree in trees:
        n_nodes, n_leaves = len(inner["split"]), len(leaves)
        roots.append(n_nodes)
        leaves.extend(tree.value[tree.is_leaf].tolist())
        if tree.is_leaf[0]:  # ONNX needs a node, so both of its branches lead to the leaf
            at, left, right = np.array([0]), np.array([0]), np.array([0])
        else:
            at = np.flatnonzero(~tree.is_leaf)
            left, right = tree.left[at].astype(int), tree.right[at].astype(int)
        inner["feature"].extend(np.maximum(tree.feature[at], 0).tolist())
        inner["split"].extend(tree.split[at].tolist())
        inner["missing"].extend(tree.missing_left[at].astype(int).tolist())
        # Leaves and inner nodes are numbered separately.
        number = np.where(
            tree.is_leaf,
            n_leaves + np.cumsum(tree.is_leaf) - 1,
            n_nodes + np.cumsum(~tree.is_leaf) - 1,
        )
        for way, child in (("true", left), ("false", right)):
            ways[way].extend(number[child].tolist())
            ways[f"{way}_leaf"].extend(tree.is_leaf[child].astype(int).tolist())
    tensor = graph.tensor
    total = graph.add(
        "TreeEnsemble",
        X,
        domain=ML,
        n_targets=1,
        aggregate_function=1,  # sum
        post_transform=0,  # none
        tree_roots=roots,
        nodes_featureids=inner["feature"],
        nodes_splits=tensor(np.array(inner["split"], dtype=np.float64)),
        nodes_modes=tensor(np.zeros(len(inner["split"]), dtype=np.uint8)),  # <=
        nodes_missing_value_tracks_true=inner["missing"],
        nodes_truenodeids=ways["true"],
        nodes_trueleafs=ways["true_leaf"],
        nodes_falsenodeids=ways["false"],
        nodes_falseleafs=ways["false_leaf"],
        leaf_targetids=[0] * len(leaves),
        leaf_weights=tensor(np.array(leaves, dtype=np.float64)),
    )
    return graph.add("Reshape", total, graph.constant(np.array([-1])))
