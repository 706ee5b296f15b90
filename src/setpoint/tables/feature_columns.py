"""The features of a table's encoder: from which column each comes, and how it is computed."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from setpoint.estimators.linear import linear_score
from setpoint.explain.coefficients import (
    MISSING_VALUE,
    OTHER_VALUE,
    Coefficient,
    Coefficients,
)
from setpoint.tables.encoder import CATEGORIES, encoder_parts

_WAVES = {"_circular_0": " (sine)", "_circular_1": " (cosine)"}


@dataclass(frozen=True)
class FeatureOf:
    """A feature of a column.

    Attributes
    ----------
    column : str
        The column.
    part : str
        What of the column; empty if the feature is the column itself.
    level : str or None
        The category whose rows have the feature 1, and others 0.
    centre, width, limit : float
        A number x becomes z / sqrt(1 + (z / limit)²) with z = (x - centre) / width. Without
        squashing the limit is infinite.
    missing : float or None
        The feature where the column is missing.
    is_mark : bool
        Whether it is 1 where the column is missing, and otherwise 0.
    """

    column: str
    part: str = ""
    level: str | None = None
    centre: float = 0.0
    width: float = 1.0
    limit: float = math.inf
    missing: float | None = None
    is_mark: bool = False


def features_of(encoder: Any) -> list[FeatureOf]:
    """Return the features of a fitted encoder, in order."""
    found: list[FeatureOf] = []
    for part in encoder_parts(encoder):
        for step, transformer, columns in part.transformers_:
            names = [columns] if isinstance(columns, str) else list(columns)
            if step == "remainder" or not names:
                continue
            where = part.output_indices_[step]
            found += _of_step(step, transformer, names, where.stop - where.start)
    return found


def table_coefficients(encoder: Any, classifier: Any) -> Coefficients:
    """Return the coefficients of a linear model of a table, in the units of its columns.

    A category has a coefficient for each value, against the one that was the most frequent in
    training.
    """
    score, features = linear_score(classifier), features_of(encoder)
    intercept = score.intercept
    found: list[Coefficient] = []
    deviations = (
        score.deviations if score.deviations is not None else np.full(len(features), np.nan)
    )
    for i, feature in enumerate(features):
        if feature.level is not None:
            continue
        weight, deviation = float(score.weights[i]), float(deviations[i])
        if feature.is_mark:
            found.append(
                Coefficient(feature.column, feature.part, weight, weight * deviation, MISSING_VALUE)
            )
            continue
        # In units of the column: the feature is (counts_as(x) - centre) / width.
        coefficient = weight / feature.width
        intercept -= coefficient * feature.centre
        missing = feature.missing
        found.append(
            Coefficient(
                feature.column, feature.part, coefficient, weight * deviation,
                centre=feature.centre, limit=feature.limit * feature.width,
                missing=None if missing is None else feature.centre + missing * feature.width,
            )
        )  # fmt: skip
    for column in dict.fromkeys(f.column for f in features if f.level is not None):
        own = [i for i, f in enumerate(features) if f.column == column]
        # The mean of a feature of 0 and 1 is the share of its value.
        shares = np.zeros(len(own)) if score.means is None else score.means[own]
        reference = own[int(np.argmax(shares))]
        base = float(score.weights[reference])
        intercept += base
        against = _shown(features[reference].level)
        for i in own:
            if i != reference:
                weight, level = float(score.weights[i]) - base, features[i].level
                part = f"= {_shown(level)}"
                found.append(
                    Coefficient(
                        column, part, weight, weight * float(deviations[i]), level, against
                    )
                )  # fmt: skip
        # All features of a value that training has not seen are 0.
        found.append(Coefficient(column, f"= {OTHER_VALUE}", -base, 0.0, OTHER_VALUE, against))
    return Coefficients(found, intercept, score.of)


def _shown(level: str | None) -> str:
    return MISSING_VALUE if level == "" else str(level)


def _of_step(step: str, transformer: Any, names: list[str], width: int) -> list[FeatureOf]:
    """Return the features of one step of an encoder."""
    parts = [one for _, one in getattr(transformer, "steps", [("", transformer)])]
    if step in CATEGORIES and hasattr(parts[-1], "get_feature_names_out"):
        encoder = parts[-1]
        if hasattr(encoder, "unknown_value"):  # numbered, for trees
            return [FeatureOf(name) for name in names]
        return [
            FeatureOf(name, level=str(level))
            for name, levels in zip(names, encoder.categories_, strict=True)
            for level in levels
        ]
    if step.startswith("date_"):
        (name,) = names
        made = [str(m).removeprefix(f"{name}_") for m in parts[0].get_feature_names_out([name])]
        for ending, wave in _WAVES.items():  # of the day, the hour and so on, as an angle
            made = [part.replace(ending, wave) for part in made]
        if len(parts) == 1:
            return [FeatureOf(name, part) for part in made]
        return _imputed([(name, part) for part in made], parts[1], parts[2])
    if step.startswith(("letters_", "text_")):
        return [FeatureOf(names[0], f"letters {i + 1}") for i in range(width)]
    if step.startswith(("numbers", "booleans")) and not isinstance(transformer, str):
        squasher = parts[0] if len(parts) > 1 else None
        if hasattr(parts[-1], "statistics_"):
            return _imputed([(name, "") for name in names], squasher, parts[-1])
    return [FeatureOf(name) for name in names]


def _imputed(names: list[tuple[str, str]], squasher: Any, imputer: Any) -> list[FeatureOf]:
    """Return numbers that are squashed, if there is a ``squasher``, and marks of missing ones."""
    found = []
    for i, ((column, part), fill) in enumerate(zip(names, imputer.statistics_, strict=True)):
        centre, width, limit = (0.0, 1.0, math.inf) if squasher is None else _scale(squasher, i)
        missing = 0.0 if np.isnan(fill) else float(fill)
        found.append(FeatureOf(column, part, None, centre, width, limit, missing))
    if imputer.add_indicator:
        for i in imputer.indicator_.features_:
            column, part = names[i]
            found.append(FeatureOf(column, f"{part} is missing".lstrip(), is_mark=True))
    return found


def _scale(scaler: Any, i: int) -> tuple[float, float, float]:
    """Return centre, width and limit by which a SquashingScaler scales a column."""
    limit = float(scaler.max_absolute_value)
    if scaler.minmax_cols_[i]:
        place = int(np.sum(scaler.minmax_cols_[:i]))
        own = scaler.minmax_scaler_
        return float(own.median_[place]), 1 / float(own.scale_[place]), limit
    if not scaler.zero_cols_[i]:
        place = int(np.sum(scaler.robust_cols_[:i]))
        centre = float(scaler.robust_scaler_.center_[place])
        width = float(scaler.robust_scaler_.scale_[place])
        if np.isfinite([centre, width]).all():
            return centre, width, limit
    return 0.0, 1.0, 0.0  # the same, or missing, in all training rows: the feature is always 0
