"""Linear models as SQL, with the roundings of the model's 32-bit arithmetic."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from setpoint.export.sql.features import Discrete, Feature
from setpoint.export.sql.statement import Sql, Statement, expression


@dataclass(frozen=True)
class Scaling:
    """Features less their centre, divided by their scale.

    ``roundings`` is 1 if the result is rounded to a 32-bit float, 2 if the difference is as well.
    """

    centre: NDArray[np.float64]
    scale: NDArray[np.float64]
    roundings: int = 0

    @classmethod
    def of_standardizer(cls, standardizer: Any) -> Scaling:
        """Return how a SetpointClassifier scales features."""
        single = standardizer.dtype == np.float32
        return cls(standardizer.centre, standardizer.scale, int(single))

    @classmethod
    def of_scaler(cls, scaler: Any, single: bool) -> Scaling:
        """Return how scikit-learn's StandardScaler scales 32-bit or 64-bit features."""
        n = scaler.n_features_in_
        centre = np.zeros(n) if scaler.mean_ is None or not scaler.with_mean else scaler.mean_
        scale = np.ones(n) if scaler.scale_ is None else scaler.scale_
        if single:
            return cls(_single(centre), _single(scale), 2)
        return cls(np.asarray(centre), np.asarray(scale))

    def of(self, feature: int, value: float) -> float:
        """Return a scaled value."""
        found = value - self.centre[feature]
        found = float(_single(found)) if self.roundings > 1 else found
        found = found / self.scale[feature]
        return float(_single(found)) if self.roundings else float(found)

    def write(self, statement: Statement, name: str, feature: int, value: Sql) -> Sql:
        """Add columns for a scaled feature; return it."""
        number = statement.dialect.number
        less = expression(f"{value.text} - {number(self.centre[feature])}", value)
        if self.roundings > 1:
            less = statement.rounded(f"{name}_centred", less)
        else:
            less = expression(f"({less.text})", less)
        found = expression(f"{less.text} / {number(self.scale[feature])}", less)
        if self.roundings:
            return statement.rounded(f"{name}_scaled", found)
        return expression(f"({found.text})", found)


def linear_scores(
    statement: Statement,
    features: Sequence[Feature],
    scaling: Scaling | None,
    weights: NDArray[Any],
    bias: float,
    *,
    single: bool = False,
) -> Sql:
    """Add the sum of weighted features; return its column.

    ``single`` says that features which are not scaled are rounded to 32-bit floats.
    """
    number = statement.dialect.number
    terms = [Sql(number(float(bias)))]
    by_source: dict[str, list[tuple[int, Discrete]]] = {}
    for i, feature in enumerate(features):
        constant = scaling is not None and np.isinf(scaling.scale[i])
        if constant or weights[i] == 0:
            continue
        if isinstance(feature, Discrete):
            by_source.setdefault(feature.source.text, []).append((i, feature))
            continue
        value, name = feature.value, f"feature_{i + 1}"
        if feature.single or (single and scaling is None):
            value = statement.rounded(name, value)
        if scaling is not None:
            value = scaling.write(statement, name, i, value)
        terms.append(expression(f"{number(float(weights[i]))} * {value.text}", value))
    for several in by_source.values():

        def total(of: Any, several: list[tuple[int, Discrete]] = several) -> str:
            found = 0.0
            for i, feature in several:
                value = float(of(feature))
                found += float(weights[i]) * (value if scaling is None else scaling.of(i, value))
            return number(found)

        terms.append(_chosen(statement, [feature for _, feature in several], total))
    found = (
        statement.sum("linear", terms) if len(terms) > 1 else statement.define("linear", terms[0])
    )
    if all(isinstance(f, Discrete) or np.isfinite(f.largest) for f in features):
        return found
    # Python refuses rows with infinite features; here they have no score, and no NaN.
    finite = f"ABS({found.text}) <= {number(sys.float_info.max)}"
    return statement.define(
        "finite", expression(f"CASE WHEN {finite} THEN {found.text} END", found)
    )


def _chosen(statement: Statement, features: list[Discrete], total: Any) -> Sql:
    """Add a column with a number for each value of a source; return it."""
    source = features[0].source
    keys = dict.fromkeys(key for feature in features for key in feature.values)
    cases = [
        f"WHEN {source.text} = {statement.dialect.literal(key)} "
        f"THEN {total(lambda f, key=key: f.values.get(key, f.default))}"
        for key in keys
    ]
    if any(feature.null is not None for feature in features):
        null = total(lambda f: f.default if f.null is None else f.null)
        cases.insert(0, f"WHEN {source.text} IS NULL THEN {null}")
    text = f"CASE {' '.join(cases)} ELSE {total(lambda f: f.default)} END"
    text = statement.dialect.cast(text, statement.dialect.double)  # PostgreSQL: else a decimal
    return statement.define(f"{source.text.partition('_')[2]}_term", expression(text, source))


def _single(value: Any) -> Any:
    return np.asarray(np.asarray(value, dtype=np.float32), dtype=np.float64)


def sigmoid(statement: Statement, logit: Sql) -> Sql:
    """Add the probability of a logit; return its column."""
    # Beyond 700 the exponential is out of range, an error in PostgreSQL. GREATEST and LEAST would
    # turn NULL into a number in some databases.
    z = logit.text
    z = f"CASE WHEN {z} > 700e0 THEN 700e0 WHEN {z} < -700e0 THEN -700e0 ELSE {z} END"
    return statement.define("probability", expression(f"1e0 / (1e0 + EXP(-({z})))", logit))
