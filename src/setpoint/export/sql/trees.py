"""Trees as SQL: nested CASE expressions whose comparisons are exact."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.errors import SqlError
from setpoint.export.sql.features import (
    Branch,
    Discrete,
    Feature,
    Numeric,
    branch_at,
    branch_of,
)
from setpoint.export.sql.statement import Sql, Statement, expression

MOST_LEAVES = 100_000
MOST_TREES = 1_000
MOST_DEPTH = 500


def forest_scores(
    statement: Statement, features: Sequence[Feature], trees: Sequence[Any], positive_index: int
) -> Sql:
    """Add the trees of a forest, or one tree; return the sum of the positive class's fractions.

    ``trees`` are fitted decision trees. They convert features to 32-bit floats.
    """
    rounded = [replace(f, single=True) if isinstance(f, Numeric) else f for f in features]
    _check_size([(tree.tree_.n_leaves, tree.tree_.max_depth) for tree in trees])
    columns = []
    for tree in trees:
        nodes = tree.tree_
        missing = np.asarray(nodes.missing_go_to_left) == 1

        def branch(node: int, nodes: Any = nodes, missing: Any = missing) -> Branch:
            feature, threshold = rounded[nodes.feature[node]], float(nodes.threshold[node])
            left = bool(missing[node])
            return _numeric_branch(statement, feature, threshold, left)

        columns.append(
            _tree(
                statement, rounded, nodes.children_left, nodes.children_right,
                nodes.value[:, 0, positive_index], branch,
            )
        )  # fmt: skip
    return statement.sum("forest", columns)


def boosted_scores(statement: Statement, features: Sequence[Feature], model: Any) -> Sql:
    """Add the trees of a fitted HistGradientBoostingClassifier; return the decision function."""
    if model.n_trees_per_iteration_ != 1:
        raise SqlError("gradient-boosted trees of more than two classes cannot be exported to SQL.")
    levels, order = _levels(model)
    predictors = [one for (one,) in model._predictors]
    _check_size([(one.get_n_leaf_nodes(), one.get_max_depth()) for one in predictors])
    known, place = model._bin_mapper.make_known_categories_bitsets()
    columns = []
    for predictor in predictors:
        nodes = predictor.nodes

        def branch(node: int, predictor: Any = predictor, nodes: Any = nodes) -> Branch:
            one = nodes[node]
            index = int(order[one["feature_idx"]])
            left = bool(one["missing_go_to_left"])
            feature = features[index]
            if not one["is_categorical"]:
                return _numeric_branch(statement, feature, float(one["num_threshold"]), left)
            seen = _members(known[place[one["feature_idx"]]])
            chosen = _members(predictor.raw_left_cat_bitsets[one["bitset_idx"]])
            codes = {float(level): code for code, level in enumerate(levels[index])}

            def goes_left(value: float) -> bool:
                code = codes.get(value)
                return left if code is None or not seen[code] else bool(chosen[code])

            if isinstance(feature, Numeric):  # categories that are numbers in the table
                feature = Discrete(feature.value, {value: value for value in codes}, null=np.nan)
            return branch_of(feature, goes_left, statement.dialect)

        leaf = nodes["is_leaf"] == 1
        left, right = (np.where(leaf, -1, nodes[way].astype(np.int64)) for way in ("left", "right"))
        columns.append(_tree(statement, features, left, right, nodes["value"], branch))
    start = Sql(statement.dialect.number(float(np.ravel(model._baseline_prediction)[0])))
    return statement.sum("boosted", [start, *columns])


def _check_size(trees: Sequence[tuple[int, int]]) -> None:
    """Raise SqlError if a statement has no room for trees, given their leaves and depths."""
    leaves, depth = sum(n for n, _ in trees), max(d for _, d in trees)
    if leaves > MOST_LEAVES or len(trees) > MOST_TREES or depth > MOST_DEPTH:
        raise SqlError(
            f"the model has {len(trees):,} trees with {leaves:,} leaves and a depth of up to "
            f"{depth:,}; a SQL statement has room for {MOST_TREES:,} trees with {MOST_LEAVES:,} "
            f"leaves and a depth of {MOST_DEPTH:,}. Fit gradient-boosted trees (--model hgb), "
            "fewer trees, or smaller ones (max_leaf_nodes, min_samples_leaf)."
        )


def _levels(model: Any) -> tuple[dict[int, NDArray[Any]], NDArray[np.intp]]:
    """Return the levels of categorical features, and the features in the order of the trees."""
    order = np.arange(model.n_features_in_)
    if model.is_categorical_ is None or not np.any(model.is_categorical_):
        return {}, order
    # The trees get categories as codes, with the categorical columns first.
    order = np.argsort(~np.asarray(model.is_categorical_, dtype=bool), kind="stable")
    found = model._preprocessor.named_transformers_["encoder"].categories_
    if any(values.dtype.kind not in "biuf" for values in found):
        raise SqlError("categories that are texts cannot be exported; encode them as numbers.")
    return {int(f): values for f, values in zip(order, found, strict=False)}, order


def _members(bits: NDArray[np.uint32]) -> NDArray[np.bool_]:
    """Return which codes are in a bit set."""
    return np.unpackbits(np.ascontiguousarray(bits).view(np.uint8), bitorder="little").astype(bool)


def _numeric_branch(
    statement: Statement, feature: Feature, threshold: float, missing_left: bool
) -> Branch:
    if isinstance(feature, Numeric):
        return branch_at(feature, threshold, missing_left, statement.dialect)
    return branch_of(
        feature,
        lambda value: missing_left if np.isnan(value) else value <= threshold,
        statement.dialect,
    )


def _tree(
    statement: Statement,
    features: Sequence[Feature],
    left: NDArray[np.integer],
    right: NDArray[np.integer],
    value: NDArray[np.floating],
    branch: Callable[[int], Branch],
) -> Sql:
    """Add the column of a tree; return it. ``left`` is -1 at leaves."""

    def written(node: int) -> str:
        if left[node] == -1:
            return statement.dialect.number(float(value[node]))
        condition, goes_left = branch(node)
        first, second = (left[node], right[node]) if goes_left else (right[node], left[node])
        if condition is None:
            return written(int(first))
        return f"CASE WHEN {condition} THEN {written(int(first))} ELSE {written(int(second))} END"

    sources = [f.value if isinstance(f, Numeric) else f.source for f in features]
    # Without a cast, constants are decimal numbers in PostgreSQL.
    value_of_leaf = statement.dialect.cast(written(0), statement.dialect.double)
    return statement.define("tree", expression(value_of_leaf, *sources))
